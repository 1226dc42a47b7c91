"""What every face says of a sweep with a champion, and what `rlplan launch` makes of it."""

from pathlib import Path

import pytest

from planner.policy.champion_first import ChampionPolicy
from planner.store.schema import Sweep
from tests.rlplan.conftest import Run
from tests.rlplan.recommend_sweeps import ended, trials
from tests.runner.sweep.test_champion import champion_sweep, rule_rate, sick_above

CHALLENGER, CHAMPION = "n = 8, B = 64, 0.333 × lr", "n = 8, B = 64"


@pytest.fixture(scope="module", params=["switched", "alone"])
def swept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[bool, bytes]:
    """Whether another goes on than the champion, and the database of its sweep."""
    switched = request.param == "switched"
    given = champion_sweep(tmp_path_factory.mktemp(request.param), share=0.05 if switched else 0.0)
    given.run(ChampionPolicy(), **({"course": sick_above(rule_rate(given) / 2)} if switched else {}))
    with given.store() as store, store.write() as session:
        session.get_one(Sweep, 1).config = given.spec.model_dump(mode="json")
    return switched, given.path.read_bytes()


def test_every_face_says_who_goes_on_and_launch_goes_on_from_there(
    run: Run, tmp_path: Path, swept: tuple[bool, bytes]
) -> None:
    switched, content = swept
    path = ended(tmp_path / "rlplan.db", saved=True, content=content)
    name = CHALLENGER if switched else CHAMPION
    document, screen = run.json("recommend"), run("recommend").text
    champion = document["champion"]
    assert (document["recommendation"]["name"], champion["configuration"]["name"]) == (name, CHAMPION)
    assert champion["switched"] == switched
    assert screen.startswith(f"Go on with {name}: ")
    assert ("likely to end higher than n = 8, B = 64" in screen) == switched
    assert ("Had you gone on alone with n = 8, B = 64" in screen) == switched
    assert "within 0.02 of the best choice" not in screen
    assert "goes on from step" in screen
    assert run("status").text.count(f"Go on with {name} for ") == 1
    first = run.json("rank")["ranking"][0]
    assert (first["prompts_per_batch"], first.get("axes", {})) == (64, {"learning_rate": 0.333} if switched else {})
    launched = run.json("launch", "--dry-run")
    trial = next(each for each in trials(path) if each.step and (dict(each.axes) == first.get("axes", {})))
    assert (launched["from_step"], launched.get("axes", {})) == (trial.step, first.get("axes", {}))
    spent = sum(each.gpu_hours_spent for each in trials(path))
    assert launched["budget_gpu_hours"] == pytest.approx(1.0 - spent, rel=0.02)
    assert launched["gpu_hours"] > 0.9 * launched["budget_gpu_hours"]
