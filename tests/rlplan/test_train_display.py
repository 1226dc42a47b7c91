import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from rlplan.actions.train_request import TrainingRun, TrainRequest, new_run
from rlplan.actions.training import History
from rlplan.live.train_display import Pace, TrainTerminal
from rlplan.wording.sparkline import sparkline, thinned
from runner.ports.backend import Point
from tests.rlplan.pseudo_terminal import at_a_terminal

ROOT = Path(__file__).parents[2]
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def point(step: int, score: float | None = None, **metrics: float) -> Point:
    error = None if score is None else 0.01
    return Point(step, 512 * step, 2560 * step, 2.0 * step, step / 1800, score, error, metrics)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrainingRun:
    monkeypatch.chdir(tmp_path)
    return new_run(TrainRequest(task="sum-easy"))[0]


def drawn(run: TrainingRun, points: list[Point], width: int = 80, *, unicode: bool = True) -> list[str]:
    """Return what stands on a terminal after some points."""
    file = io.TextIOWrapper(io.BytesIO(), encoding="utf-8" if unicode else "ascii")
    panel, history = TrainTerminal(Console(file=file, width=width)), History()
    panel.opening(run, Path("runs/sum-easy-easy-n16-B32-seed0"))
    panel.began(run, history)
    for each in points:
        history.add(each)
        panel.point(each)
    panel.close()
    console = Console(file=io.StringIO(), width=width)
    console.print(panel.render())
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_the_panel_at_80_columns(run: TrainingRun) -> None:
    points = [point(0, 0.4)] + [
        point(step, 0.4 + step / 200 if step % 5 == 0 else None, pass_rate=0.5, entropy=0.25, truncated_share=0.031)
        for step in range(1, 46)
    ]
    lines = drawn(run, points)
    assert lines[0] == "sum-easy, recipe easy, n 16 × B 32, runs/sum-easy-easy-n16-B32-seed0"
    assert lines[1].endswith("step  45/100    110 s left")
    assert lines[2] == "score      0.625 ± 0.010  ▁▁▂▃▄▅▆▇██  at step 45"
    assert lines[3] == "pass rate  0.500  entropy 0.250  truncated 3.1%       256 rollouts/s"


def test_the_panel_keeps_its_height_and_width(run: TrainingRun) -> None:
    measured = {"pass_rate": 0.5, "entropy": 0.25, "truncated_share": 0.0}
    growing = [point(0, 0.4), *(point(step, 0.4 + step / 300, **measured) for step in range(1, 101))]
    for count in (1, 2, 3, 50, 101):
        lines = drawn(run, growing[:count])
        assert len(lines) == 4
        assert max(map(len, lines)) <= 76  # a terminal's own ^C has room


def test_what_is_not_known_yet_is_a_dash(run: TrainingRun) -> None:
    lines = drawn(run, [])
    assert lines[1].endswith("step   0/100        – left")
    assert lines[2] == "score      –"
    assert lines[-1] == "scoring the base model"


def test_a_terminal_without_unicode_gets_plain_marks(run: TrainingRun) -> None:
    line = drawn(run, [point(0, 0.4), point(1, 0.6)], unicode=False)[2]
    assert "_#" in line


def test_a_narrow_terminal_cuts_lines_rather_than_wrapping_them(run: TrainingRun) -> None:
    lines = drawn(run, [point(0, 0.4), point(1, 0.6)], width=40)
    assert len(lines) == 4
    assert max(map(len, lines)) <= 36


def test_sparklines_show_the_range_but_no_noise() -> None:
    assert sparkline([0.0, 0.5, 1.0], 10) == "▁▅█"
    assert sparkline([0.50, 0.51, 0.50], 10) == "▁▁▁"
    assert len(sparkline([i / 100 for i in range(100)], 20)) == 20
    assert sparkline([], 10) == ""


@pytest.mark.parametrize("most", [1, 2, 7, 40])
def test_thinning_keeps_the_ends(most: int) -> None:
    values = thinned(range(40), most)
    assert len(values) == most
    assert values[-1] == 39
    assert most == 1 or values[0] == 0
    assert values == sorted(set(values))


def test_the_pace_is_that_of_the_last_points() -> None:
    pace = Pace()
    assert pace.rollouts_per_second is None
    for step in range(60):
        pace.add(point(step))
    assert pace.rollouts_per_second == 256
    assert pace.left(61) == "4 s"


def trained(tmp_path: Path, **env: str) -> tuple[int, str, str]:
    """Train at a terminal, with updates that are there at once."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    @contextmanager
    def fed() -> Iterator[None]:
        with pipe.open("wb", buffering=0) as updates:
            updates.write(b"....")
            yield

    command = [sys.executable, "-m", "tests.rlplan.train_backend", str(pipe), "train", "--task", "sum-easy"]
    return at_a_terminal([*command, "--steps", "4", "--out", str(tmp_path / "here")], ROOT, fed, **env)


def test_a_terminal_gets_a_panel_that_goes_away_and_stdout_only_the_result(tmp_path: Path) -> None:
    code, out, err = trained(tmp_path)
    assert code == 0
    assert "rollouts/s" in err
    assert err.count("\x1b[?25l") == err.count("\x1b[?25h") == 1  # the cursor is hidden and shown again
    assert "\x1b" not in out
    assert out.splitlines()[0].split()[0] == "step"
    assert max(len(line) for line in CODES.sub("", err).replace("\r", "\n").splitlines()) <= 76


def test_no_color_is_heeded_and_a_dumb_terminal_gets_lines(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert "\x1b[3" not in trained(tmp_path / "a", NO_COLOR="1")[2]
    code, _, err = trained(tmp_path / "b", TERM="dumb")
    assert code == 0
    assert "\x1b" not in err
    assert "step 4/4, 2,048 rollouts" in err
