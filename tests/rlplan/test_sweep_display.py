"""How a sweep is followed: the lines of a pipe, the screen of a terminal, and a database that cannot be read."""

import fcntl
import io
import os
import pty
import re
import sqlite3
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from planner.store.schema import Decision, SegmentOutcome, SweepStatus, Trial
from planner.view import ScorePoint, TrialState
from rlplan.actions.sweeping import start
from rlplan.live.sweep_display import READY, STOPPING, Lines, Terminal
from rlplan.live.sweep_running import Follower, followed
from rlplan.live.sweep_screen import screen
from rlplan.reading.sweep_picture import Driver, Forecast, Money, Picture, TrialRow
from rlplan.reading.sweep_rows import picture
from rlplan.reading.sweep_words import reached, time_of
from rlplan.wording.screen import Canvas
from tests.rlplan.stored_rows import rows
from tests.rlplan.sweep_rows import Seeder, later, seeded
from tests.rlplan.test_sweeping import request

CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Recorded(Lines):
    """Remembers what it was given to show."""

    def __init__(self) -> None:
        self.pictures: list[Picture] = []
        self.news: list[str] = []
        self.troubles: list[str] = []
        self.heard = threading.Event()

    def show(self, picture: Picture, news: Sequence[str]) -> None:
        self.pictures.append(picture)
        self.news += news
        if news:
            self.heard.set()

    def trouble(self, reason: str) -> None:
        self.troubles.append(reason)


def looking(seeder: Seeder, display: Lines) -> Follower:
    """Return a follower that looks when it is told to, and at no other time."""
    follower = Follower(seeder.store.location, display)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(follower._thread, "start", lambda: None)
        follower.begin(seeder.sweep)
    return follower


def test_a_pipe_gets_one_line_for_each_thing_that_matters(seeder: Seeder, capsys: pytest.CaptureFixture[str]) -> None:
    with looking(seeder, Lines()) as follower:
        trial = 7
        seeder.begin(trial, 0)
        follower.look()
        seeder.score(trial, 10, 0.5)
        seeder.settle(trial, SegmentOutcome.COMMITTED)
        seeder.fit(trial, 0.7, 0.3)
        seeder.move(trial, TrialState.PAUSED)
        follower.look()
        follower.look()  # nothing new
        seeder.begin(trial, 10)
        seeder.settle(trial, SegmentOutcome.LOST)
        seeder.move(trial, TrialState.LOST, "lost: its node went away; tried again in 2 s")
        seeder.move(trial, TrialState.PAUSED, "tried again")
        seeder.begin(trial, 10)
        seeder.move(3, TrialState.PRUNED, "P(best) is 0.01, below 0.02")
        seeder.settle(1, SegmentOutcome.FAILED)
        seeder.move(1, TrialState.FAILED, "nan: the loss is not finite", failure_class="nan", failure_tail="")
        short = seeder.trial(8, 64)
        seeder.begin(short, 0)
        seeder.settle(short, SegmentOutcome.COMMITTED, reached_step=4)
        seeder.decide("stop", "nothing can overtake the leader")
        seeder.recommend()
        follower.look()
    assert capsys.readouterr().err.splitlines() == [
        "sweep-1 of plan-1: qwen3-8b, policy rlplan, without a driver, 1,000 GPU-hours for pilots",
        "n8-B32-s0 starts, up to step 10",
        "n8-B32-s0 step 10: score 0.500 ± 0.011, 29.0 GPU-hours; at target 0.70 (0.64–0.75), P(best) 0.30",
        "n8-B32-s0 lost at step 10: lost: its node went away; tried again in 2 s",
        "n8-B32-s0 goes on from step 10, attempt 2",
        "n64-B128-s0 pruned at step 20: P(best) is 0.01, below 0.02",
        "n512-B32-s0 failed at step 30: nan: the loss is not finite",
        "n8-B64-s0 starts, up to step 10",  # as was decided, also where less was reached
        "n8-B64-s0 step 4: no score yet, 29.0 GPU-hours",
        "stop: nothing can overtake the leader",
        "Run n = 512, B = 32 for 571 steps at learning rate 4e-6. "
        "Expected score 0.74 (0.68–0.79) after 3,997 GPU-hours.",
    ]


