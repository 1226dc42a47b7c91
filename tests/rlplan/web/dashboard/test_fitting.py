import threading
import time

from budgets.errors import NotFoundError
from rlplan.reading.story import Beliefs
from rlplan.web.dashboard.fitting import CurveFitter

NOTHING = Beliefs(None, "nothing seen yet", {}, {})


class Work:
    """Beliefs that take until they are let go."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.begun, self.go = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, sweep: str) -> Beliefs:
        self.asked.append(sweep)
        self.begun.release()
        assert self.go.acquire(timeout=20)
        return NOTHING


def known(fitter: CurveFitter, sweep: str, mark: str) -> bool:
    for _ in range(2000):
        found = fitter.fitted(sweep)
        if found is not None and found.mark == mark:
            return True
        time.sleep(0.005)
    return False


def test_asking_waits_for_nothing_and_the_answer_comes() -> None:
    work = Work()
    fitter = CurveFitter(work, pause_seconds=0)
    fitter.ask("sweep-1", "a")
    assert work.begun.acquire(timeout=20)
    assert fitter.fitted("sweep-1") is None
    fitter.ask("sweep-1", "a")
    work.go.release()
    assert known(fitter, "sweep-1", "a")
    fitter.ask("sweep-1", "a")
    assert fitter.close(20)
    assert work.asked == ["sweep-1"]


def test_the_newest_rows_and_the_latest_sweep_come_first() -> None:
    work = Work()
    fitter = CurveFitter(work, pause_seconds=0)
    fitter.ask("sweep-1", "a")
    assert work.begun.acquire(timeout=20)
    for sweep, mark in (("sweep-2", "a"), ("sweep-1", "b"), ("sweep-1", "c"), ("sweep-3", "a")):
        fitter.ask(sweep, mark)
    for _ in range(4):
        work.go.release()
    assert all(known(fitter, *each) for each in (("sweep-1", "c"), ("sweep-2", "a"), ("sweep-3", "a")))
    assert fitter.close(20)
    assert work.asked == ["sweep-1", "sweep-3", "sweep-2", "sweep-1"] or work.asked[1] == "sweep-3"
    assert work.asked.count("sweep-1") == 2


def test_one_sweep_is_not_worked_out_again_and_again() -> None:
    asked: list[str] = []

    def work(sweep: str) -> Beliefs:
        asked.append(sweep)
        return NOTHING

    fitter = CurveFitter(work, pause_seconds=1000)
    fitter.ask("sweep-1", "a")
    assert known(fitter, "sweep-1", "a")
    fitter.ask("sweep-1", "b")
    fitter.ask("sweep-2", "a")
    assert known(fitter, "sweep-2", "a")
    assert fitter.close(20)
    assert asked == ["sweep-1", "sweep-2"]


def test_what_fails_is_told_and_what_was_known_stays() -> None:
    answers: list[Beliefs | Exception] = [NOTHING, NotFoundError("it is gone"), ZeroDivisionError("our bug")]

    def work(_: str) -> Beliefs:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    fitter = CurveFitter(work, pause_seconds=0)
    for mark, problem in (("a", None), ("b", "it is gone"), ("c", "could not be fitted (ZeroDivisionError)")):
        fitter.ask("sweep-1", mark)
        assert known(fitter, "sweep-1", mark)
        found = fitter.fitted("sweep-1")
        assert found is not None
        assert found.beliefs is NOTHING
        assert found.problem is None if problem is None else problem in (found.problem or "")
    assert fitter.close(20)


def test_none_is_begun_after_the_end() -> None:
    fitter = CurveFitter(lambda _: NOTHING)
    assert fitter.close()
    fitter.ask("sweep-1", "a")
    assert fitter.fitted("sweep-1") is None
