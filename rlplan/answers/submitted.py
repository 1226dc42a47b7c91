"""What was handed to Slurm, how to follow it, and how to end it."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from rlplan.actions.submitting import Submitted
from rlplan.wording.console import Part
from rlplan.wording.next_steps import Invocation, command
from rlplan.wording.terminal import Canvas


def parts(submitted: Submitted, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    """Say what was submitted, how to follow it, and how to end it."""
    database = invocation.database
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