@pytest.mark.usefixtures("simulated_workers")
def test_a_sweep_says_of_each_start_what_its_decision_says(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    followed(partial(start, request(policy="rlplan", budget=0.03, db=database)), database)
    told = re.findall(r"^(\S+) starts, up to step ([\d,]+)$", capsys.readouterr().err, re.MULTILINE)
    starts = [each for each in rows(database, Decision) if each.action == "start"]
    names = {each.id: each.name for each in rows(database, Trial)}
    assert any(each.seen["granted_to_step"] < each.seen["to_step"] for each in starts)
    decided = [(names[each.trial_id], *re.findall(r"starts, up to step ([\d,]+) ", each.reason)) for each in starts]
    assert sorted(told) == sorted(decided)
    assert len(told) > 1


def test_an_unreadable_database_keeps_the_last_picture_and_is_told_once(
    seeder: Seeder, capsys: pytest.CaptureFixture[str]
) -> None:
    def rename(old: str, new: str) -> None:
        with sqlite3.connect(seeder.store.location) as connection:
            connection.execute(f"ALTER TABLE {old} RENAME TO {new}")
        connection.close()

    with looking(seeder, Lines()) as follower:
        rename("segments", "hidden")
        follower.look()
        follower.look()
        rename("hidden", "segments")
        seeder.move(3, TrialState.PRUNED, "too far behind")
        follower.look()
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in lines[1:]] == [
        "the database cannot be read now, the sweep goes on",
        "n64-B128-s0 pruned at step 20",
    ]
    assert "no such table" in lines[1]


def test_a_display_that_breaks_does_not_reach_the_sweep(seeder: Seeder) -> None:
    def gone(*_: object) -> None:
        raise OSError("the terminal has gone")

    broken = Lines()
    vars(broken).update(dict.fromkeys(("show", "trouble", "open", "stopping", "close"), gone))
    with Follower(seeder.store.location, broken) as follower:
        follower.begin(seeder.sweep)


def test_the_thread_sees_what_is_written_and_the_last_word_is_shown(seeder: Seeder) -> None:
    display = Recorded()
    with Follower(seeder.store.location, display) as follower:
        follower.begin(seeder.sweep)
        seeder.move(3, TrialState.PRUNED, "too far behind")
        assert display.heard.wait(60)
        assert not follower.at_rest.is_set()
        seeder.recommend()
        seeder.end(SweepStatus.FINISHED)
    assert follower.at_rest.is_set()
    assert [line.split(" ")[0] for line in display.news] == ["n64-B128-s0", "Run"]
    assert display.pictures[-1].status == "finished"
    assert not follower._thread.is_alive()


def terminal(**options: Any) -> tuple[Terminal, io.StringIO]:
    file = io.StringIO()
    return Terminal(Console(file=file, force_terminal=True, width=80, height=24, **options)), file


def test_a_terminal_is_drawn_on_kept_in_trouble_and_left_as_it_was(seeder: Seeder) -> None:
    display, file = terminal()
    display.open()
    assert READY in file.getvalue()
    display.show(picture(seeder.store), ["a line that the screen shows anyway"])
    display.trouble("it is locked")
    display._live.refresh()
    display.stopping()
    display._live.refresh()
    display.close()
    said = file.getvalue()
    assert "it is locked" in said
    assert STOPPING[:60] in said
    assert said.count("running") >= 4
    assert said.count("\x1b[?25l") == said.count("\x1b[?25h") == 1  # the cursor is hidden and shown again
    rows = CODES.sub("", said).replace("\r", "\n").splitlines()
    assert max(len(row) for row in rows) <= 76


