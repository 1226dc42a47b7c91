"""What was handed to Slurm, how to follow it, and how to end it."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from rlplan.actions.submitting import Submitted
from rlplan.wording.draw import Canvas, Invocation, NextStep, Part, next_steps
from rlplan.wording.numbers import plural


def parts(submitted: Submitted, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    """Say what was submitted, how to follow it, and how to end it."""
    gpus = f" of {submitted.gpus_per_node} GPUs" if submitted.gpus_per_node else ""
    limit = f", {submitted.time_limit} each time" if submitted.time_limit else ""
    script = Path(submitted.script)
    what = f"{submitted.sweep} of {submitted.plan} on {plural(submitted.nodes, 'node')}{gpus}{limit}"
    if submitted.job is None:
        yield from canvas.lines(f"{what}: its job was written, and nothing was submitted.", "bold")
        by_hand = NextStep(f"sbatch {shlex.quote(str(script))}", "submits it")
        shows = invocation.step("status", submitted.sweep, "how it stands")
        yield from next_steps([by_hand, shows], canvas)
        return
    yield from canvas.lines(f"{what}: submitted as job {submitted.job}, {script}", "bold")
    log = script.parent / "logs" / f"slurm-{submitted.job}.log"
    yield from canvas.lines(f"It submits itself again until the sweep has ended. Its log is {log}.")
    yield from canvas.lines(f"`scancel --name {submitted.name}` ends it at once, whatever it is at.")
    follows = invocation.step("status --watch", submitted.sweep, "follows it")
    ends = invocation.step("stop", submitted.sweep, "ends it with all saved")
    yield from next_steps([follows, ends], canvas)
