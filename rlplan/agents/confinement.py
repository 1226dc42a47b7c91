"""What a command of an agent may open: one folder, whoever names the file, and what Python itself is made of.

Paths stand in arguments, in lists within them, in scripts that others source, in what settings build on, in links. No
reader is asked to look: Python reports each file and folder before it opens it, and what lies elsewhere is refused as
a system refuses what a user may not read.
"""

import os
import re
import site
import sys
import sysconfig
from collections.abc import Sequence
from errno import EACCES
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote

import budgets
import planner
import runner

_OPENING = {"open", "os.listdir", "os.scandir", "sqlite3.connect"}  # of Python's audit events
# What says how the machine is, and nothing of a person: no environment, no arguments, no other's files.
_OF_SYSTEM = re.compile(
    r"/proc/(?:\d+/)?(?:stat|status|statm|mounts|mountinfo|cgroup|filesystems|meminfo|cpuinfo|loadavg|uptime)"
    r"|/proc/sys/kernel/random/boot_id|/dev/(?:null|urandom)"
)
_LIBRARIES = ("site-packages", "dist-packages", "lib-dynload")


def confine(folder: str, database: str) -> None:
    """Refuse every file outside of a folder from now on, but for the database, a path or a URL, and Python's own."""
    folders = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [path for path in sys.path if os.path.basename(path) in _LIBRARIES] + [site.getusersitepackages()]
    folders += [place for package in (budgets, planner, runner) for place in package.__path__]
    roots = [folder, *folders, str(Path(__file__).parents[1])]
    within = tuple(os.path.join(os.path.realpath(path), "") for path in roots)
    listed = {os.path.realpath(path) for path in (*roots, *sys.path)}  # in which modules are looked for
    stored = os.path.realpath(database)  # and beside it, what SQLite and its locks need

    def refuse(event: str, arguments: Sequence[Any]) -> None:
        if event not in _OPENING or arguments[0] is None or isinstance(arguments[0], int):
            return
        path = os.fsdecode(arguments[0])
        name = unquote(path.removeprefix("file:").partition("?")[0]) if event == "sqlite3.connect" else path
        place = os.path.realpath(name)
        if place.startswith((*within, stored)) or _OF_SYSTEM.fullmatch(place):
            return
        if event != "open" and place in listed:
            return
        raise PermissionError(EACCES, f"'{path}' lies outside of {folder}, which is all that may be read", path)

    # TensorBoard reads by TensorFlow where that is installed, and Python is not told what that opens.
    sys.modules["tensorboard.compat.notf"] = ModuleType("tensorboard.compat.notf")
    sys.addaudithook(refuse)


def outside(text: str, folder: Path) -> bool:
    """Say whether a text names a place outside of a folder: by '..', '~' or a link."""
    return not Path(os.path.realpath(folder / os.path.expanduser(text))).is_relative_to(folder)
