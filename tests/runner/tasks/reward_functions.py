"""A reward that does what the response tells it to, the worst included; run in a reward's process by its path."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path


def act(problem, response):
    word, _, rest = response.partition(" ")
    return ACTIONS[word](problem, rest)


def fail(problem, rest):
    raise ValueError("no good:\n" + rest)


def sleep(problem, rest):
    time.sleep(float(rest))
    return 1


def spin(problem, rest):
    while True:
        pass


def backtrack(problem, rest):
    return bool(re.match(r"(a+)+$", "a" * 60 + "b"))  # in C, holding the interpreter


def shout(problem, rest):
    sys.stdout.write('{"ready": true}\n')
    sys.stdout.write("[1.0, null, null]\n" * 1000)
    sys.stdout.flush()
    os.write(1, b"[1.0, null, null]\n")
    subprocess.run(["echo", "[1.0, null, null]"], check=True)
    return 0.5


def abort(problem, rest):
    os.kill(os.getpid(), signal.SIGSEGV)


def spawn(problem, rest):
    Path(rest).write_text(f"{os.getpid()} {subprocess.Popen(['sleep', '60']).pid}")
    spin(problem, rest)


def swallow(problem, rest):
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(10)


def marked(problem, rest):
    file, _, then = rest.partition(" ")
    Path(file).write_text(str(os.getpid()))
    return act(problem, then)


class Odd:
    def __float__(self):
        raise OSError("no number today")


ACTIONS = {
    "equal": lambda problem, rest: rest == problem["answer"],
    "value": lambda problem, rest: eval(rest),
    "level": lambda problem, rest: problem["level"] / 10,
    "kept": lambda problem, rest: problem.setdefault("seen", 0) + float(problem.update(seen=1) or 0),
    "exit": lambda problem, rest: sys.exit(3),
    "vanish": lambda problem, rest: os._exit(3),
    "fail": fail,
    "sleep": sleep,
    "spin": spin,
    "backtrack": backtrack,
    "shout": shout,
    "abort": abort,
    "spawn": spawn,
    "marked": marked,
    "swallow": swallow,
    "modules": lambda problem, rest: float("torch" in sys.modules or "numpy" in sys.modules),
    "close": lambda problem, rest: os.closerange(3, 200),
}
