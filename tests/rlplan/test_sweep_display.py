"""How a sweep is followed: the lines of a pipe, the screen of a terminal, and a database that cannot be read."""

import io
import re
import sqlite3
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from planner.store.schema import Decision, SegmentOutcome, SweepStatus, Trial
from planner.trials import TrialState
from rlplan.actions.sweeping import start
from rlplan.live.sweep_display import READY, STOPPING, Lines, Terminal
from rlplan.live.sweep_running import Follower, followed
from rlplan.reading.sweep_picture import Picture
from rlplan.reading.sweep_reading import picture
from tests.rlplan.pseudo_terminal import at_a_terminal
from tests.rlplan.stored_rows import rows
from tests.rlplan.sweep_rows import Seeder
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
        "stop: nothing can overtake the leader",
        "Run n = 512, B = 32 for 571 steps at learning rate 4e-6. "
        "Expected score 0.74 (0.68–0.79) after 3,997 GPU-hours.",
    ]


def test_a_start_names_the_step_of_its_decision_also_where_less_was_reached(
    seeder: Seeder, capsys: pytest.CaptureFixture[str]
) -> None:
    with looking(seeder, Lines()) as follower:
        seeder.begin(7, 0)
        seeder.settle(7, SegmentOutcome.COMMITTED, reached_step=4)
        follower.look()
    assert [line.partition(" ")[2][:22] for line in capsys.readouterr().err.splitlines()[1:]] == [
        "starts, up to step 10",
        "step 4: no score yet, ",
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


def test_watching_at_a_real_terminal_ends_with_the_sweep(seeder: Seeder, tmp_path: Path) -> None:
    seeder.end(SweepStatus.FINISHED)
    code, out, err = at_a_terminal([str(Path(sys.executable).with_name("rlplan")), "status", "--watch"], tmp_path)
    assert code == 0
    assert out.splitlines()[0] == "sweep-1 of plan-1: qwen3-8b, policy rlplan, finished"
    assert "n64-B128" not in out.splitlines()[4]
    drawn = CODES.sub("", err).replace("\r", "\n").splitlines()
    assert any(line.startswith("state ") for line in drawn)
    assert max(len(line) for line in drawn) <= 76
