"""A sweep that learns from an earlier one: frozen when it starts, weighed by its own curves, told in its decisions."""

import html
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from budgets.errors import InputError
from planner.pooling.priors import NONE
from planner.store import open_store
from planner.store.experiences import StoredExperience, stored_experiences
from planner.store.schema import Decision, Sweep, SweepStatus
from rlplan.actions.sweep_request import describe
from rlplan.actions.sweeping import go_on, start
from rlplan.requests.running import ResumeRequest, SweepRequest
from tests.rlplan.conftest import Run
from tests.rlplan.stored_rows import rows
from tests.rlplan.test_sweeping import Stopping, interrupted, request


@pytest.fixture
def database(swept: str) -> str:
    return swept


LEARNING: dict[str, Any] = {"policy": "rlplan", "learn_from": ["sweep-1"], "budget": 0.12, "further": None}


def learning(**changes: Any) -> SweepRequest:
    return request(**(LEARNING | changes))


def newest(database: str) -> tuple[dict[str, Any], SweepStatus, list[Decision]]:
    sweep = rows(database, Sweep)[-1]
    told = [each for each in rows(database, Decision) if (each.sweep_id, each.action) == (sweep.id, "learnt")]
    return sweep.config, sweep.status, told


def test_status_and_report_tell_what_was_learnt_from_where(database: str, run: Run) -> None:
    start(learning(db=database))
    config, status, (weighed,) = newest(database)
    assert status is SweepStatus.FINISHED
    assert set(weighed.seen["weights"]) == {NONE, "sweep-1"}
    assert weighed.reason.startswith("of what is believed rests on earlier sweeps: sweep-1 ")
    (source,) = config["learnt"]["sources"]
    assert (source["name"], source["about"]["task"]) == ("sweep-1", "sum-easy")
    assert config["learnt"]["about"]["task"] == "sum-easy"
    document = run.json("status")
    assert document["learnt_from"]["sources"] == {"sweep-1": source["about"]}
    assert sum(document["learnt_from"]["weights"].values()) == pytest.approx(1.0)
    told = document["learnt_from"]["weighed"]
    assert "learnt from sweep-1 (task sum-easy, model " in run("status", "--explain").text
    assert run("report", "page.html").code == 0
    assert told in html.unescape(Path("page.html").read_text())


