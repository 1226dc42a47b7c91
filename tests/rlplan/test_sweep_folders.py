"""Where the files of sweeps lie: projects that are copied, moved and deleted, and copies of trials at a URL."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete

from budgets.errors import InputError
from planner.store import open_store
from planner.store.schema import Charge, Decision, Plan, Segment, Sweep, SweepStatus, Trial
from planner.store.sweeps import sweep_named
from planner.view import TrialState
from rlplan.actions import sweeping
from rlplan.actions.sweeping import go_on, start
from rlplan.commands import status
from rlplan.requests.results import StatusRequest
from rlplan.requests.run import ResumeRequest
from runner.ports.executor import Event, Failed
from runner.storage.place import Place
from runner.sweep.holds import MISSING_SECONDS
from runner.sweep.home import MARK, AstrayError, home_of, mark_folder
from runner.training import checkpoints
from tests.rlplan.conftest import Ran, Run
from tests.rlplan.recommend_sweeps import PILOTED, ended, trials
from tests.rlplan.stored_rows import rows
from tests.rlplan.test_sweeping import Simulated, interrupted, request, simulate, stored

pytestmark = pytest.mark.usefixtures("simulated_workers")

UNTRAINABLE = 'command = "train {rollouts_per_prompt} {prompts_per_batch} {learning_rate}"\nresume = ""\n'


class Halting(Simulated):
    """Is interrupted at once: that it was made shows that a sweep went on, and where."""

    def wait(self, seconds: float) -> list[Event]:
        raise KeyboardInterrupt


@pytest.fixture
def project(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a database and a sweep in it that was interrupted."""
    simulate(monkeypatch, Halting)
    place = tmp_path / "a"
    place.mkdir()
    start(request(further=None, db=str(place / "rlplan.db")))
    Simulated.made.clear()
    return place


def resumed(run: Run, place: Path, *flags: str, verb: str = "resume") -> Ran:
    return run(verb, "--db", str(place / "rlplan.db"), *flags)


def went_on_in() -> list[Path]:
    return [made[0] for made in Simulated.made]


def folder_of(place: Path) -> Path:
    return place / "rlplan-sweeps" / "sweep-1"


def accounts(place: Path) -> list[tuple[Any, ...]]:
    segments = [
        (each.trial_id, each.number, each.outcome, each.charged_gpu_hours)
        for each in rows(place / "rlplan.db", Segment)
    ]
    return [*segments, *((each.worker, each.gpu_hours) for each in rows(place / "rlplan.db", Charge))]


def remembered(place: Path) -> str:
    (sweep,) = rows(place / "rlplan.db", Sweep)
    return str(sweep.config["folder"])


