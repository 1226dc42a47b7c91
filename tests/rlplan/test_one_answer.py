"""One answer on every face: each number that any of them says of a sweep, held against the rows that are stored.

Decisions and lines of a log are left out: they say what was believed at their own moments, which they name. What is
printed beside JSON is recorded in tests/golden.
"""

import csv
import io
import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

import rlplan
from planner.policy.policies import open_policy
from planner.store import open_store
from planner.store.schema import Charge, Sweep, SweepStatus, Trial
from rlplan.web.report import write_report
from runner.ports.trial import SimulationChoice
from runner.sweep.conclusions import GROWTH
from tests.rlplan.conftest import Run
from tests.rlplan.web.visits import visiting
from tests.runner.sweep.simulated_sweeps import START, SimulatedSweep
from tests.runner.sweep.test_driver import COSTS

SWEEP = "sweep-1"
# Dearer than the plan says and never twice the same, so that prices are learnt on the way.
DEARER = COSTS.model_copy(update={"seconds_per_update": 0.08, "seconds_per_rollout": 0.004, "spread": 0.4})
FIGURES = ("update_steps", "expected_score", "score_low", "score_high", "probability_best")

# What is said: of which cell or, for all of the sweep, of None; which figure; and its number as it is printed.
Said = tuple[tuple[int, int] | None, str, Any]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A sweep in the middle of its life, and the same one at its end, told to be real."""
    folder = tmp_path_factory.mktemp("one-answer")
    given = SimulatedSweep(
        folder / "rlplan.db", choice=SimulationChoice(costs=DEARER), policy="asha", budget=1.0, growth=GROWTH
    )
    turns, made = count(), {name: folder / f"{name}.db" for name in ("running", "finished", "overrun")}

    def looked_at() -> bool:
        if next(turns) == 300:
            _copy(given.path, made["running"])
        return False

    with given.store() as store:
        driver = given.driver(given.executor(), open_policy("asha"), store, interrupted=looked_at)
        assert driver.run().status is SweepStatus.FINISHED
        assert next(turns) > 400
    _copy(given.path, made["finished"])
    _copy(given.path, made["overrun"])
    for path in made.values():
        _tell_real(path)
    with open_store(made["overrun"]) as store, store.write() as session:
        sweep = session.scalars(select(Sweep)).one()
        of = {"sweep_id": sweep.id, "at": START, "worker": "w1", "kind": "idle"}
        session.add(Charge(**of, gpu_hours=given.spec.pilot_gpu_hours / 7))
    return made


def _copy(source: Path, to: Path) -> None:
    with sqlite3.connect(source) as one, sqlite3.connect(to) as other:
        one.backup(other)


def _tell_real(path: Path) -> None:
    """Let its trials be ones that can be trained on, so that a command is printed."""
    with open_store(path) as store, store.write() as session:
        row = session.scalars(select(Sweep)).one()
        row.config = {**row.config, "training": {**row.config["training"], "simulation": None}}
        for trial in session.scalars(select(Trial)):
            trial.config = {**trial.config, "simulation": None}


@dataclass(frozen=True)
class Faces:
    """A database, a way to run commands on it, and what its rows say."""

    database: Path
    run: Run
    sql: sqlite3.Connection

    def json(self, *args: str) -> Any:
        return json.loads(self.out(*args, "--format", "json"))

    def csv(self, *args: str) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(self.out(*args, "--format", "csv"))))

    def out(self, *args: str) -> str:
        ran = self.run(*args, "--db", str(self.database), width=220)
        assert ran.code == 0, ran.err
        return ran.out

    @property
    def trials(self) -> dict[str, tuple[int, int]]:
        """The cells of the trials that have a curve."""
        fitted = (
            "select name, rollouts_per_prompt, prompts_per_batch from trials where id in (select trial_id from fits)"
        )
        return {name: (n, B) for name, n, B in self.sql.execute(fitted)}


@pytest.fixture(params=["finished", "running"])
def faces(request: pytest.FixtureRequest, written: dict[str, Path], run: Run, tmp_path: Path) -> Iterator[Faces]:
    yield from opened(written[request.param], run, tmp_path)


def opened(made: Path, run: Run, folder: Path) -> Iterator[Faces]:
    database = Path(shutil.copy(made, folder / "rlplan.db"))
    with sqlite3.connect(database) as sql:
        yield Faces(database, run, sql)


def stored(faces: Faces) -> dict[tuple[Any, str], float]:
    """Read what is true: the newest answer's rows, and what all segments and charges add up to."""
    names = ", ".join(FIGURES)
    ranked = "select max(id) from recommendations"
    rows = f"select rollouts_per_prompt, prompts_per_batch, {names} from"
    true: dict[tuple[Any, str], float] = {}
    for n, B, *figures in faces.sql.execute(f"{rows} rankings where recommendation_id = ({ranked})"):
        true |= {((n, B), name): value for name, value in zip(FIGURES, figures, strict=True)}
    (n, B, *figures), *_ = faces.sql.execute(f"{rows} recommendations where id = ({ranked})")
    true |= {(None, name): value for name, value in zip(("n", "B", *FIGURES), (n, B, *figures), strict=True)}
    (spent,), *_ = faces.sql.execute(
        "select (select sum(charged_gpu_hours) from segments) + (select coalesce(sum(gpu_hours), 0) from charges)"
    )
    (target,), *_ = faces.sql.execute(
        f"select json_extract(details, '$.target_gpu_hours') from recommendations where id = ({ranked})"
    )
    return true | {(None, "spent"): spent, (None, "target"): target}


