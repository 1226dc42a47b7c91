import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgets.errors import InputError
from planner.curves.files import read_curves
from tests.planner.curves.reading_samples import csv_file


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv", b"step,score\n", r"a\.csv' holds a header but no rows"),
        ("s.sh", b"python train.py --n 8\n", r"`rlplan check .*s\.sh` reads a script"),
        ("a.csv", b"1,2,3\n4,5,6\n", "must name the columns"),
        (
            "a.csv",
            b"step,score\n1,\n2,\n",
            "column 'score' of 'a' holds no finite number: .* with --y NAME",
        ),
        ("a.csv", b"step,score\n1,0.1\n2,x\n", "column 'score' of 'a' holds 'x', which is no number: mend that, or"),
        ("a.csv", b"just some words\nand more\n", r"columns of numbers are \(none\)"),
        ("a.csv", b"step,score\n1,\xff\n", "not UTF-8"),
        ("a.bin", bytes(range(256)) * 20, "not UTF-8"),
        ("a.csv", b'step,score\n1,"' + b"x" * 200_000, "is not a table: line 2"),
        ("events.out.tfevents.1.host", b"", "is empty"),
        ("events.out.tfevents.1.host", bytes(range(256)) * 20, "no scalars"),
        ("trainer_state.json", b'{"log_history": []}', "log is empty"),
        ("config.json", b'{\n"lr": 1\n}', "neither a trainer_state"),
        ("a.jsonl", b"{step: 1}\n{step: 2}\n", "line 1 is no JSON object"),
        ("a.jsonl", b'{"a":' * 100_000, "line 1 is no JSON object"),
        ("a.jsonl", b'{"note": "hello"}\n', r"columns of numbers are \(none\)"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=says):
        read_curves(path)


def test_paths_without_a_file_behind_them(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file"):
        read_curves(tmp_path / "gone.csv")
    with pytest.raises(InputError, match="holds no learning curve"):
        read_curves(tmp_path)
    with pytest.raises(InputError, match="not a regular file"):
        read_curves(Path("/dev/null"))


def test_a_file_that_the_system_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = csv_file(tmp_path / "a.csv", "step,score", [(1, 2)])
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match=r"cannot be read: Permission denied"):
        read_curves(path)


@settings(max_examples=60)
@given(
    st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)),
    st.sampled_from([b"", b"step,score\n", b"{"]),
)
def test_any_bytes_give_curves_or_a_refusal(content: bytes, start: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        path.write_bytes(start + content)
        try:
            curves, refusal = read_curves(path), ""
        except InputError as error:
            curves, refusal = [], str(error)
    assert curves or str(path) in refusal or "'a'" in refusal
    assert all(np.isfinite(curve.x).all() and np.isfinite(curve.y).all() for curve in curves)