def at_a_terminal(command: Sequence[str], cwd: Path) -> tuple[int, str, str]:
    """Return a command's exit code, stdout and stderr, which is a real pseudo-terminal of 80 columns."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    env = {"PATH": "/usr/bin:/bin", "TERM": "xterm-256color"}
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=follower, text=True, env=env)
    os.close(follower)
    err = b""
    with suppress(OSError):  # Linux raises it when the other end is closed
        while chunk := os.read(leader, 65536):
            err += chunk
    out, _ = process.communicate(timeout=60)
    os.close(leader)
    return process.returncode, out, err.decode()


def test_watching_at_a_real_terminal_ends_with_the_sweep(seeder: Seeder, tmp_path: Path) -> None:
    seeder.end(SweepStatus.FINISHED)
    code, out, err = at_a_terminal([str(Path(sys.executable).with_name("rlplan")), "status", "--watch"], tmp_path)
    assert code == 0
    assert out.splitlines()[0] == "sweep-1 of plan-1: qwen3-8b, policy rlplan, finished"
    assert "n64-B128" not in out.splitlines()[4]
    drawn = CODES.sub("", err).replace("\r", "\n").splitlines()
    assert any(line.startswith("state ") for line in drawn)
    assert max(len(line) for line in drawn) <= 76


HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Picture]:
    seeder = seeded(tmp_path_factory.mktemp("sweep") / "rlplan.db")
    yield picture(seeder.store, now=later(seeder))
    seeder.store.close()


def drawn(
    picture: Picture, width: int, height: int | None = None, *, unicode: bool = True, status: str = ""
) -> list[str]:
    return [line.plain for line in screen(picture, Canvas(width, height, unicode), status)]


@pytest.mark.parametrize(("width", "height"), [(76, 23), (196, 49)])
def test_the_whole_screen(seen: Picture, width: int, height: int) -> None:
    golden = (HERE / f"sweep_screen_{width}.txt").read_text(encoding="utf-8")
    assert drawn(seen, width, height) == golden.splitlines()


def test_a_short_terminal_keeps_the_best_and_what_runs_and_counts_the_rest(seen: Picture) -> None:
    lines = drawn(seen, 76, 8, status="a word")
    assert [line.split()[:2] for line in lines[4:6]] == [["state", "n"], ["running", "512"]]
    assert lines[6:] == ["and 6 more: 1 planned, 1 running, 1 paused, 2 pruned, 1 failed", "a word"]
    assert not any("decisions" in line for line in lines)
    assert "decisions" in drawn(seen, 76, 17)[-4]


def test_columns_that_find_no_room_are_left_out_and_none_is_cut(seen: Picture) -> None:
    assert drawn(seen, 60)[4].split() == ["state", "n", "B", "step", "score", "at", "target", "P(best)", "GPU-h"]
    assert [line.split() for line in drawn(seen, 52)[4:6]] == [
        ["state", "n", "B", "score", "at", "target", "P(best)"],
        ["running", "512", "32", "0.620", "0.74", "(0.68–0.79)", "0.62"],
    ]
    assert [line.split() for line in drawn(seen, 30)[4:6]] == [["state", "n", "B"], ["running", "512", "32"]]


def test_who_drives_it(seen: Picture) -> None:
    assert time_of(seen).endswith("driven by process 4711 on node-7")
    gone = replace(seen, driver=Driver("node-7", 4711, 300.0, alive=False))
    assert time_of(gone) == "sweep-1 has lost its driver, last heard of 5 min ago"
    assert drawn(gone, 76)[0].endswith("policy rlplan, without a driver")
    stopped = replace(seen, driver=None, status="interrupted", elapsed_seconds=7200.0)
    assert time_of(stopped) == "sweep-1 stopped after 2 h"
    assert time_of(replace(stopped, status="finished")) == "sweep-1 took 2 h"
    assert time_of(replace(stopped, status="created")) == "sweep-1 has not begun yet"


NUMBERS = st.floats(0, 1e6, allow_nan=False)
SCORES = st.lists(st.floats(0, 1), max_size=200)


@st.composite
def trials(draw: st.DrawFn) -> TrialRow:
    forecast = Forecast(0.5, 0.4, 0.6, 0.9, "rising", 10.0, draw(st.none() | st.floats(0, 1)))
    scores = [
        ScorePoint(step, float(step), value, draw(st.sampled_from([None, 0.01])))
        for step, value in enumerate(draw(SCORES))
    ]
    return TrialRow(
        id=draw(st.integers(1, 10**6)),
        name=draw(st.text(max_size=40)),
        rollouts_per_prompt=draw(st.integers(2, 4096)),
        prompts_per_batch=draw(st.integers(1, 10**6)),
        learning_rate=1e-6,
        seed=draw(st.integers(0, 2**40)),
        state=draw(st.sampled_from(list(TrialState))),
        attempt=draw(st.integers(1, 99)),
        step=draw(st.integers(0, 10**7)),
        pilot_steps=draw(st.none() | st.integers(1, 10**7)),
        gpu_hours_spent=draw(NUMBERS),
        scores=tuple(scores),
        forecast=draw(st.sampled_from([None, forecast])),
        failure_class=draw(st.none() | st.text(max_size=30)),
        failure_tail=draw(st.none() | st.text(max_size=200)),
    )


@given(trials())
def test_a_trial_is_never_said_to_be_beyond_its_own_end(row: TrialRow) -> None:
    within = row.pilot_steps is not None and row.step <= row.pilot_steps
    assert ("/" in reached(row)) == within


@given(
    rows=st.lists(trials(), max_size=12),
    size=st.tuples(st.integers(1, 250), st.integers(1, 60), st.booleans()),
    money=st.builds(
        Money,
        NUMBERS,
        st.dictionaries(st.sampled_from(["committed", "failed"]), NUMBERS),
        st.dictionaries(st.just("idle"), NUMBERS),
        NUMBERS,
    ),
    status=st.text(max_size=300),
)
def test_it_fits_whatever_it_is_drawn_on(
    seen: Picture, rows: list[TrialRow], size: tuple[int, int, bool], money: Money, status: str
) -> None:
    width, height, unicode = size
    lines = drawn(replace(seen, trials=tuple(rows), money=money), width, height, unicode=unicode, status=status)
    assert len(lines) <= height
    assert max(len(line) for line in lines) <= width
    assert unicode or "".join(lines).isascii()
