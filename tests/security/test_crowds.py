"""Many visitors at once, some of whom take nothing of what they asked for."""

import socket
import threading
from pathlib import Path

import psutil
import pytest

from rlplan.web.dashboard import live
from rlplan.web.dashboard import serving as server
from tests.security.attacker import PAGES, SWEEP, Answer, Target, answer, serving, until
from tests.security.conftest import Fort

CROWD = 200
WANTED = ("/", SWEEP, f"{SWEEP}/sections/now", f"{SWEEP}/data.json", f"{SWEEP}/trials/1", "/static/rlplan.css")


def visit_at_once(target: Target, number: int) -> tuple[list[Answer], int]:
    """Let visitors come at once: every other one stays to look on, the others want a page each."""
    answers: list[Answer] = []
    failed: list[BaseException] = []

    def visit(path: str) -> None:
        try:
            answers.append(target.get(path))
        except BaseException as error:
            failed.append(error)

    watchers = [socket.create_connection(("127.0.0.1", target.port), timeout=30) for _ in range(number // 2)]
    for each in watchers:
        each.sendall(target.head(f"{SWEEP}/events"))
    threads = [threading.Thread(target=visit, args=(WANTED[i % len(WANTED)],)) for i in range(number // 2)]
    for thread in threads:
        thread.start()
    told = sum(b"event: state" in until(each, rb"event: state\ndata: .*\n\n") for each in watchers)
    for thread in threads:
        thread.join()
    for each in watchers:
        each.close()
    assert not failed
    return answers, told


def test_two_hundred_at_once_are_all_answered(fort: Fort) -> None:
    answers, told = visit_at_once(fort.target, CROWD)
    assert [each.status for each in answers] == [200] * (CROWD // 2)
    assert told == CROWD // 2
    for path in PAGES:
        assert fort.target.get(path).status == 200
    assert "Traceback" not in fort.said()


@pytest.mark.soak
def test_crowds_that_come_and_go_leave_nothing_behind(fort: Fort) -> None:
    process = next(
        each
        for each in psutil.process_iter()
        if any(found.laddr and found.laddr.port == fort.target.port for found in _listening(each))
    )
    visit_at_once(fort.target, CROWD)
    before = process.memory_info().rss, process.num_fds()
    for _ in range(10):
        visit_at_once(fort.target, CROWD)
    assert fort.target.get("/healthz").status == 200
    after = process.memory_info().rss, process.num_fds()
    assert after[0] < before[0] * 1.2 + 20e6
    assert after[1] < before[1] + 20


def _listening(process: psutil.Process) -> list[object]:
    try:
        return [each for each in process.net_connections("tcp") if each.status == psutil.CONN_LISTEN]
    except psutil.Error:
        return []


def test_who_takes_nothing_of_a_stream_costs_little_and_is_dropped(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "STUCK_SECONDS", 0.3)
    with serving(database) as target, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.settimeout(30)
        client.connect(("127.0.0.1", target.port))
        client.sendall(target.head("/static/plotly.min.js", "Accept-Encoding: identity") * 3)
        while True:
            try:
                client.send(b"\n")
            except ConnectionError:
                break
            assert target.get("/healthz").status == 200


def test_one_too_many_who_look_on_is_told_so_and_the_others_stay(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_WATCHERS", 3)
    with serving(database) as target:
        watchers = [socket.create_connection(("127.0.0.1", target.port), timeout=30) for _ in range(3)]
        for each in watchers:
            each.sendall(target.head(f"{SWEEP}/events"))
            until(each, rb"event: state")
        assert target.get(f"{SWEEP}/events").status == 503
        assert target.get(SWEEP).status == 200
        for each in watchers:
            each.close()
        while target.get(f"{SWEEP}/events").status == 503:
            pass


def test_sweeps_that_are_not_there_fill_no_memory(fort: Fort) -> None:
    for number in range(100):
        assert fort.target.get(f"/sweeps/none-{number}/events").status == 404
    with fort.target.connected(fort.target.head(f"{SWEEP}/events")) as client:
        assert answer(client).status == 200
