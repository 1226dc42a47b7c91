"""Sweeps whose trials have copies at a URL, with simulated workers instead of Ray."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from budgets.errors import InputError
from planner.store import open_store
from planner.store.schema import Decision, Plan, Sweep
from rlplan.actions.sweeping import go_on, start
from rlplan.answers import status
from rlplan.requests.reading import StatusRequest
from rlplan.requests.running import ResumeRequest
from runner.storage.place import Place
from tests.rlplan.test_sweeping import interrupted, request, stored

pytestmark = pytest.mark.usefixtures("simulated_workers")

UNTRAINABLE = 'command = "train {rollouts_per_prompt} {prompts_per_batch} {learning_rate}"\nresume = ""\n'


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/copies"


def begun(database: str, **changes: Any) -> Sweep:
    interrupted(database, **changes)
    return stored(database)


def plans(database: str) -> int:
    with open_store(database, read_only=True) as store, store.read() as session:
        return session.query(Plan).count()


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
    assert plans("rlplan.db") == 1


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
    with open_store("rlplan.db", read_only=True) as store, store.read() as session:
        (note,) = session.query(Decision.reason).filter(Decision.action == "folder")
    assert f"its trials go on from their copies in {sweep.config['storage']}" in note[0]


def test_a_copied_database_does_not_overwrite_the_copies_of_the_first(tmp_path: Path, url: str) -> None:
    begun("rlplan.db", storage=url)
    (tmp_path / "copy").mkdir()
    shutil.copy("rlplan.db", "copy/rlplan.db")
    shutil.copytree("rlplan-sweeps", "copy/rlplan-sweeps")
    with pytest.raises(InputError, match=r"go on with --db .*rlplan\.db"):
        go_on(ResumeRequest(db="copy/rlplan.db"))
    assert not go_on(ResumeRequest(db="rlplan.db")).interrupted
