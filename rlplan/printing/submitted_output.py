"""Prints what was handed to Slurm, how to follow it, and how to end it."""

import shlex
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rlplan.wording.console import Part, print_csv, print_drawn, print_json
from rlplan.wording.formats import Format
from rlplan.wording.next_steps import command
from rlplan.wording.terminal import Canvas

if TYPE_CHECKING:
    from rlplan.actions.submitting import Submitted


def print_submitted(submitted: "Submitted", database: str, format: Format) -> int:
    """Print a job; return the exit code."""
    if format is Format.JSON:
        print_json(asdict(submitted))
    elif format is Format.CSV:
        print_csv(list(asdict(submitted)), [asdict(submitted)])
    else:
        print_drawn(lambda canvas: _lines(submitted, database, canvas))
    return 0


def _lines(submitted: "Submitted", database: str, canvas: Canvas) -> Iterator[Part]:
    nodes = "one node" if submitted.nodes == 1 else f"{submitted.nodes:,} nodes"
    gpus = f" of {submitted.gpus_per_node} GPUs" if submitted.gpus_per_node else ""
    limit = f", {submitted.time_limit} each time" if submitted.time_limit else ""
    script = Path(submitted.script)
    what = f"{submitted.sweep} of {submitted.plan} on {nodes}{gpus}{limit}"
    if submitted.job is None:
        yield from canvas.lines(
            f"{what}: its job was written, and nothing was submitted: sbatch {shlex.quote(str(script))}"
        )
        return
    yield from canvas.lines(f"{what}: submitted as job {submitted.job}, {script}", "bold")
    log = script.parent / "logs" / f"slurm-{submitted.job}.log"
    yield from canvas.lines(f"It submits itself again until the sweep has ended. Its log is {log}.")
    yield from canvas.lines(
        f"Follow it: `{command('status --watch', submitted.sweep, database)}`. End it with all saved: "
        f"`{command('stop', submitted.sweep, database)}`; whatever it is at: `scancel --name {submitted.name}`."
    )
