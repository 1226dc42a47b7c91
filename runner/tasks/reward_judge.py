"""A judge that is asked by HTTP what a response is worth: one request for each, again while it does not answer."""

import json
import os
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from budgets.errors import InputError, TrainingError
from runner.ports.task import CALLS, DOLLARS
from runner.tasks.reward_child import JudgedResponse
from runner.tasks.reward_process import answer_of

TOKEN = "RLPLAN_REWARD_TOKEN"  # a variable whose value is sent as a bearer token
_FIRST_WAIT = 1.0  # seconds, which double with every retry
_PASSING = (408, 425, 429)  # with all from 500 on: what a judge says that may be asked again
_OF_THE_RESPONSE = (400, 413, 414, 422)  # what it says of a request that it cannot judge
_CHUNK = 1 << 16


class Judging(NamedTuple):
    """How a judge is asked."""

    url: str
    seconds: float  # that an answer may take
    retries: int
    dollars: float  # of one call
    between: tuple[float, float]  # the numbers that mean a score of 0 and of 1


class _Here(urllib.request.HTTPRedirectHandler):
    """Follows no redirection, which would take the token to somebody else."""

    def redirect_request(self, *_: Any) -> None:
        """Have none."""


_OPENER = urllib.request.build_opener(_Here)


class _NoAnswer(Exception):  # noqa: N818  (it is answered by another try)
    """What went wrong, and how long the judge asks to be left alone."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


def require_judge(url: str) -> None:
    """Refuse an address at which nobody can be asked."""
    parts = urlsplit(url)
    if not parts.hostname or parts.username:
        raise InputError(
            f"reward '{url}': an address such as https://judge.example/score is wanted; a secret goes into the "
            f"environment as {TOKEN}"
        )


def asked(judging: Judging, problem: dict[str, Any], response: str) -> JudgedResponse:
    """Return what the judge says of a response; TrainingError where it does not answer, however often it is asked."""
    body = json.dumps({"problem": problem, "response": response}).encode()
    for made in range(judging.retries + 1):
        try:
            code, said = _answer(judging, body)
        except _NoAnswer as error:
            if made == judging.retries:
                raise TrainingError(
                    "lost", f"the judge at {judging.url} gave no answer in {made + 1} tries: {error}"
                ) from error
            time.sleep(max(error.wait, _FIRST_WAIT * 2**made))
            continue
        spent = {CALLS: made + 1.0} | ({DOLLARS: (made + 1) * judging.dollars} if judging.dollars else {})
        return _understood(judging, code, said, spent)
    raise AssertionError


def _understood(judging: Judging, code: int, said: str, spent: dict[str, float]) -> JudgedResponse:
    if code in _OF_THE_RESPONSE:
        return JudgedResponse(None, "raised", f"the judge answered {code}: {said[:200]}", spent)
    if code >= 300:
        raise TrainingError("input", f"the judge at {judging.url} answered {code}: {said[:200]}")
    try:
        value = json.loads(said)
    except ValueError:
        value = said[:200]
    score, failure, message, metrics = answer_of(value, *judging.between)
    return JudgedResponse(score, failure, message, {**metrics, **spent})


def _answer(judging: Judging, body: bytes) -> tuple[int, str]:
    """Return the code and text of the answer to one call; _NoAnswer where another may bring one."""
    headers = {"Content-Type": "application/json"}
    if TOKEN in os.environ:
        headers["Authorization"] = f"Bearer {os.environ[TOKEN]}"
    request = urllib.request.Request(judging.url, body, headers)
    end = time.monotonic() + judging.seconds
    try:
        with _OPENER.open(request, timeout=judging.seconds) as reply:
            text = b""
            while chunk := reply.read1(_CHUNK):
                text += chunk
                if time.monotonic() > end:
                    raise _NoAnswer(f"it took longer than {judging.seconds:g} s")
            return reply.status, text.decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        with error:
            text = error.read(_CHUNK)
        if error.code in _PASSING or error.code >= 500:
            wait = error.headers.get("Retry-After") or ""
            raise _NoAnswer(f"HTTP {error.code} {error.reason}", float(wait) if wait.isdigit() else 0.0) from error
        return error.code, text.decode("utf-8", "replace")
    except (OSError, HTTPException) as error:  # URLError and TimeoutError are OSErrors
        raise _NoAnswer(str(getattr(error, "reason", None) or error) or type(error).__name__) from error
