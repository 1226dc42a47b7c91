"""TRL's own parser looks at a trial before anything is spent, in TRL's own environment."""

import pytest

from runner.trainers.trl.driver import TrlDriver
from tests.trl.test_trainer import trial


@pytest.mark.parametrize("processes", [1, 2])
def test_trl_accepts_what_rlplan_gives_it(processes: int) -> None:
    assert TrlDriver().rehearse(trial(processes=processes)) == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"no_such_setting": 1}, "unexpected keyword argument 'no_such_setting'"),
        ({"hub_strategy": "sometimes"}, "sometimes is not a valid HubStrategy"),
    ],
)
def test_what_trl_refuses_is_told_in_its_words(settings: dict[str, object], said: str) -> None:
    (refusal,) = TrlDriver().rehearse(trial(settings=settings))
    assert refusal.startswith("TRL refused its configuration: ")
    assert said in refusal
