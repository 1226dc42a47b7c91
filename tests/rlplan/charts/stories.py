"""Stories and beliefs to draw: of a sweep that has ended, and of one in the middle of its life."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from planner.store import open_store
from rlplan.reading.beliefs import beliefs
from rlplan.reading.story import Beliefs, Story, story
from rlplan.reading.sweep_picture import TrialRow
from tests.rlplan.recommend_sweeps import ended
from tests.rlplan.sweep_rows import later, seeded

EVIL = "</script><script>document.title='broken'</script><b onmouseover=alert(1)>$accent & \u2028"
NOTHING = Beliefs(None, "no recommendation: none of 7 configurations has a score after its first update", {}, {})


@cache
def finished() -> tuple[Story, Beliefs]:
    """A sweep with a recommendation."""
    with TemporaryDirectory() as folder:
        path = ended(Path(folder) / "rlplan.db")
        with open_store(path, read_only=True) as store:
            return story(store), beliefs(store)


@cache
def under_way() -> Story:
    """A sweep with a trial in every state."""
    with TemporaryDirectory() as folder:
        seeder = seeded(Path(folder) / "rlplan.db")
        told = story(seeder.store, now=later(seeder))
        seeder.store.close()
        return told


def empty() -> Story:
    """A sweep that has not begun."""
    told = under_way()
    picture = replace(told.picture, trials=(), decisions=0, last_decisions=(), answer=None)
    return replace(told, picture=picture, segments=(), charges=(), decisions=(), planned=(), flags=(), assumptions=())


def with_trials(told: Story, *trials: TrialRow) -> Story:
    return replace(told, picture=replace(told.picture, trials=trials))
