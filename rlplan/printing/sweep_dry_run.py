"""Prints what a sweep would run, without running it."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from rlplan.wording.console import canvas_of, plain_table, print_csv, print_json, print_tables, tables_console
from rlplan.wording.formats import Format
from rlplan.wording.numbers import aligned_hours, duration, hours, steps

if TYPE_CHECKING:
    from rich.console import RenderableType

    from rlplan.actions.sweep_request import DryRun

COLUMNS = ("name", "rollouts_per_prompt", "prompts_per_batch", "pilot_steps", "segment_steps", "gpu_hours")


def print_dry_run(planned: "DryRun", format: Format) -> None:
    """Print the trials with their steps and prices, the time they take, and what is lacking to run them."""
    if format is Format.JSON:
        print_json(asdict(planned))
    elif format is Format.CSV:
        print_csv(COLUMNS, (asdict(trial) for trial in planned.trials))
    else:
        _print_table(planned)


def _print_table(planned: "DryRun") -> None:
    console = tables_console()
    paper = canvas_of(console)
    table = plain_table(["n", "B", "pilot", "segment", "GPU-hours"], ["trial"])
    for trial in planned.trials:
        table.add_row(
            str(trial.rollouts_per_prompt),
            str(trial.prompts_per_batch),
            f"{steps(trial.pilot_steps)} steps",
            f"{steps(trial.segment_steps)} steps",
            aligned_hours(trial.gpu_hours),
            trial.name,
        )
    total = sum(trial.gpu_hours for trial in planned.trials)
    workers = "one worker" if planned.workers == 1 else f"{planned.workers:,} workers"
    count = "one pilot" if len(planned.trials) == 1 else f"{len(planned.trials):,} pilots"
    summary = (
        f"{planned.plan}: {count} of {hours(total)} GPU-hours together; {hours(planned.pilot_gpu_hours)} are theirs, "
        f"and what is over goes to the most promising. On {workers} they take about {duration(planned.wall_hours)}."
    )
    parts: list[RenderableType] = [table, "", *paper.lines(summary)]
    if planned.shortfall is not None:
        parts += paper.lines(f"It cannot run here: {planned.shortfall}", "yellow")
    parts += paper.lines("Nothing was started.", "dim")
    print_tables(console, parts)
