import errno
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from budgets.errors import TrainingError
from runner.ports.task import Scores
from runner.tasks.rewards import ProcessReward
from tests.runner.tasks.conftest import FUNCTION, LIMIT, PROBLEM
from tests.runner.waiting import lives, until

ROOT = Path(__file__).parents[3]


def child_of(reward: ProcessReward, tmp_path: Path) -> int:
    file = tmp_path / "pid"
    assert reward.score([PROBLEM], [f"marked {file} equal 4"]).values == [1.0]
    return int(file.read_text())


def test_closing_ends_the_process_and_may_be_repeated(reward: ProcessReward, tmp_path: Path) -> None:
    pid = child_of(reward, tmp_path)
    reward.close()
    until(lambda: not lives(pid))
    reward.close()


def test_a_process_that_died_between_batches_is_replaced_and_no_response_blamed(
    reward: ProcessReward, tmp_path: Path
) -> None:
    pid = child_of(reward, tmp_path)
    os.kill(pid, signal.SIGKILL)
    until(lambda: not lives(pid))
    assert reward.score([PROBLEM], ["equal 4"]).failures == {}
    assert child_of(reward, tmp_path) != pid


def test_a_stopped_process_is_replaced(reward: ProcessReward, tmp_path: Path) -> None:
    pid = child_of(reward, tmp_path)
    os.kill(pid, signal.SIGSTOP)
    scores = reward.score([PROBLEM] * 2, ["equal " + "x" * 5_000_000, "equal 4"])
    assert scores.values == [0.125, 1.0]
    assert scores.failures == {"timed-out": 1}
    until(lambda: not lives(pid))


def test_what_a_hanging_function_started_is_killed_with_it(reward: ProcessReward, tmp_path: Path) -> None:
    file = tmp_path / "pids"
    assert reward.score([PROBLEM], [f"spawn {file}"]).failures == {"timed-out": 1}
    until(lambda: not any(map(lives, map(int, file.read_text().split()))))


def test_an_interrupted_batch_leaves_no_answers_for_the_next(reward: ProcessReward, monkeypatch) -> None:
    reward.start()
    (child,) = reward._idle
    monkeypatch.setattr(child, "receive", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        reward.score([PROBLEM] * 3, ["equal 4"] * 3)
    assert reward.score([PROBLEM] * 3, ["equal 5", "equal 4", "equal 5"]).values == [0.0, 1.0, 0.0]


def test_threads_may_share_a_reward(reward: ProcessReward) -> None:
    results: dict[int, list[float]] = {}

    def work(number: int) -> None:
        responses = [f"equal {4 if i % (number + 2) == 0 else 5}" for i in range(150)]
        results[number] = reward.score([PROBLEM] * 150, responses).values

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: [float(i % (number + 2) == 0) for i in range(150)] for number in range(4)}


def test_a_function_that_cannot_be_loaded_any_more_loses_the_segment(tmp_path: Path) -> None:
    file = tmp_path / "functions.py"
    file.write_text("import os\ndef act(problem, response): return float(response) or os._exit(3)")
    reward = ProcessReward(f"{file}:act", LIMIT)
    reward.start()
    file.unlink()
    with pytest.raises(TrainingError, match=r"could not be started, twice: .*functions\.py") as raised:
        reward.score([PROBLEM] * 3, ["1", "0", "1"])
    assert raised.value.kind == "lost"
    reward.close()


@pytest.mark.parametrize("under_way", ["", "marked FILE sleep 60", "marked FILE backtrack", "spawn FILE"])
def test_the_process_ends_with_its_parent(tmp_path: Path, under_way: str) -> None:
    file = tmp_path / "pids"
    doing = under_way.replace("FILE", f"{file}.2") or "equal 4"
    program = textwrap.dedent(f"""
        import time
        from runner.ports.task import Problem
        from runner.tasks.rewards import ProcessReward
        reward = ProcessReward({FUNCTION!r}, 600.0)
        reward.score([Problem("p", "x", "4")], ["marked {file} equal 4"])
        print("ready", flush=True)
        reward.score([Problem("p", "x", "4")], ["{doing}"])
        time.sleep(600)
    """)
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=ROOT)
    assert parent.stdout is not None
    with parent, parent.stdout:
        assert parent.stdout.readline() == b"ready\n"
        started = Path(f"{file}.2")
        until(lambda: not under_way or (started.exists() and started.read_text()))
        parent.kill()
    pids = file.read_text() + " " + (started.read_text() if under_way else "")
    until(lambda: not any(map(lives, map(int, pids.split()))))


def test_a_process_is_started_twice_and_where_none_can_be_the_segment_is_lost_instead_of_scoring_0(
    reward: ProcessReward, monkeypatch: pytest.MonkeyPatch
) -> None:
    reward.close()
    popen, error = subprocess.Popen, OSError(errno.EAGAIN, "no process to be had")
    failing = [error, error]

    def hesitant(*given: Any, **named: Any) -> subprocess.Popen[bytes]:
        if failing:
            raise failing.pop()
        return popen(*given, **named)

    monkeypatch.setattr(subprocess, "Popen", hesitant)
    with pytest.raises(TrainingError, match=r"could not be started, twice: .*no process to be had") as raised:
        reward.score([PROBLEM], ["equal 4"])
    assert (raised.value.kind, failing) == ("lost", [])
    failing.append(error)
    assert reward.score([PROBLEM], ["equal 4"]) == Scores([1.0], {})


def test_an_interpreter_without_safe_paths_starts_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    older = SimpleNamespace(executable=sys.executable, flags=SimpleNamespace())  # as Python 3.10 has them
    monkeypatch.setattr("runner.tasks.reward_child.sys", older)
    commands: list[list[str]] = []
    popen = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda command, **given: commands.append(command) or popen(command, **given)
    )
    made = ProcessReward(FUNCTION, LIMIT)
    assert made.score([PROBLEM], ["equal 4"]).values == [1.0]
    made.close()
    assert "-P" not in commands[0]


def test_a_pool_keeps_the_order_and_a_process_that_is_lost_costs_its_own_answer(tmp_path: Path) -> None:
    reward = ProcessReward(FUNCTION, LIMIT, processes=2)
    files = [tmp_path / name for name in ("a", "b")]
    responses = ["equal 4", "equal 5"] * 40
    responses[3], responses[50], responses[60] = f"marked {files[0]} vanish", f"marked {files[1]} equal 4", "sleep 60"
    scores = reward.score([PROBLEM] * 80, responses)
    assert scores.values == [float(i % 2 == 0 and i != 60) for i in range(80)]
    assert scores.failures == {"died": 1, "timed-out": 1}
    assert len(reward._idle) <= 2
    reward.close()
    until(lambda: not any(lives(int(file.read_text())) for file in files))