def contents(place: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


def test_a_copied_project_goes_on_in_its_own_copy_and_leaves_the_original_alone(
    run: Run, project: Path, tmp_path: Path
) -> None:
    copy, before = tmp_path / "b", contents(project)
    shutil.copytree(project, copy)
    ran = resumed(run, copy)
    assert (ran.code, went_on_in()) == (130, [folder_of(copy)])
    assert f"it goes on in {folder_of(copy)}, not {folder_of(project)}" in ran.err
    assert contents(project) == before
    assert remembered(copy) == str(folder_of(copy))
    Simulated.made.clear()
    assert (resumed(run, project).code, went_on_in()) == (130, [folder_of(project)])
    assert (resumed(run, copy).code, went_on_in()[-1]) == (130, folder_of(copy))


def test_a_moved_project_goes_on_where_it_is_now_without_a_change_to_accept(
    run: Run, project: Path, tmp_path: Path
) -> None:
    moved = project.rename(tmp_path / "b")
    ran = resumed(run, moved)
    assert (ran.code, went_on_in()) == (130, [folder_of(moved)])
    assert "its folder was moved along with its database" in ran.err
    (decision,) = [row for row in rows(moved / "rlplan.db", Decision) if row.action == "folder"]
    assert f"from {project}" in decision.reason
    assert resumed(run, moved).code == 130
    renamed = moved / "rlplan.db"
    renamed.rename(moved / "other.db")
    assert run("resume", "--db", str(moved / "other.db")).code == 130


def test_a_database_that_was_copied_alone_is_refused_until_it_has_a_folder_of_its_own(
    run: Run, project: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "b"
    copy.mkdir()
    shutil.copy(project / "rlplan.db", copy)
    refused = resumed(run, copy)
    assert (refused.code, went_on_in()) == (3, [])
    assert f"{folder_of(project)} is driven by {project / 'rlplan.db'}" in refused.err
    assert f"sweep-1 in {copy / 'rlplan.db'}: " in refused.err
    again = resumed(run, copy, "--folder", str(folder_of(project)))
    assert (again.code, went_on_in()) == (3, [])
    shutil.copytree(folder_of(project), copy / "mine" / "sweep-1")
    assert resumed(run, copy, "--folder", str(copy / "mine")).code == 130
    assert went_on_in() == [copy / "mine" / "sweep-1"]
    assert remembered(copy) == str(copy / "mine" / "sweep-1")


@pytest.mark.parametrize("verb", ["resume", "retry"])
def test_a_folder_that_was_moved_or_deleted_is_missed_before_anything_is_charged(
    run: Run, project: Path, verb: str
) -> None:
    if verb == "retry":
        with open_store(project / "rlplan.db") as store, store.write() as session:
            session.query(Trial).first().state = TrialState.FAILED
    charged = accounts(project)
    away = folder_of(project).rename(project / "away")
    missed = resumed(run, project, verb=verb)
    assert (missed.code, went_on_in()) == (3, [])
    assert f"sweep-1 in {project / 'rlplan.db'}: the folder {folder_of(project)} is not there" in missed.err
    assert "--folder PATH" in missed.err
    assert "rlplan sweep" in missed.err
    assert accounts(project) == charged
    assert not folder_of(project).exists()
    assert resumed(run, project, "--folder", str(project / "nowhere"), verb=verb).code == 3
    assert resumed(run, project, "--folder", str(away), verb=verb).code == 130
    assert went_on_in() == [away]


def test_the_folder_of_another_sweep_is_refused(run: Run, project: Path) -> None:
    start(request(task=None, budget=None, db=str(project / "rlplan.db")))
    Simulated.made.clear()
    refused = resumed(run, project, "sweep-1", "--folder", str(folder_of(project).with_name("sweep-2")))
    assert (refused.code, went_on_in()) == (3, [])
    assert f"is that of another, sweep-2 in {project / 'rlplan.db'}" in refused.err


@pytest.mark.parametrize("left", [None, "{torn"])
def test_a_folder_that_does_not_say_whose_it_is_is_refused(run: Run, project: Path, left: str | None) -> None:
    mark = folder_of(project) / MARK
    mark.unlink()
    if left is not None:
        mark.write_text(left)
    for flags in ((), ("--folder", str(folder_of(project)))):
        refused = resumed(run, project, *flags)
        assert (refused.code, went_on_in()) == (3, [])
        assert f"the folder {folder_of(project)} has no {MARK} that says whose it is" in refused.err
        assert "--folder PATH" in refused.err


def test_a_folder_that_goes_while_its_sweep_runs_fails_no_trial(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Moving(Simulated):
        def wait(self, seconds: float) -> list[Event]:
            if not folder_of(project).exists():
                self.clock.advance_to(self.clock.seconds() + MISSING_SECONDS)
                return []
            folder_of(project).rename(project / "away")
            return [Failed(segment, None, 1.0, "error", "no such file") for segment in self._running]

    monkeypatch.setattr(sweeping, "RayExecutor", Moving)
    ran = resumed(run, project)
    assert ran.code == 3
    assert "was moved or removed while it ran" in ran.err
    (sweep,) = rows(project / "rlplan.db", Sweep)
    assert sweep.status is SweepStatus.INTERRUPTED
    assert TrialState.FAILED not in {trial.state for trial in rows(project / "rlplan.db", Trial)}
    monkeypatch.setattr(sweeping, "RayExecutor", Halting)
    assert resumed(run, project).code == 3
    assert resumed(run, project, "--folder", str(project / "away")).code == 130


def test_an_ended_sweep_takes_note_of_its_folder(run: Run, project: Path) -> None:
    with open_store(project / "rlplan.db") as store, store.write() as session:
        sweep_named(session, None).status = SweepStatus.FINISHED
    away = folder_of(project).rename(project / "away")
    ran = resumed(run, project, "--folder", str(away))
    assert (ran.code, f"its folder is {away} from now on" in ran.err, remembered(project)) == (3, True, str(away))


@pytest.mark.parametrize(("there", "goes"), [("postgresql://me@here/one", True), ("postgresql://me@here/two", False)])
def test_a_database_on_a_server_is_known_by_its_address(project: Path, there: str, goes: bool) -> None:
    with open_store(project / "rlplan.db") as store, store.write() as session:
        sweep = sweep_named(session, None)
        mark_folder(folder_of(project), sweep, "postgresql://me@here/one")
        if goes:
            assert home_of(sweep, there).folder == folder_of(project)
            return
        with pytest.raises(AstrayError, match="is driven by postgresql://me@here/one"):
            home_of(sweep, there)
        assert home_of(sweep, there, folder_of(project)).folder == folder_of(project)  # by another name


def test_the_final_run_of_a_copy_goes_on_from_its_own_pilot_or_from_none(run: Run, tmp_path: Path) -> None:
    project, copy, alone = tmp_path / "a", tmp_path / "b", tmp_path / "alone"
    project.mkdir()
    path = ended(project / "rlplan.db", saved=True)
    assert any(checkpoints.exists(project / "trials" / trial.name) for trial in trials(path))
    shutil.copytree(project, copy)
    alone.mkdir()
    shutil.copy(path, alone)
    told = {
        place: run.json("recommend", "--db", str(place / "rlplan.db"), "--target", PILOTED)["launch"]
        for place in (project, copy, alone)
    }
    for place in (project, copy):
        assert told[place]["continues"]["folder"].startswith(f"{place / 'trials'}/")
        assert f"--db {place.name}/rlplan.db" in told[place]["command"]
    assert told[alone]["continues"] is None
    assert f"is driven by {path}" in told[alone]["note"]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/copies"


def begun(database: str, **changes: Any) -> Sweep:
    interrupted(database, **changes)
    return stored(database)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"storage": "xyz://nowhere"}, "Protocol not known: xyz"),
        ({"storage": "file:///proc/nowhere"}, "cannot be written"),
        ({"trainer": "mine.toml", "simulation": None}, "names no {to_step}"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    (tmp_path / "mine.toml").write_text(UNTRAINABLE)
    with pytest.raises(InputError, match=said):
        start(request(**changes, db="rlplan.db"))
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]
    begun("rlplan.db")
    with pytest.raises(InputError, match=said):
        start(request(**changes, db="rlplan.db"))
    assert len(rows("rlplan.db", Plan)) == 1


def test_each_sweep_has_a_place_of_its_own_which_status_shows(tmp_path: Path, url: str) -> None:
    for name in ("one", "another"):
        sweep = begun(f"{name}.db", storage=f"{url}/")
        place = sweep.config["storage"]
        assert place.startswith(f"{url}/sweep-1-")
        assert Place(place).names().keys() == {"sweep.json"}
        found = status.answer(StatusRequest(sweep.name, db=f"{name}.db"))
        assert found["stored_at"] == place
        assert f"acopyofeachtrialin{place}" in "".join(str(found).split())  # it may be two lines
    assert len(list((tmp_path / "copies").iterdir())) == 2


def test_the_file_may_say_where_copies_go_and_the_flag_wins(tmp_path: Path, url: str) -> None:
    (tmp_path / "rlplan.toml").write_text(f'[storage]\nurl = "{url}"\n')
    assert begun("one.db").config["storage"].startswith(f"{url}/sweep-1-")
    assert begun("another.db", storage=f"{url}-2").config["storage"].startswith(f"{url}-2/sweep-1-")
    with open_store("one.db", read_only=True) as store:
        assert "storage" not in store.plan().config


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_sweep_whose_folder_is_gone_goes_on_from_its_copies(tmp_path: Path, url: str, elsewhere: bool) -> None:
    sweep = begun("rlplan.db", storage=url)
    shutil.rmtree(tmp_path / "rlplan-sweeps")
    folder = tmp_path / "new" / "place" if elsewhere else Path(sweep.config["folder"])
    finished = go_on(ResumeRequest(db="rlplan.db", folder=folder if elsewhere else None))
    assert not finished.interrupted
    assert (folder / "sweep.json").exists()
    after = stored("rlplan.db")
    assert (after.config["folder"], after.config["storage"]) == (str(folder), sweep.config["storage"])
    (note,) = [each.reason for each in rows("rlplan.db", Decision) if each.action == "folder"]
    assert f"its trials go on from their copies in {sweep.config['storage']}" in note


def test_a_copied_database_does_not_overwrite_the_copies_of_the_first(tmp_path: Path, url: str) -> None:
    begun("rlplan.db", storage=url)
    (tmp_path / "copy").mkdir()
    shutil.copy("rlplan.db", "copy/rlplan.db")
    shutil.copytree("rlplan-sweeps", "copy/rlplan-sweeps")
    with pytest.raises(InputError, match=r"go on with --db .*rlplan\.db"):
        go_on(ResumeRequest(db="copy/rlplan.db"))
    assert not go_on(ResumeRequest(db="rlplan.db")).interrupted


@pytest.mark.parametrize(("beside", "name"), [((), "sweep-1"), (("n8-B8-s0",), "sweep-1-2")])
def test_what_a_kill_left_of_a_sweep_that_was_never_stored_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: tuple[str, ...], name: str
) -> None:
    """A kill within the storing transaction: the folder has its mark, and the database knows no such sweep."""
    simulate(monkeypatch, Halting)
    database = str(tmp_path / "rlplan.db")
    start(request(further=None, db=database))
    [sweep] = rows(database, Sweep)
    own = Path(sweep.config["folder"])
    trials_of = [path for path in own.iterdir() if path.name != MARK]
    for path in trials_of:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for kept in beside:
        (own / kept).mkdir()
    mark = own / MARK
    text = mark.read_text()
    with open_store(database) as store, store.write() as session:
        session.execute(delete(Sweep))
    own.mkdir(exist_ok=True)
    mark.write_text(text)
    start(request(further=None, db=database))
    assert Path(rows(database, Sweep)[0].config["folder"]).name == name
