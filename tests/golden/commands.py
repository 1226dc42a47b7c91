"""What is typed: commands that read a database, each in every format that it has, and commands over files."""

import csv
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rlplan.cli import app
from tests.planner.replay.tables import grid
from tests.rlplan.adopted_runs import FIVE, verl_folder
from tests.rlplan.fit_samples import write as write_curve
from tests.rlplan.test_check_command import KNOWN, SCRIPT
from tests.rlplan.test_replay_command import write as write_table
from tests.rlplan.test_watch_command import FALLEN
from tests.rlplan.test_watch_command import table as write_run

FORMATS = ("table", "json", "csv")
TABLE_AND_JSON = ("table", "json")
# Commands that answer from a database and leave it as it is, with the formats that are recorded of each.
READING: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "status": (("status",), FORMATS),
    "status-explain": (("status", "--explain"), ("table",)),
    "status-all": (("status", "--all"), FORMATS),
    "rank": (("rank",), FORMATS),
    "rank-explain": (("rank", "--explain"), ("table",)),
    "recommend": (("recommend",), FORMATS),
    "recommend-explain": (("recommend", "--explain"), ("table",)),
    "decisions": (("decisions",), FORMATS),
    "launch-dry-run": (("launch", "--dry-run"), TABLE_AND_JSON),
    "launch-verl": (("launch", "--print", "verl"), TABLE_AND_JSON),
    "resume-dry-run": (("resume", "--dry-run"), TABLE_AND_JSON),
    "export-trials": (("export", "-", "--what", "trials"), ("json", "csv")),
    "export-points": (("export", "-", "--what", "points"), ("csv",)),
}
# Commands over files, or over nothing, that store nothing that another one reads.
ALONE: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "propose": (("propose", "--budget", "5000", "--gpu", "h100", "--gpus", "32"), FORMATS),
    "propose-explain": (("propose", "--budget", "5000", "--gpu", "h100", "--gpus", "32", "--explain"), ("table",)),
    "propose-task": (("propose", "--task", "sum-easy", "--budget", "0.5"), TABLE_AND_JSON),
    "propose-models": (("propose", "--budget", "5000", "--models", "qwen3-4b,qwen3-8b", "--within", "3d"), ("table",)),
    "propose-share": (("propose", "--task", "sum-easy", "--budget", "0.03", "--pilot-fraction", "0.4"), ("table",)),
    "propose-passes": (("propose", "--task", "sum-easy", "--budget", "30", "--explain"), ("table",)),
    "propose-small": (("propose", "--budget", "0.001", "--gpu", "h100", "--gpus", "32"), ("table",)),
    "propose-wrong-flag": (("propose", "--bugdet", "5000"), ("table",)),
    "price": (("price", "-n", "8", "-B", "64", "--model", "qwen3-8b", "--gpu", "h100", "--gpus", "8"), FORMATS),
    "price-explain": (("price", "-n", "8", "-B", "64", "--gpu", "h100", "--gpus", "8", "--explain"), ("table",)),
    "fits": (("fits", "qwen3-8b", "--gpu", "h100", "--gpus", "8"), TABLE_AND_JSON),
    "fit": (("fit", "one.csv"), FORMATS),
    "fit-explain": (("fit", "one.csv", "--predict-at", "end", "--explain"), ("table",)),
    "fit-missing": (("fit", "missing.csv"), ("table",)),
    "compare": (("compare", "one.csv", "two.csv"), FORMATS),
    "check": (("check", "run_grpo.sh", *KNOWN), FORMATS),
    "check-explain": (("check", "run_grpo.sh", *KNOWN, "--explain"), ("table",)),
    "watch": (("watch", "fallen.csv", "--once", "--answers", "2000"), FORMATS),
    "adopt": (("adopt", "adopted/0", "adopted/1", "adopted/2", "--dry-run"), TABLE_AND_JSON),
    "replay": (("replay", "runs.csv", "--budget", "100", "--target", "100"), TABLE_AND_JSON),
    "replay-asha": (("replay", "runs.csv", "--budget", "100", "--target", "100", "--policy", "asha"), ("json",)),
    "sweep-dry-run": (("sweep", "--task", "sum-easy", "--budget", "0.5", "--dry-run"), FORMATS),
    "status-nothing": (("status",), ("table",)),
}
WIDTH = 160
SIX_FIGURES = 6  # of a float in JSON: other processors differ in the last
_MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(\+00:00|Z)?"), "<time>"),
    (re.compile(r"[\d.]+ \w*B checkpoints,.*?are free\s+there", re.DOTALL), "<storage>"),
    (re.compile(r"\b[\d,.]+ (days|d|h|min|s) ago\b"), "<while> ago"),
)
_VOLATILE = {
    "fit_ms",
    "free",
    "everything",
    "seconds_ago",
    "heartbeat_at",
    "pid",
    "host",
    "driver",
    "rlplan_version",
    "hostname",
}


