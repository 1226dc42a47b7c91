import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.rlplan.pseudo_terminal import at_a_terminal

ROOT = Path(__file__).parents[2]
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def trained(tmp_path: Path, **env: str) -> tuple[int, str, str]:
    """Train at a terminal, with updates that are there at once."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    @contextmanager
    def fed() -> Iterator[None]:
        with pipe.open("wb", buffering=0) as updates:
            updates.write(b"....")
            yield

    command = [sys.executable, "-m", "tests.rlplan.train_backend", str(pipe), "train", "--task", "sum-easy"]
    return at_a_terminal([*command, "--steps", "4", "--out", str(tmp_path / "here")], ROOT, fed, **env)


def test_a_terminal_gets_a_panel_that_goes_away_and_stdout_only_the_result(tmp_path: Path) -> None:
    code, out, err = trained(tmp_path)
    assert code == 0
    assert "rollouts/s" in err
    assert err.count("\x1b[?25l") == err.count("\x1b[?25h") == 1  # the cursor is hidden and shown again
    assert "\x1b" not in out
    assert out.splitlines()[0].split()[0] == "step"
    assert max(len(line) for line in CODES.sub("", err).replace("\r", "\n").splitlines()) <= 76


def test_no_color_is_heeded_and_a_dumb_terminal_gets_lines(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert "\x1b[3" not in trained(tmp_path / "a", NO_COLOR="1")[2]
    code, _, err = trained(tmp_path / "b", TERM="dumb")
    assert code == 0
    assert "\x1b" not in err
    assert "step 4/4, 2,048 rollouts" in err
