"""The engine under test; starting vLLM takes seconds, so tests share one as far as they can.

They need vLLM's own environment (`make test-vllm`); elsewhere there is nothing here to collect.
"""

import gc
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import pytest

from runner.engines.vllm_engine import VllmEngine
from tests.conformance.tiny_llama import CONTEXT, END, PAD, saved, tiny_llama

collect_ignore_glob = [] if find_spec("vllm") else ["*.py"]


class Shared:
    """The one vLLM engine that this process can have, made again when a test has closed it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.engine: VllmEngine | None = None

    def new(self) -> VllmEngine:
        self.close()
        self.engine = VllmEngine(self.path, end_id=END, pad_id=PAD, context=CONTEXT)
        return self.engine

    def with_first_weights(self) -> VllmEngine:
        if self.engine is None:
            return self.new()
        self.engine.load_weights(tiny_llama(0).state_dict().items())
        return self.engine

    def close(self) -> None:
        if self.engine is not None:
            self.engine.close()
        self.engine = None
        gc.collect()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    holder = Shared(saved(tiny_llama(0), tmp_path_factory.mktemp("model")))
    yield holder
    holder.close()


@pytest.fixture
def make_engine(shared: Shared) -> Iterator[Callable[[], VllmEngine]]:
    yield shared.new
    shared.close()


@pytest.fixture
def engine(shared: Shared) -> VllmEngine:
    return shared.with_first_weights()