def write_files(folder: Path) -> None:
    """Write the files that commands over files read."""
    write_curve(folder / "one.csv")
    rows = "".join(f"{hour},{0.15 + 0.6 * hour / (hour + 20):.4f}\n" for hour in range(1, 61))
    (folder / "two.csv").write_text("gpu_hours,score\n" + rows)
    (folder / "run_grpo.sh").write_text(SCRIPT)
    write_run(folder / "fallen.csv", FALLEN)
    write_table(folder / "runs.csv", grid(cells=6, seeds=1, points=12))
    for number, run in enumerate(FIVE):
        (folder / "adopted" / str(number)).mkdir(parents=True)
        verl_folder(folder / "adopted" / str(number), run)


def answer(folder: Path, words: tuple[str, ...], form: str) -> str:
    """Run a command in a folder at 80 columns; return its exit code, standard output and standard error."""
    flags = () if form == "table" else ("--format", form)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("RLPLAN_DB", "RLPLAN_DEBUG", "NO_COLOR", "FORCE_COLOR"):
            patch.delenv(name, raising=False)
        result = CliRunner().invoke(app, [*words, *flags], env={"COLUMNS": "80"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    # Before JSON is broken into lines: how long the folder's name is decides nothing.
    out = {"json": _plain_json, "csv": _plain_csv, "table": str}[form](
        result.stdout.replace(os.path.realpath(folder), "<folder>")
    )
    error = f"--- stderr\n{result.stderr}" if result.stderr else ""
    return _masked(f"$ rlplan {' '.join([*words, *flags])}\nexit {result.exit_code}\n{out}{error}", folder)


def _plain_json(text: str) -> str:
    """Return JSON with floats of six figures and values of the moment masked; other text as it is."""
    try:
        documents = [json.loads(text)]
    except json.JSONDecodeError:
        try:
            documents = [json.loads(line) for line in text.splitlines()]
        except json.JSONDecodeError:
            return text
    return "".join(compact_json(_rounded(document)) + "\n" for document in documents)


def _plain_csv(text: str) -> str:
    """Return CSV with floats of six figures and values of the moment masked."""
    head, *rows = csv.reader(io.StringIO(text)) if text else ([],)
    written = io.StringIO()
    plain = [[_rounded({name: _number(cell)})[name] for name, cell in zip(head, row, strict=True)] for row in rows]
    csv.writer(written, lineterminator="\n").writerows([head, *plain])
    return written.getvalue()


def _number(cell: str) -> str | float:
    try:
        return float(cell) if "." in cell else cell
    except ValueError:
        return cell


def compact_json(value: Any, indent: str = "") -> str:
    """Write JSON with what fits a line on a line, so that a diff is short."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(line) <= WIDTH or not isinstance(value, dict | list):
        return line
    inner = indent + " "
    if isinstance(value, dict):
        parts = [f"{inner}{json.dumps(key)}: {compact_json(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(parts) + f"\n{indent}}}"
    return "[\n" + ",\n".join(inner + compact_json(item, inner) for item in value) + f"\n{indent}]"


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: "<volatile>" if key in _VOLATILE else _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.{SIX_FIGURES}g}") if isinstance(value, float) else value


def _masked(text: str, folder: Path) -> str:
    text = text.replace(os.path.realpath(folder), "<folder>").replace(str(folder), "<folder>")
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