def test_a_sweep_under_way_names_its_sources_before_they_are_weighed(database: str, run: Run) -> None:
    interrupted(database, **LEARNING)
    document = run.json("status")
    assert list(document["learnt_from"]["sources"]) == ["sweep-1"]
    assert document["learnt_from"]["weights"] is None
    assert "comes when the sweep has ended" in run("status", "--explain").text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policy": "asha"}, "--learn-from sweep-1: asha decides by scores alone and cannot learn"),
        ({"learn_from": ["sweep-9"]}, "--learn-from sweep-9: there is no such file, and"),
        ({"learn_from": ["sweep-1", "none"]}, "--learn-from none is given beside sweep-1"),
    ],
)
def test_what_cannot_be_learnt_from_is_refused(database: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        start(learning(**changes, db=database))
    assert newest(database)[0]["learnt"] is None


def left(database: str) -> dict[str, dict[str, Any]]:
    with open_store(database, read_only=True) as store, store.read() as session:
        return stored_experiences(session)


def decided(database: str) -> list[tuple[Any, ...]]:
    sweep = rows(database, Sweep)[-1]
    told = [each for each in rows(database, Decision) if each.sweep_id == sweep.id]
    return [(each.number, each.action, each.trial_id, each.reason, each.seen) for each in told]


def test_a_sweep_learns_unasked_from_one_that_is_alike_and_its_plan_says_so(database: str, run: Run) -> None:
    start(learning(learn_from=None, db=database))
    config, _, (told,) = newest(database)
    assert [each["name"] for each in config["learnt"]["sources"]] == ["sweep-1"]
    assert config["learnt"]["sources"] == list(left(database).values())[1:]
    assert set(told.seen["weights"]) == {NONE, "sweep-1"}
    assert list(left(database)) == ["sweep-2", "sweep-1"]
    shown = run("propose", "--task", "sum-easy", "--budget", "0.5", "--format", "json")
    (line,) = [each for each in shown.json["assumptions"] if each["what"] == "learnt from"]
    *sources, together, none = line["value"].split("; ")
    said = {f"{name} (same task and model and recipe)" for name in left(database)}
    assert {each.removesuffix(" %").rpartition(" ")[0] for each in sources} == said
    assert re.fullmatch(r"all together \d\d %", together)
    assert re.fullmatch(r"none \d\d %, before a curve is seen", none)
    assert "--learn-from none" in line["source"]


@pytest.mark.parametrize("changes", [{"learn_from": ["none"]}, {"learn_from": None, "policy": "asha"}])
def test_nothing_is_learnt_where_that_is_switched_off_or_nothing_is_believed(
    database: str, changes: dict[str, Any]
) -> None:
    interrupted(database, **(LEARNING | changes))
    assert newest(database)[0]["learnt"] is None


def test_a_harder_task_learns_unasked_from_an_easy_one(database: str, run: Run) -> None:
    shown = run("propose", "--task", "sum-hard", "--budget", "0.5", "--format", "json")
    (line,) = [each for each in shown.json["assumptions"] if each["what"] == "learnt from"]
    assert line["value"].startswith("sweep-1 (same model and recipe, sum-easy) ")


def test_a_sweep_of_another_scale_is_not_learnt_from_unasked(database: str, run: Run) -> None:
    shown = run("propose", "--budget", "5000", "--format", "json")
    assert "learnt from" not in {each["what"] for each in shown.json["assumptions"]}
    named = run("propose", "--budget", "5000", "--learn-from", "sweep-1", "--format", "json")
    assert "learnt from" in {each["what"] for each in named.json["assumptions"]}


def test_the_plan_decides_what_its_sweep_learns_from_unless_it_is_told_otherwise(database: str, run: Run) -> None:
    run("propose", "--task", "sum-easy", "--budget", "0.5", "--learn-from", "none")
    alone = request(policy="rlplan", task=None, budget=None, db=database)
    assert all("learnt from" not in note for note in describe(alone).notes)
    told = request(policy="rlplan", task=None, budget=None, learn_from=["sweep-1"], db=database)
    assert "learnt from: sweep-1" in describe(told).notes


def test_what_nobody_can_read_is_named_and_left_out(database: str, run: Run) -> None:
    with open_store(database) as store, store.write() as session:
        session.query(StoredExperience).one().content = {"name": "sweep-1", "about": {}}
    shown = run("propose", "--task", "sum-easy", "--budget", "0.5")
    assert "nothing is learnt from sweep-1" in " ".join(shown.err.split())
    assert "learnt from" not in shown.out


def test_decisions_are_those_of_the_undisturbed_sweep_when_sources_change_meanwhile(
    database: str, tmp_path: Path
) -> None:
    """Stopped at its beginning, its source gone, and gone on with: bit by bit the same decisions."""
    shutil.copy(database, tmp_path / "other.db")
    few: dict[str, Any] = {"learn_from": None, "seed": 3, "further": {"pilot.most_pilots": ("pilot.most_pilots", 3)}}
    start(learning(**few, db=database))
    other, interrupts = str(tmp_path / "other.db"), Stopping()
    began = start(learning(**few, db=other), interrupts=interrupts, began=interrupts.began)
    with open_store(other) as store, store.write() as session:
        session.query(StoredExperience).delete()
    go_on(ResumeRequest(began.sweep, db=other))
    assert began.interrupted
    assert len(decided(database)) > 5
    assert decided(other) == decided(database)


def test_a_preview_plays_in_worlds_that_are_as_the_source_had_it(database: str, run: Run) -> None:
    run("propose", "--task", "sum-easy", "--budget", "0.5")
    flags = ("--draws", "1", "--pilot-fractions", "0,0.1", "--format", "json")
    learnt, without = (run("preview", *flags, *more).json for more in ((), ("--learn-from", "none")))
    assert "as sweep-1 had it" in " ".join(learnt["assumptions"])
    assert "sweep-1" not in " ".join(without["assumptions"])
    refused = run("preview", *flags, "--policy", "asha", "--learn-from", "sweep-1")
    assert refused.code == 2
