"""A judge that is asked by HTTP what a response is worth: one request for each, again while it does not answer."""

import json
import os
import socket
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from budgets.errors import InputError, TrainingError
from runner.ports.task import CALLS, DOLLARS
from runner.tasks.reward_child import JudgedResponse
from runner.tasks.reward_process import answer_of

TOKEN = "RLPLAN_REWARD_TOKEN"  # a variable whose value is sent as a bearer token
_FIRST_WAIT = 1.0  # seconds, which double with every retry
_SILENT = 0  # in place of a code
_PASSING = (_SILENT, 408, 425, 429)  # with all from 500 on: it may be asked again
_OF_THE_RESPONSE = (400, 413, 414, 422)  # what it says of a request that it cannot judge
_MOST_BYTES = 1 << 20  # of an answer, which is a number or a small object


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow none: it would take the token to somebody else."""


class _Bounded(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Cuts the connection of one call when its time is over: a judge that drips would hold it without an end."""

    def __init__(self, seconds: float) -> None:
        urllib.request.HTTPSHandler.__init__(self)
        self._sockets: list[socket.socket] = []
        self.over = False
        self.timer = threading.Timer(seconds, self._cut)
        self.timer.daemon = True
        self.timer.start()

    def do_open(self, http_class: Any, req: Any, **arguments: Any) -> Any:
        """Open a connection that can be cut."""
        sockets = self._sockets

        class Cuttable(http_class):  # type: ignore[misc]
            def connect(self) -> None:
                super().connect()
                sockets.append(self.sock)

        return super().do_open(Cuttable, req, **arguments)

    def _cut(self) -> None:
        self.over = True
        for connected in self._sockets:
            with suppress(OSError):
                socket.socket.shutdown(connected, socket.SHUT_RDWR)  # beneath TLS, which would wait for its farewell


class Judge(NamedTuple):
    """Who is asked, and how."""

    url: str
    seconds: float  # that an answer may take
    retries: int
    dollars: float  # of one call
    between: tuple[float, float]  # the numbers that mean a score of 0 and of 1

    def require_address(self) -> None:
        """Refuse an address at which nobody can be asked."""
        parts = urlsplit(self.url)
        if not parts.hostname or parts.username:
            expected = f"an address such as https://judge.example/score is wanted, with a secret in ${TOKEN}"
            raise InputError(f"reward '{self.url}': {expected}")

    def judged(self, problem: dict[str, Any], response: str) -> JudgedResponse:
        """Return what the judge says of a response; TrainingError where it does not answer, however often asked."""
        body = json.dumps({"problem": problem, "response": response}).encode()
        for calls in range(1, self.retries + 2):
            code, reply = self._answer(body)
            if code not in _PASSING and code < 500:
                break
            if calls > self.retries:
                raise TrainingError("lost", f"the judge at {self.url} gave no answer in {calls} tries: {code} {reply}")
            time.sleep(_FIRST_WAIT * 2 ** (calls - 1))
        spent = {CALLS: float(calls)} | ({DOLLARS: calls * self.dollars} if self.dollars else {})
        if code in _OF_THE_RESPONSE:
            return JudgedResponse(None, "raised", f"the judge answered {code}: {reply}", spent)
        if code >= 300:
            raise TrainingError("input", f"the judge at {self.url} answered {code}: {reply}")
        try:
            value = json.loads(reply)
        except (ValueError, RecursionError):  # nested too deeply
            value = reply
        score, failure, message, metrics = answer_of(value, *self.between)
        return JudgedResponse(score, failure, message, {**metrics, **spent})

    def _answer(self, body: bytes) -> tuple[int, str]:
        """Return the code and text of the answer to one call, or why there is none."""
        token = {"Authorization": f"Bearer {os.environ[TOKEN]}"} if TOKEN in os.environ else {}
        request = urllib.request.Request(self.url, body, {"Content-Type": "application/json", **token})
        bounded = _Bounded(self.seconds)
        try:
            with urllib.request.build_opener(_NoRedirect, bounded).open(request, timeout=self.seconds) as reply:
                code, text = reply.status, reply.read(_MOST_BYTES + 1)
        except urllib.error.HTTPError as error:
            with error, suppress(OSError, HTTPException):
                return error.code, error.read(800).decode("utf-8", "replace")[:200]
            return error.code, ""
        except (OSError, HTTPException) as error:  # URLError and TimeoutError are OSErrors
            code, text = _SILENT, (str(error) or type(error).__name__).encode()
        finally:
            late = bounded.over
            bounded.timer.cancel()
        if late:
            return _SILENT, f"timed out: no whole answer within {self.seconds:g} s (reward_seconds)"
        if len(text) > _MOST_BYTES:
            return _SILENT, f"its answer is longer than {_MOST_BYTES:,} bytes"
        return code, text.decode("utf-8", "replace")
