"""`rlplan price --measure`: a few steps are trained here, and count for the price of their set-up."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from budgets.errors import InputError
from planner.config.request import recipe_traits
from planner.store import open_store
from rlplan.actions.configuration import load_configuration
from rlplan.commands import price_measure as measuring
from rlplan.commands.price_measure import MeasuredSteps, measure
from runner.ports.backend import Point, Segment
from runner.ports.trial import TrialConfig
from runner.sweep.plan import SweepChoice
from tests.rlplan.conftest import Run
from tests.rlplan.test_screens import next_of

ROOT = Path(__file__).parents[2]
SUMS = ("--task", "sum-easy", "-n", "4", "-B", "4")
COMMAND = f"""
command = '''{{python}} {ROOT}/tests/conformance/own_trainer.py --group-size {{rollouts_per_prompt}} --seed {{seed}}
  --batch-size {{prompts_per_batch}} --steps {{to_step}} --eval-every {{validate_every}} --lr {{learning_rate}}'''
resume = "--resume {{resume_from}}"
began = "^ready"
metrics = {{file = "log.jsonl", columns = {{step = "it", score = "eval/acc", response_tokens = "length"}}}}
checkpoints = {{pattern = "ckpt/it-{{step}}", complete = "done"}}
"""


def test_steps_of_our_trainer_narrow_the_price_and_can_be_taken_back(run: Run) -> None:
    before = run.json("price", *SUMS)["seconds_per_step"]
    shown = run("price", "--measure", *SUMS).out.splitlines()
    after = run.json("price", *SUMS)["seconds_per_step"]

    assert len(shown) <= 24
    assert max(map(len, shown)) <= 80
    assert {"generate", "train", "a step"} <= {line.partition("  ")[0] for line in shown}
    assert after["high"] / after["low"] < 0.5 * before["high"] / before["low"]
    assert not Path("rlplan-sweeps").exists()

    in_full, back = next_of("\n".join(shown))
    assert run(*in_full[1:]).code == 0
    assert run(*back[1:]).code == 0
    assert run.json("price", *SUMS)["seconds_per_step"] == before


def test_a_trainer_described_by_a_file_is_measured_as_a_whole_in_place_of_what_it_took_before(run: Run) -> None:
    Path("mine.toml").write_text(COMMAND)
    for _ in range(2):
        found = run.json("price", "--measure", *SUMS, "--trainer", "mine.toml")
    with open_store("rlplan.db") as store:
        (record,) = store.cost_records()

    assert [each["phase"] for each in found["phases"]] == ["a step"]
    assert record.seconds == {"step": pytest.approx(found["phases"][0]["measured_seconds"])}
    assert (record.trainer, record.steps, record.source) == ("command", 3, found["source"])


@pytest.mark.parametrize(
    ("flags", "gpus", "said"),
    [
        ([], 64.0, "no step can be trained without problems: give --problems FILE.jsonl"),
        ([*SUMS, "--trainer", "standin"], 0.0, "a stand-in trains nothing"),
        (["--trainer", "verl", "--gpus", "4"], 2.0, "needs 4 h100, and this machine has 2 GPUs"),
        (["--trainer", "prime-rl", "--gpus", "4"], 4.0, "generates while it trains"),
        (
            [*SUMS, "--trainer", "trl", "--recipe", "dapo", "-B", "64"],
            0.0,
            "does not say how many rollouts",
        ),
    ],
)
def test_what_cannot_be_measured_here_is_refused_and_nothing_is_made(
    run: Run, monkeypatch: pytest.MonkeyPatch, flags: list[str], gpus: float, said: str
) -> None:
    monkeypatch.setattr(measuring, "machine", lambda: (2.0, gpus))
    ran = run("price", "--measure", *flags)
    assert ran.code == 2
    assert said in ran.err
    assert list(Path().iterdir()) == []


class Fake:
    """A backend whose updates take what it is told, one after the other; it may break down."""

    def __init__(self, updates: list[dict[str, float]], error: BaseException | None = None) -> None:
        self._updates, self._error = updates, error
        self.closed = False

    def start(self, config: TrialConfig, folder: Path) -> None:
        (folder / "weights").write_text(config.model_dump_json())

    def advance(self, segment: Segment) -> Iterator[Point]:
        for step, seconds in enumerate(self._updates[: segment.to_step], start=1):
            metrics = {"seconds": seconds, "response_tokens": 4.0, "generated_rollouts": 20.0, "trained_rollouts": 16.0}
            yield Point(step, 20 * step, 80 * step, 1.0, 0.0, metrics=metrics)
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        self.closed = True


def measured(monkeypatch: pytest.MonkeyPatch, folder: Path, backend: Fake, recipe: str = "easy") -> MeasuredSteps:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(measuring, "open_backend", lambda config: backend)
    resolved = load_configuration(None, "sum-easy", {"recipe.name": ("--recipe", recipe)})
    updates = recipe_traits(resolved.config).updates_per_batch
    return measure(resolved, 4, 4 * updates, SweepChoice(), "rlplan.db")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), None])
def test_a_measurement_that_ends_early_stores_nothing_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException | None
) -> None:
    backend = Fake([{"generate": 1.0, "train": 1.0}] * 3, error)
    with pytest.raises(InputError if error is None else KeyboardInterrupt):
        measured(monkeypatch, tmp_path, backend)
    assert backend.closed
    assert list(tmp_path.iterdir()) == []


def test_of_several_updates_a_batch_the_batch_is_stored_and_an_update_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = [{"generate": 16.0, "train": 1.0}, *[{"train": 1.0, "other": 0.5}] * 15]
    found = measured(monkeypatch, tmp_path, Fake([{"train": 9.0}] * 16 + 3 * batch), "dapo")
    with open_store("rlplan.db") as store:
        (record,) = store.cost_records()

    assert record.seconds == {"generate": 16.0, "train": 16.0, "other": 7.5}
    assert (record.updates_per_step, record.generated_rollouts, record.trained_rollouts) == (16, 320, 256)
    took = {each.phase: each.measured_seconds for each in found.phases}
    assert took == {"generate": 1.0, "train and the rest": 1.46875, "a step": 2.46875}
