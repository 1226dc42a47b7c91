"""What a final run is warned of by what its updates say, as it is read back from the database."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from planner.store import open_store
from planner.store.schema import Decision
from rlplan.actions import sweeping
from rlplan.actions.launching import LaunchRequest, launch
from rlplan.printing.sweep_output import print_finished
from rlplan.wording.formats import Format
from runner.ports.backend import Point
from runner.ports.executor import Event, Progress
from tests.rlplan.test_sweeping import Simulated


class Diverging(Simulated):
    """Has the loss of one update be no number, as where an update is skipped and the run goes on."""

    spoilt = False

    def wait(self, seconds: float) -> Sequence[Event]:
        return [self._spoilt(event) if isinstance(event, Progress) else event for event in super().wait(seconds)]

    def _spoilt(self, event: Progress) -> Progress:
        return replace(event, points=tuple(self._with_loss(point) for point in event.points))

    def _with_loss(self, point: Point) -> Point:
        loss = 0.1 if self.spoilt or not point.optimizer_step else math.nan
        self.spoilt = self.spoilt or point.optimizer_step > 0
        return replace(point, metrics={**point.metrics, "loss": loss, "grad_norm": 1.0})


def test_a_loss_that_is_no_number_is_warned_of_once(
    swept: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sweeping, "RayExecutor", Diverging)
    ended = launch(LaunchRequest(validations=8), swept)
    with open_store(swept, read_only=True) as store, store.read() as session:
        told = session.query(Decision).filter(Decision.action == "warning")
        (reason,) = [each.reason for each in told if each.seen["rule"] == "not-finite"]
    assert "--from-best --learning-rate " in reason
    assert print_finished(ended, swept, Format.JSON) == 5
    warnings = json.loads(capsys.readouterr().out)["final"]["warnings"]
    (said,) = [each["said"] for each in warnings if each["rule"] == "not-finite"]
    assert "loss is not a finite number in update" in said
