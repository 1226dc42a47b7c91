"""The engine built on PyTorch keeps the port's promises."""

from collections.abc import Callable
from copy import deepcopy

import pytest

from runner.engines.torch_engine import TorchEngine
from runner.ports.engine import RolloutEngine
from tests.conformance.rollout_engine import RolloutEngineSuite
from tests.conformance.tiny_llama import END, PAD, tiny_llama


@pytest.fixture(
    params=[{}, {"max_rows": 3}, {"weights": "float32"}], ids=["shared", "three-rows-at-a-time", "own-copy"]
)
def make_engine(request: pytest.FixtureRequest) -> Callable[[], RolloutEngine]:
    """Makes engines with a model of their own."""
    return lambda: TorchEngine(deepcopy(tiny_llama(0)), end_id=END, pad_id=PAD, **request.param)


@pytest.fixture
def engine(make_engine: Callable[[], RolloutEngine]) -> RolloutEngine:
    """A new engine at version 0."""
    return make_engine()


class TestTorchEngine(RolloutEngineSuite):
    """The promises of the port."""
