"""The command lines of docs/replay.md that need a table are run on one."""

import re
import shlex
from pathlib import Path

import pytest

from rlplan.preview_running import FEWEST_DRAWS, MOST_DRAWS
from runner.simulation.drawn import MODERATE
from tests.planner.replaying.tables import grid
from tests.rlplan.conftest import Run
from tests.rlplan.test_replay_command import write

DOCUMENT = (Path(__file__).parents[2] / "docs" / "replay.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^rlplan replay .*$", DOCUMENT, re.MULTILINE)


def test_there_are_commands() -> None:
    assert len(COMMANDS) >= 3


@pytest.mark.parametrize("command", COMMANDS)
def test_every_replay_works(run: Run, tmp_path: Path, command: str) -> None:
    write(tmp_path / "runs.csv", grid(cells=6, seeds=1, points=12))
    ran = run(*shlex.split(command)[1:])
    assert (ran.code, ran.err) == (0, "")
    assert ran.out


def test_the_rates_are_those_of_the_worlds() -> None:
    said = " ".join(DOCUMENT.split())
    crossing, late, second, slide, collapse = (
        f"{100 * rate:g} %"
        for rate in (MODERATE.crossing, MODERATE.late_start, MODERATE.second_rise, MODERATE.slide, MODERATE.collapse)
    )
    assert f"end higher than their neighbours ({crossing}), start late ({late}), rise twice ({second})" in said
    assert f"slide after a peak ({slide}), and {collapse} of the runs collapse" in said
    assert f"from {FEWEST_DRAWS} to {MOST_DRAWS} of them" in said
