"""Many visitors at once."""

import threading

import psutil
import pytest

from tests.security.attacker import PAGES, SWEEP, Answer, Target
from tests.security.conftest import Fort

CROWD = 200
WANTED = (
    *("/", SWEEP, f"{SWEEP}/state", f"{SWEEP}/sections/now", f"{SWEEP}/data.json"),
    *(f"{SWEEP}/trials/1", "/static/rlplan.css"),
)


def visit_at_once(target: Target, number: int) -> list[Answer]:
    """Let visitors come at once, who want a page each."""
    answers: list[Answer] = []
    failed: list[BaseException] = []

    def visit(path: str) -> None:
        try:
            answers.append(target.get(path))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=visit, args=(WANTED[i % len(WANTED)],)) for i in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    return answers


def test_two_hundred_at_once_are_all_answered(fort: Fort) -> None:
    assert [each.status for each in visit_at_once(fort.target, CROWD)] == [200] * CROWD
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
