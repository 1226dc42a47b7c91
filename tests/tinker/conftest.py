"""These tests need SkyRL's tx and Tinker's SDK, whose environment is its own (`make test-tinker`)."""

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from planner.config.trainer import TrainerChoice
from planner.recipes.schema import Recipe
from runner.ports.trial import TaskChoice, TrialConfig, ValidationPlan
from tests.tinker.serving import KEY, Proxy, Server

if TYPE_CHECKING:
    from runner.trainers.backend import DrivenBackend

collect_ignore_glob = [] if find_spec("tx") and find_spec("tinker") else ["*.py"]

PRICES = {"prefill": 1.0, "sample": 2.0, "train": 3.0}
Made = Callable[..., TrialConfig]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a server of the model of sum-easy, which has compiled nothing yet."""
    running = Server(tmp_path_factory.mktemp("server"))
    running.start()
    yield running
    running.stop()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    """Yield what stands before the server and may answer in its place."""
    between = Proxy(server.url)
    yield between
    between.close()


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINKER_API_KEY", KEY)


@pytest.fixture
def made(server: Server) -> Made:
    """Return what makes a trial of 16 rollouts a step, scored in every second one."""

    def make(url: str = "", recipe: dict[str, object] | None = None, **options: object) -> TrialConfig:
        described = {"base_url": url or server.url, "model": server.model, "lora_rank": 8, "per_million": PRICES}
        return TrialConfig(
            task=TaskChoice(name="sum-easy"),
            recipe=Recipe.model_validate({"name": "plain", "optimizer": {"clip_norm": None}, **(recipe or {})}),
            rollouts_per_prompt=4,
            prompts_per_batch=4,
            learning_rate=3e-4,
            validation=ValidationPlan(problems=8, samples=2, every_rollouts=32),
            trainer=TrainerChoice(name="tinker", options={**described, **options}),
        )

    return make


@pytest.fixture
def config(made: Made) -> TrialConfig:
    """Return the trial that every backend is asked to train."""
    return made()


@pytest.fixture
def new_backend() -> Iterator[Callable[[], "DrivenBackend"]]:
    """Return what makes a backend, and close all that were made."""
    from runner.trainers.backend import DrivenBackend
    from runner.trainers.tinker.driver import DRIVER

    backends: list[DrivenBackend] = []

    def new() -> DrivenBackend:
        backends.append(DrivenBackend(DRIVER))
        return backends[-1]

    yield new
    for backend in backends:
        backend.close()
