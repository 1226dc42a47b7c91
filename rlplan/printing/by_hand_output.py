"""Prints an allocation in the keys of a trainer, or as the file of a cluster."""

from dataclasses import asdict

from planner.axes import said
from rlplan.reading.starting import ByHand
from rlplan.wording.console import print_csv, print_json, print_lines
from rlplan.wording.formats import Format
from rlplan.wording.numbers import rate

COLUMNS = ("trainer", "argument")


def print_by_hand(found: ByHand, format: Format) -> None:
    """Print arguments that can be pasted, under a comment that says what they are; JSON has all of the row."""
    row = found.row
    if format is Format.JSON:
        print_json({**asdict(found), "row": {**asdict(row), "axes": dict(row.axes)}})
    elif format is Format.CSV:
        print_csv(COLUMNS, ({"trainer": found.trainer, "argument": each} for each in found.arguments))
    else:
        of = f", {said(row.axes)}" if row.axes else ""
        print_lines(
            [
                f"# {found.of}, row {row.rank}: n = {row.rollouts_per_prompt}, B = {row.prompts_per_batch}{of}",
                f"# {row.update_steps:,} steps at learning rate {rate(row.learning_rate)}, recipe {row.recipe}",
                *([f"# {found.note}"] if found.note else []),
                *(f"{each} \\" for each in found.arguments[:-1]),
                found.arguments[-1],
            ]
        )


def print_cluster_file(cluster: str, text: str, format: Format) -> None:
    """Print a file as it is."""
    if format is Format.JSON:
        print_json({"cluster": cluster, "file": text})
    elif format is Format.CSV:
        print_csv(("cluster", "file"), [{"cluster": cluster, "file": text}])
    else:
        print_lines(text.splitlines())
