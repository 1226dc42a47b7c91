"""A server that trains, driven: it keeps the promises of every backend, and to stop it changes nothing it computes."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from budgets.errors import InputError, TrainingError
from runner.ports.backend import Point
from runner.ports.trial import TrialConfig
from runner.trainers.backend import DrivenBackend
from runner.trainers.tinker.driver import DRIVER
from runner.trainers.tinker.service import unload
from runner.training import checkpoints
from runner.training.trial import OpenTrial
from tests.conformance.trainer_backend import *  # noqa: F403
from tests.tinker.conftest import PRICES, Made
from tests.tinker.serving import KEY, Proxy, Reply, Server


@contextmanager
def opened(config: TrialConfig, folder: Path) -> Iterator[OpenTrial]:
    """Go on from the newest checkpoint, or start."""
    backend = DrivenBackend(DRIVER)
    begun = (folder / "trainer").exists()
    if not begun:
        backend.start(config, folder)
    trial = OpenTrial(backend, folder, backend.restore(config, folder) if begun else None)
    try:
        yield trial
    finally:
        trial.close()


def saved(folder: Path) -> str:
    """Return where the newest checkpoint of a trial is on the service."""
    path: str = checkpoints.load(folder / "trainer").state["trainer"]["updater"]["saved"]
    return path


def adapter(folder: Path) -> str:
    return saved(folder).removeprefix("tinker://").split("/")[0]


def computed(points: list[Point]) -> list[object]:
    """What of points follows from the computation alone."""
    return [
        (p.optimizer_step, p.tokens, p.score, {name: v for name, v in p.metrics.items() if name != "seconds"})
        for p in points
    ]


def kill(folder: Path) -> None:
    """Kill the process that drives the trial, as a lost machine does."""
    for path in Path("/proc").glob("[0-9]*/cwd"):
        if path.exists() and path.resolve() == folder / "trainer":
            os.kill(int(path.parent.name), signal.SIGKILL)


def test_killed_and_resumed_it_has_the_same_weights_and_optimizer_bit_by_bit(
    config: TrialConfig, server: Server, tmp_path: Path
) -> None:
    with opened(config, tmp_path / "whole") as undisturbed:
        whole = list(undisturbed.train(8))
        undisturbed.save()
    with opened(config, tmp_path / "cut") as first:
        points = list(first.train(3))
        first.save()
        points += first.train(5)  # which waits at the gate between
        first.save()
        more = first.train(1000)
        next(more)
        kill(tmp_path / "cut")
        with pytest.raises(TrainingError, match="SIGKILL"):
            list(more)
    with opened(config, tmp_path / "cut") as second:
        assert second.step == 5
        points += second.train(8)
        second.save()
    assert computed(points) == computed(whole)
    ours, theirs = (server.checkpoint(saved(tmp_path / name)) for name in ("whole", "cut"))
    assert {"lora_weights", "optimizer_state"} == {name.split("/")[0] for name in ours}
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    counted = server.tokens(adapter(tmp_path / "whole"))
    assert counted == {name: sum(point.metrics[f"{name}_tokens"] for point in whole) for name in counted}
    dollars = sum(PRICES[name] * count for name, count in counted.items()) / 1e6
    assert sum(point.metrics["service_dollars"] for point in whole) == pytest.approx(dollars)


def test_what_another_trainer_calls_a_recipe_is_said_of_the_server_by_name(made: Made, tmp_path: Path) -> None:
    config = made(recipe={"optimizer": {"clip_norm": 1.0}})
    with opened(config, tmp_path) as trial, pytest.raises(TrainingError, match="it clips no gradients") as refusal:
        list(trial.train(1))
    assert refusal.value.kind == "input"


def test_a_wrong_key_is_named_and_stands_nowhere(
    made: Made, proxy: Proxy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proxy.answers = lambda path: Reply(401)
    config = made(proxy.url)
    with pytest.raises(InputError, match=r"refuses the key in TINKER_API_KEY \(401\)"):
        DRIVER.reach(config)
    with opened(config, tmp_path) as trial, pytest.raises(TrainingError, match="refuses the key") as refusal:
        list(trial.train(1))
    assert refusal.value.kind == "input"
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and KEY in path.read_text(errors="replace")]


def test_too_many_requests_are_waited_for(made: Made, proxy: Proxy, tmp_path: Path) -> None:
    refused: list[str] = []

    def answers(path: str) -> Reply | None:
        if path.endswith("/asample") and len(refused) < 3:
            refused.append(path)
            return Reply(429)
        return None

    proxy.answers = answers
    with opened(made(proxy.url), tmp_path) as trial:
        assert [point.optimizer_step for point in trial.train(1)] == [0, 1]
    assert len(refused) == 3


@pytest.mark.parametrize(
    ("path", "words"), [("/retrieve_future", "gave no answer within 2 s"), ("/create_session", "gave no answer within")]
)
def test_a_call_that_takes_too_long_is_lost_and_may_be_tried_again(
    path: str, words: str, made: Made, proxy: Proxy, tmp_path: Path
) -> None:
    proxy.answers = lambda asked: Reply(200, 20.0) if asked.endswith(path) else None
    with (
        opened(made(proxy.url, call_seconds=2.0), tmp_path) as trial,
        pytest.raises(TrainingError, match=words) as failure,
    ):
        list(trial.train(1))
    assert failure.value.kind == "lost"


def test_an_adapter_that_expired_is_made_anew_from_the_last_save(made: Made, server: Server, tmp_path: Path) -> None:
    config = made()
    with opened(config, tmp_path) as first:
        list(first.train(2))
        first.save()
        unload(server.url, None, adapter(tmp_path))
        with pytest.raises(TrainingError, match="has dropped the adapter") as failure:
            list(first.train(4))
        assert failure.value.kind == "lost"
    with opened(config, tmp_path) as second:
        assert second.step == 2
        assert [point.optimizer_step for point in second.train(3)] == [3]


def test_a_server_that_dies_is_named_and_gone_on_with_when_it_is_back(
    made: Made, server: Server, tmp_path: Path
) -> None:
    config = made(call_seconds=30.0)
    with opened(config, tmp_path) as first:
        list(first.train(2))
        first.save()
        server.stop()
        began = time.monotonic()
        with pytest.raises(TrainingError) as failure:
            list(first.train(4))
        assert failure.value.kind == "lost"
        assert time.monotonic() - began < 90
    server.start()
    with opened(config, tmp_path) as second:
        assert second.step == 2
        assert [point.optimizer_step for point in second.train(3)] == [3]
