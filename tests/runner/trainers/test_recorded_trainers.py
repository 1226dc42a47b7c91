"""Trainers that are known by tables of facts: a stand-in of each is killed, goes on, and leaves nothing out."""

from pathlib import Path

import pytest

from runner.training.trial import read_points
from tests.runner.trainers.standins import standin_config
from tests.runner.trainers.test_failures import LAST, trained

RECORDED = ("prime-rl", "nemo-rl", "slime")
DUMPING = RECORDED  # each writes every answer of a validation, of which the error of a score is made


@pytest.mark.parametrize("trainer", RECORDED)
def test_a_killed_trial_goes_on_and_every_point_is_read_once(trainer: str, tmp_path: Path) -> None:
    own = {"stands_for": trainer, "gated": False, "save_every_steps": 3}
    plain = tmp_path / "undisturbed"
    assert trained(standin_config(), plain) == []
    faults = [{"kind": "killed", "at_step": 5}, {"kind": "cut-line", "at_step": 2, "attempts": 0}]

    failures = trained(standin_config(**own, faults=faults), tmp_path / "killed")

    assert [failure.kind for failure in failures] == ["lost"]
    points, expected = read_points(tmp_path / "killed"), read_points(plain)
    assert [point.optimizer_step for point in points] == list(range(LAST + 1))
    assert [point.tokens for point in points] == [point.tokens for point in expected]
    for name in ("score", "score_standard_error") if trainer in DUMPING else ("score",):
        said = {point.optimizer_step: getattr(point, name) for point in points if point.score is not None}
        told = {point.optimizer_step: getattr(point, name) for point in expected if point.score is not None}
        assert said == pytest.approx(told)


@pytest.mark.parametrize("trainer", RECORDED)
def test_a_torn_checkpoint_is_put_aside_for_the_one_before(trainer: str, tmp_path: Path) -> None:
    own = {"stands_for": trainer, "gated": False, "save_every_steps": 2}
    faults = [{"kind": "torn-checkpoint", "at_step": 4}, {"kind": "killed", "at_step": 5}]

    failures = trained(standin_config(**own, faults=faults), tmp_path)

    assert [failure.kind for failure in failures] == ["lost", "checkpoint"]
    steps = [point.optimizer_step for point in read_points(tmp_path)]
    assert steps == list(range(LAST + 1))
