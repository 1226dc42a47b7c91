"""The process in which rewards run, so that what they do cannot hurt the training: a program of its own.

It is started by its path and imports nothing heavy. It reads one line of JSON that says which function to call, then
lines of JSON with [problem, response] pairs, and answers each pair with a line: [score, kind of failure, message,
metrics].
"""

import contextlib
import fcntl
import importlib
import importlib.util
import json
import math
import os
import random
import resource
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Function = Callable[[dict[str, Any], str], Any]
Answer = tuple[float | None, str | None, str | None, dict[str, float]]
_LONGEST_MESSAGE = 300


def main(keepalive: int) -> None:
    """Serve until the other end of the channel, the standard input, is closed; end at once when the lifeline's is."""
    _die_with(keepalive)
    with socket.socket(fileno=os.dup(0)) as connection, connection.makefile("rb") as lines, open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)  # a function, and what it starts, reads nothing and prints to the standard error
        os.dup2(2, 1)
        try:
            order = json.loads(lines.readline())
            sys.path[:] = order["path"]
            if order["memory_bytes"] is not None:
                resource.setrlimit(resource.RLIMIT_AS, (order["memory_bytes"],) * 2)
            random.seed(order["seed"])
            function = load(order["function"])
        except BaseException as error:  # a module may do anything when it is imported, sys.exit included
            connection.sendall(_line({"refused": described(error)}))
            return
        connection.sendall(_line({"ready": True}))
        for line in lines:
            for problem, response in json.loads(line):
                connection.sendall(_line(judged(function, problem, response, *order["between"])))


def load(reference: str) -> Function:
    """Return the function of `package.module:name` or `path/to/file.py:name`."""
    place, _, name = reference.rpartition(":")
    target: Any = _module_of_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    for part in name.split("."):
        target = getattr(target, part)
    if not callable(target):
        raise TypeError(f"'{name}' in {place} is a {type(target).__name__}, not a function")
    function: Function = target
    return function


def judged(function: Function, problem: dict[str, Any], response: str, low: float, high: float) -> Answer:
    """Return what the function says of a response, or the kind of its failure."""
    try:
        return answer_of(function(problem, response), low, high)
    except BaseException as error:  # sys.exit() and math-verify's TimeoutException are no Exceptions
        return None, "raised", described(error), {}


def answer_of(value: Any, low: float, high: float) -> Answer:
    """Return the score that a reward's number means, from 0 for the lowest to 1 for the highest, and its metrics."""
    metrics: dict[str, float] = {}
    if isinstance(value, Mapping):
        numbers = {str(name): _number(number) for name, number in value.items() if name != "score"}
        metrics = {name: number for name, number in numbers.items() if number is not None and math.isfinite(number)}
        value = value.get("score")
    number = _number(value)
    if number is None or not math.isfinite(number):
        return None, "not-finite", f"the reward is {value!r}"[:_LONGEST_MESSAGE], metrics
    score = (number - low) / (high - low)
    if not 0 <= score <= 1:
        message = f"the reward is {number:g}: it should lie in {low:g} to {high:g}"
        return min(max(score, 0.0), 1.0), "out-of-range", message, metrics
    return score, None, None, metrics


def described(error: BaseException) -> str:
    """Return the kind and message of an error in one line."""
    return " ".join(traceback.format_exception_only(error)[-1].split())[:_LONGEST_MESSAGE]


def _number(value: Any) -> float | None:
    """Return a number as float: bool, int, float, and what numpy and sympy call one; None for anything else."""
    if isinstance(value, str | bytes) or not hasattr(value, "__float__"):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _module_of_file(file: Path) -> Any:
    specification = importlib.util.spec_from_file_location(f"reward_of_{file.stem}", file)
    if specification is None or specification.loader is None:
        raise ImportError(f"{file} is no Python file")
    sys.path.append(str(file.parent))  # for what it imports from beside it
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


def _die_with(keepalive: int) -> None:
    """Have the kernel kill this process and all that it started when the lifeline's other end is closed.

    A thread that waits for that could not act while C code holds the interpreter.
    """
    os.set_inheritable(keepalive, False)
    if sys.platform == "linux":
        fcntl.fcntl(keepalive, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(keepalive, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(keepalive, fcntl.F_SETFL, fcntl.fcntl(keepalive, fcntl.F_GETFL) | os.O_ASYNC)
        # When memory runs out, the kernel should take this process and not the training.
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    if select.select([keepalive], [], [], 0)[0]:
        os._exit(1)


def _line(value: object) -> bytes:
    return json.dumps(value).encode("ascii") + b"\n"


if __name__ == "__main__":
    main(int(sys.argv[1]))
    os._exit(0)  # threads that a reward left behind must not keep it alive
