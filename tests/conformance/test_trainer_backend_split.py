"""The split backend keeps the promises of the port, and its bound on staleness, with two real Ray actors."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import ray

from budgets.errors import InputError
from planner.recipes import load_recipe
from planner.recipes.schema import Filters, Recipe, Schedule
from runner.backends.split import SplitBackend
from runner.ports.backend import Segment
from runner.ports.trial import TrialConfig
from tests.conformance.grpo_backend import assert_measured
from tests.conformance.trainer_backend import *  # noqa: F403
from tests.runner.words import save_words, words_config

ROOT = str(Path(__file__).parents[2])


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    paths = os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH", "")]))
    environment = {"env_vars": {"PYTHONPATH": paths}}
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=environment)
    yield
    ray.shutdown()


@pytest.fixture
def new_backend() -> Iterator[Callable[[], SplitBackend]]:
    made: list[SplitBackend] = []

    def new() -> SplitBackend:
        made.append(SplitBackend())
        return made[-1]

    yield new
    for backend in made:
        backend.close()


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> TrialConfig:
    # Without the filter, every update has something to train on and to measure.
    recipe = load_recipe("magistral").model_copy(update={"filters": Filters()})
    return words_config(save_words(tmp_path_factory.mktemp("words")), recipe, split=True)


def test_every_update_is_measured_and_staleness_stays_within_the_bound(config: TrialConfig, tmp_path: Path) -> None:
    recipe = config.recipe.model_copy(update={"schedule": Schedule(staleness_bound=2)})
    backend = SplitBackend()
    backend.start(config.model_copy(update={"recipe": recipe}), tmp_path)
    points = list(backend.advance(Segment(10)))[1:]
    backend.close()
    assert max(point.metrics["staleness"] for point in points) <= 2
    assert {"generator_wait_seconds", "trainer_wait_seconds"} <= points[-1].metrics.keys()
    assert_measured(points[-1])


def test_a_recipe_without_staleness_cannot_be_split(config: TrialConfig, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"schedule.staleness_bound = 0.*Take a recipe such as scalerl"):
        SplitBackend().start(config.model_copy(update={"recipe": Recipe(name="r")}), tmp_path)
