import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from budgets.errors import NotFoundError, StoreUnavailableError
from rlplan.reading.story import Beliefs
from rlplan.web.dashboard import hub as hubs
from rlplan.web.dashboard.believer import Believer
from rlplan.web.dashboard.hub import Hub, Listener
from rlplan.web.dashboard.source import Source
from rlplan.web.dashboard.watched import Watched
from tests.rlplan.sweep_rows import Seeder

Scene = Callable[[Hub], Coroutine[Any, Any, None]]


class Counted(Watched):
    """A sweep that counts how often it is looked at."""

    looks = 0

    def look(self) -> bool:
        self.looks += 1
        return super().look()


@pytest.fixture
def play(sweep: Seeder, database: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Scene], dict[str, Counted]]:
    """Run a scene with a hub whose clock goes fast."""
    monkeypatch.setattr(hubs, "POLL_SECONDS", 0.02)

    def run(scene: Scene) -> dict[str, Counted]:
        source, watched = Source(str(database)), {}
        believer = Believer(lambda _: Beliefs(None, "none", {}, {}), pause_seconds=1000)

        def watch(name: str) -> Watched:
            if not name.startswith("sweep"):
                raise NotFoundError(f"there is no {name}")
            watched[name] = Counted(
                name, source, believer, lambda part, story, _: f"<p>{part} {story.picture.trials}</p>"
            )
            return watched[name]

        async def whole() -> None:
            hub = Hub(watch)
            try:
                await scene(hub)
            finally:
                hub.close()

        asyncio.run(whole())
        assert believer.close(20)
        source.close()
        return watched

    return run


async def heard(listener: Listener) -> dict[str, Any]:
    while (message := await listener.next(20)) == "":
        pass
    assert message is not None
    told: dict[str, Any] = json.loads(message)
    return told


def test_two_hundred_look_on_and_one_reads(sweep: Seeder, play: Callable[[Scene], dict[str, Counted]]) -> None:
    async def scene(hub: Hub) -> None:
        listeners = [await hub.listen("sweep-1") for _ in range(200)]
        first = await asyncio.gather(*(heard(each) for each in listeners))
        sweep.score(1, 31, 0.9)
        while (later := await heard(listeners[0]))["versions"]["curves"] == first[0]["versions"]["curves"]:
            pass
        others = await asyncio.gather(*(heard(each) for each in listeners[1:]))
        assert all(set(each["versions"]) == set(later["versions"]) for each in others)

    watched = play(scene)
    assert list(watched) == ["sweep-1"]
    assert watched["sweep-1"].looks < 200


def test_who_is_slow_gets_the_newest_and_holds_nobody_up(play: Callable[[Scene], dict[str, Counted]]) -> None:
    async def scene(_: Hub) -> None:
        listener = Listener()
        for number in range(10_000):
            listener.tell(str(number))
        assert await listener.next(1) == "9999"
        assert await listener.next(0.01) == ""
        listener.tell("last")
        listener.close()
        assert await listener.next(1) is None

    play(scene)


def test_too_many_are_turned_away(play: Callable[[Scene], dict[str, Counted]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "MOST_LISTENERS", 3)

    async def scene(hub: Hub) -> None:
        listeners = [await hub.listen("sweep-1") for _ in range(3)]
        with pytest.raises(StoreUnavailableError, match="3 pages are open"):
            await hub.listen("sweep-1")
        hub.leave("sweep-1", listeners[0])
        await hub.listen("sweep-1")

    play(scene)


def test_a_sweep_that_is_not_there_takes_no_place(
    play: Callable[[Scene], dict[str, Counted]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubs, "MOST_SWEEPS", 1)

    async def scene(hub: Hub) -> None:
        listener = await hub.listen("sweep-1")
        for name in ("x", "y", "../z"):
            with pytest.raises(NotFoundError):
                await hub.snapshot(name)
        assert "versions" in await heard(listener)

    assert list(play(scene)) == ["sweep-1"]


def test_nobody_reads_what_nobody_looks_at(
    play: Callable[[Scene], dict[str, Counted]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubs, "IDLE_SECONDS", 0.0)

    async def scene(hub: Hub) -> None:
        first = await hub.snapshot("sweep-1")
        while [task for task in asyncio.all_tasks() if task.get_name().startswith("reads")]:
            await asyncio.sleep(0.01)
        assert (await hub.snapshot("sweep-1")).mark == first.mark

    assert play(scene)["sweep-1"].looks <= 4


def test_trouble_is_told_once_and_its_end_too(
    sweep: Seeder, database: Path, play: Callable[[Scene], dict[str, Counted]]
) -> None:
    async def scene(hub: Hub) -> None:
        listener = await hub.listen("sweep-1")
        while "versions" not in await heard(listener):
            pass
        away = database.with_suffix(".away")
        database.rename(away)
        while "trouble" not in (told := await heard(listener)):
            pass
        assert "there is no results database" in told["trouble"]
        assert await listener.next(0.3) == "", "the same trouble is not news"
        with pytest.raises(StoreUnavailableError):
            await hub.snapshot("sweep-1")
        away.rename(database)
        assert "versions" in await heard(listener)

    play(scene)


def test_all_are_let_go_at_the_end(play: Callable[[Scene], dict[str, Counted]]) -> None:
    async def scene(hub: Hub) -> None:
        listener = await hub.listen("sweep-1")
        hub.close()
        while (message := await listener.next(20)) == "":
            pass
        assert message is None

    play(scene)