def cells(rows: Iterable[Any]) -> Iterator[Said]:
    """Read rows that have n, B and figures by their names."""
    for row in rows:
        known = row if isinstance(row, dict) else {name: getattr(row, name) for name in _names(row)}
        cell = int(known["rollouts_per_prompt"]), int(known["prompts_per_batch"])
        yield from ((cell, name, known[name]) for name in FIGURES if known.get(name) not in (None, ""))


def _names(row: Any) -> list[str]:
    return [name for name in ("rollouts_per_prompt", "prompts_per_batch", *FIGURES) if hasattr(row, name)]


def answer(row: Any) -> Iterator[Said]:
    """Read what is recommended."""
    for cell, name, value in cells([row]):
        assert cell is not None
        yield from ((None, "n", cell[0]), (None, "B", cell[1]), (None, name, value), (cell, name, value))


NUMBER = r"([\d.,<>]+)"
SCORE = rf"{NUMBER} \({NUMBER}–{NUMBER}\)"


SENTENCE = rf"n = (\d+), B = (\d+) for {NUMBER} steps at learning rate \S+ Expected score {SCORE}"


def by_sql(faces: Faces) -> Iterator[Said]:
    faces.sql.row_factory = sqlite3.Row
    yield from cells(map(dict, faces.sql.execute("select * from ranked_allocations")))
    faces.sql.row_factory = None


def by_rank(faces: Faces) -> Iterator[Said]:
    yield from cells(faces.json("rank")["ranking"])
    yield from cells(faces.csv("rank"))


def by_status(faces: Faces) -> Iterator[Said]:
    document = faces.json("status")
    yield from answer(document["recommendation"])
    yield from cells([*document["ranking"], *document["trials"], *faces.csv("status")])
    yield from ((None, "target", trial["target_gpu_hours"]) for trial in document["trials"] if trial["points"])
    yield None, "spent", document["budget"]["spent_gpu_hours"]
    yield from answer(faces.json("status", "--all")["sweeps"][0])
    yield from cells([faces.json("status", name) for name in list(faces.trials)[:2]])


def by_recommend(faces: Faces) -> Iterator[Said]:
    document = faces.json("recommend")
    yield from answer(document["recommendation"])
    yield from cells([*document["ranking"], *faces.csv("recommend")])
    yield None, "spent", document["spent_gpu_hours"]
    yield None, "target", document["target_gpu_hours"]
    (same,) = (budget["choice"] for budget in document["budgets"] if budget["factor"] == 1)
    yield from answer(same)


def by_export(faces: Faces) -> Iterator[Said]:
    for name in ("ranking", "trials"):
        path = faces.database.with_name(f"{name}.json")
        faces.out("export", str(path), "--what", name)
        yield from cells(json.loads(path.read_text())["rows"])


def by_report(faces: Faces) -> Iterator[Said]:
    yield from _page(write_report(faces.database.with_name("report.html"), str(faces.database), None).read_text())


def _page(html: str) -> Iterator[Said]:
    yield from _ranked(html)
    text = re.sub(r"<[^>]+>", " ", html)
    yield from _said(rf"for {NUMBER} steps at learning", text, "update_steps")
    yield from _said(rf"Expected score {NUMBER} \(", text, "expected_score")
    yield from _said(rf"the pilots have spent {NUMBER},? ", text, "spent")
    yield from _said(rf"{NUMBER} of \S+ GPU-hours spent", text, "spent")


