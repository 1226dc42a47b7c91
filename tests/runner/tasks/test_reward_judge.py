"""A judge that is asked by HTTP, against a real server on this machine."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from budgets.errors import InputError, TrainingError
from runner.ports.task import Reward, summed
from runner.ports.trial import TaskChoice
from runner.tasks import reward_judge
from runner.tasks.rewards import make_reward
from tests.runner.tasks.conftest import PROBLEM

ENDLESS = {
    "drips": "no whole answer within",
    "drips in its head": "no whole answer within",
    "streams": "is longer than",
}


class Judge(ThreadingHTTPServer):
    """Does what the response tells it to: answers with the JSON of it, or with codes before it answers."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Asked)
        self.seen: list[dict[str, Any]] = []
        self.tokens: set[str | None] = set()
        self.at_once = threading.Barrier(4)
        self.codes: dict[str, list[int]] = {}


class Asked(BaseHTTPRequestHandler):
    server: Judge

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append(body)
        self.server.tokens.add(self.headers["Authorization"])
        response = body["response"]
        if response == "together":
            self.server.at_once.wait(10)
        if response == "slow":
            threading.Event().wait(0.5)
        if response in ENDLESS:
            self.endless(response)
            return
        left = self.server.codes.get(response)
        code = left.pop(0) if left else 200
        said = b"0.5" if response in ("together", "slow") or response in self.server.codes else response.encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(said)))
        self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(said)

    def endless(self, how: str) -> None:
        """Answer a little every now and then, or without a pause, until the caller has enough."""
        with suppress(OSError):
            if how != "drips in its head":
                self.send_response(200)
                self.end_headers()
            while True:
                self.wfile.write(b"[" * (1 << 20) if how == "streams" else b"H" if "head" in how else b" ")
                self.wfile.flush()
                threading.Event().wait(0.0 if how == "streams" else 0.05)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Judge]:
    monkeypatch.setattr(reward_judge, "_FIRST_WAIT", 0.001)
    with Judge() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def asking(judge: Judge, **choice: Any) -> Reward:
    url = f"http://127.0.0.1:{judge.server_port}/score"
    return make_reward(TaskChoice(name="p.jsonl", reward=url, **({"reward_retries": 2} | choice)))


@pytest.mark.parametrize("how", ENDLESS)
def test_a_judge_has_its_time_for_the_whole_answer_and_a_bound_of_bytes(judge: Judge, how: str) -> None:
    began = time.monotonic()
    with pytest.raises(TrainingError, match=f"gave no answer in 2 tries: 0 .*{ENDLESS[how]}"):
        asking(judge, reward_seconds=1.0, reward_retries=1).score([PROBLEM], [how])
    assert time.monotonic() - began < 30.0


def test_an_answer_that_is_nested_too_deeply_is_a_failed_reward(judge: Judge) -> None:
    assert asking(judge).score([PROBLEM], ["[" * 100_000]).failures


def test_a_judge_is_asked_about_several_responses_at_once_and_its_calls_are_counted(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLPLAN_REWARD_TOKEN", "hush")
    responses = ["together"] * 4 + ['{"score": 1, "style": 3, "why": "neat"}', '{"score": 0.25, "style": 4}', "busy"]
    judge.codes["busy"] = [503, 429]
    scores = asking(judge, reward_parallel=4, reward_dollars=0.01).score([PROBLEM] * 7, responses)
    assert scores.values == [0.5] * 4 + [1.0, 0.25, 0.5]
    assert scores.failures == {}
    assert summed(scores.metrics) == pytest.approx({"reward_calls": 9, "reward_dollars": 0.09, "reward/style": 3.5})
    asked = {"problem": {"level": 7, "id": "p", "prompt": "2 + 2?", "answer": "4"}, "response": "busy"}
    assert asked in judge.seen
    assert judge.tokens == {"Bearer hush"}


@pytest.mark.parametrize(
    ("response", "codes", "kind", "says"),
    [
        ("down", [500, 502, 503], "lost", "no answer in 3 tries: 503"),
        ("slow", [], "lost", "no answer in 1 tries: .*timed out"),
        ("secret", [401], "input", "answered 401"),
        ("moved", [302], "input", "answered 302"),
    ],
)
def test_a_judge_that_does_not_answer_is_an_error_and_no_score(
    judge: Judge, response: str, codes: list[int], kind: str, says: str
) -> None:
    judge.codes[response] = codes
    limits = {"reward_seconds": 0.1, "reward_retries": 0} if response == "slow" else {}
    with pytest.raises(TrainingError, match=says) as raised:
        asking(judge, **limits).score([PROBLEM] * 2, ["1", response])
    assert raised.value.kind == kind


def test_nobody_at_the_address_is_an_error_too(judge: Judge) -> None:
    reward = asking(judge)
    judge.shutdown()
    judge.server_close()
    with pytest.raises(TrainingError, match="no answer in 3 tries"):
        reward.score([PROBLEM], ["1"])


def test_what_the_judge_cannot_say_of_one_response_costs_its_own_score(judge: Judge) -> None:
    judge.codes["long"] = [413]
    reward = asking(judge, reward_range=[-1.0, 3.0], failed_reward=0.125)
    scores = reward.score([PROBLEM] * 5, ["long", "no number", "-1", "1", "4"])
    assert scores.values == [0.125, 0.125, 0.0, 0.5, 1.0]
    assert scores.failures == {"raised": 1, "not-finite": 1, "out-of-range": 1}
    assert "it should lie in -1 to 3" in scores.notes[-1]


@pytest.mark.parametrize("url", ["http://", "https://me:secret@judge.example/score"])
def test_an_address_at_which_nobody_can_be_asked_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="RLPLAN_REWARD_TOKEN"):
        make_reward(TaskChoice(name="p.jsonl", reward=url))
