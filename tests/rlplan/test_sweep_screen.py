"""The screen of a sweep, as text: what it shows, and that it fits whatever it is drawn on."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.trials import TrialState
from planner.view import ScorePoint
from rlplan.printing.sweep_screen import screen
from rlplan.reading.sweep_picture import Driver, Forecast, Money, Picture, TrialRow
from rlplan.reading.sweep_reading import picture
from rlplan.reading.sweep_words import reached, time_of
from rlplan.wording.draw import Canvas
from tests.rlplan.sweep_rows import later, seeded

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