def _ranked(html: str) -> Iterator[Said]:
    """Read the table of a page, which holds its numbers in full for sorting."""
    (body,) = re.findall(r'id="ranking-rows">(.*?)</tbody>', html, re.DOTALL)
    for row in body.split("</tr>")[:-1]:
        _, n, B, *figures = map(float, re.findall(r'data-value="([^"]*)"', row))
        names = ("update_steps", "expected_score", "score_low", "probability_best")
        yield from (((int(n), int(B)), name, value) for name, value in zip(names, figures[:4], strict=True))
    yield from _said(rf"configurations</span> at {NUMBER} GPU-hours", html, "target")


def _said(pattern: str, text: str, name: str) -> Iterator[Said]:
    figures = re.findall(pattern, _flat(text))
    assert figures, pattern
    yield from ((None, name, figure) for figure in figures)


def _flat(text: str) -> str:
    return " ".join(text.split())


def by_dashboard(faces: Faces) -> Iterator[Said]:
    """Read its pages as they are at once, before the curves are fitted anew."""
    with visiting(faces.database) as client:
        page = client.get(f"/sweeps/{SWEEP}").text
    yield from _page(page)
    ((n, B, *figures),) = re.findall(SENTENCE, _flat(page))
    yield from (((int(n), int(B)), name, figure) for name, figure in zip(FIGURES[:4], figures, strict=True))


def by_python(faces: Faces) -> Iterator[Said]:
    sweep = rlplan.open(str(faces.database)).sweep()
    assert sweep.answer is not None
    recommendation, believed = sweep.recommend(), sweep.beliefs.recommended
    assert believed is not None
    for best in (sweep.answer, recommendation.best, believed.answer.chosen):
        yield from answer(best)
    for rows in (sweep.answer.ranking, sweep.ranked(), sweep.trials(), recommendation.table()[1]):
        yield from cells(rows)
    yield from cells(believed.answer.ranked)
    yield from ((None, "spent", value) for value in (sweep.money.spent, believed.spent_gpu_hours))


ALL = (by_sql, by_rank, by_status, by_recommend, by_export, by_report, by_dashboard, by_python)


def agrees(said: Any, true: float) -> bool:
    """Whether a number is the true one, to the digits that it is written with."""
    if not isinstance(said, str):
        return float(said) == pytest.approx(true, rel=1e-9)
    if said[0] in "<>":
        return true < float(said[1:]) if said[0] == "<" else true > float(said[1:])
    plain = said.rstrip(".,").replace(",", "")
    places = len(plain.partition(".")[2])
    return abs(float(plain) - true) <= 0.5000001 * 10.0**-places


@pytest.mark.parametrize("face", ALL, ids=lambda face: face.__name__)
def test_every_face_says_what_is_stored(face: Callable[[Faces], Iterator[Said]], faces: Faces) -> None:
    true, said = stored(faces), list(face(faces))
    assert len(said) > 5
    assert [each for each in said if not agrees(each[2], true[each[0], each[1]])] == []


OF_MONEY: dict[str, Callable[[Faces], list[str]]] = {
    "sweep": lambda faces: re.findall(rf"{NUMBER} spent, {NUMBER} too many of", faces.out("status"))[0],
    "recommend": lambda faces: re.findall(
        rf"{NUMBER} of \S+ pilot GPU-hours are spent, {NUMBER} too many", _flat(faces.out("recommend", "--explain"))
    )[0],
    "json": lambda faces: [faces.json("status")["budget"][name] for name in ("spent_gpu_hours", "overrun_gpu_hours")],
    "report": lambda faces: re.findall(
        rf"the pilots have spent {NUMBER} and {NUMBER} too many",
        write_report(faces.database.with_name("report.html"), str(faces.database), None).read_text(),
    )[0],
    "python": lambda faces: [(money := rlplan.open(str(faces.database)).sweep().money).spent, money.overrun],
}


@pytest.mark.parametrize("face", OF_MONEY)
def test_after_an_overrun_every_face_says_what_was_charged_and_by_how_much_that_was_too_much(
    face: str, written: dict[str, Path], run: Run, tmp_path: Path
) -> None:
    for faces in opened(written["overrun"], run, tmp_path):
        spent = stored(faces)[None, "spent"]
        (pilots,) = faces.sql.execute("select json_extract(config, '$.pilot_gpu_hours') from sweeps").fetchone()
        assert spent > 1.1 * pilots
        for said, true in zip(OF_MONEY[face](faces), (spent, spent - pilots), strict=False):
            assert agrees(said, true)
