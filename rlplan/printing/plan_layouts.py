"""What a plan says of time and doubt: its layouts side by side, its deadline, and what the price's interval means."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from planner.axes import said
from planner.proposals import Layout, Proposal
from planner.view import Configuration
from rlplan.wording.numbers import aligned_hours, duration, hours, steps
from rlplan.wording.tables import Column, table_of
from rlplan.wording.terminal import Canvas

if TYPE_CHECKING:
    from rich.table import Table

LEAST_UNSPENT = 0.01  # of the budget that is worth a word
LEVEL_ENOUGH = 0.002  # of expected score: what is no loss to speak of


def layouts_table(proposal: Proposal, canvas: Canvas) -> "Table":
    """Lay out what row 1 takes on each number of GPUs; the plan's own is marked."""
    split = proposal.request.traits.asynchronous
    columns: Sequence[Column[Layout]] = (
        Column("GPUs", lambda each: f"{'> ' if each.chosen else ''}{each.gpus_per_trial}"),
        Column("at once", lambda each: each.at_once, gives_way=True),
        Column("GPU-h/step", lambda each: aligned_hours(each.gpu_hours_per_step)),
        Column("s/step", lambda each: aligned_hours(each.step_seconds), gives_way=True),
        Column("M", lambda each: steps(each.update_steps)),
        Column("final run", lambda each: duration(each.final_wall_hours)),
        Column("GPU-h/step in turn" if split else "GPU-h/step split", _otherwise),
    )
    return table_of(proposal.layouts, columns, canvas, dim=lambda each: not each.chosen)


def said_of_layouts(proposal: Proposal) -> list[str]:
    """Say why the marked layout is taken."""
    request = proposal.request
    gpus = request.hardware.gpus_per_trial
    if not request.chooses_gpus:
        return [f"> {gpus} a final run, as was said."]
    if request.within_hours is not None:
        return [f"> On {gpus} GPUs it is expected to end highest by the deadline; --gpus-per-trial says otherwise."]
    return [
        f"> On {gpus} GPUs it is expected to end highest within a week, or soonest where nothing ends in one; --within "
        "sets a deadline, --gpus-per-trial the GPUs."
    ]


def said_of_doubt(proposal: Proposal) -> str:
    """Say what the interval of the price means for the steps, and for the first rows."""
    doubt, first = proposal.doubt, proposal.candidates[0].cell
    told = f"between {steps(doubt.fewest_steps)} and {steps(doubt.most_steps)} steps of row 1"
    if doubt.firm > 1:
        return f"{told}; the ranking of the first {doubt.firm} rows does not depend on it"
    if doubt.lost <= LEVEL_ENOUGH:
        return f"{told}; that row 1 is the first does not depend on it"
    ends = [
        f"at the {end} price {_named(configuration)} would be first"
        for end, configuration in (("highest", doubt.first_if_dear), ("lowest", doubt.first_if_cheap))
        if configuration is not None and configuration != first.configuration
    ]
    if not math.isfinite(doubt.lost):
        return "; ".join([f"{told}: at the highest price the budget buys no step of it", *ends])
    return "; ".join([told, *ends, f"row 1 would fall {doubt.lost:.3f} short of it"])


def said_of_deadline(proposal: Proposal) -> list[str]:
    """Say when the plan ends, and what the deadline costs; nothing where there is none."""
    deadline = proposal.deadline
    if deadline is None:
        return []
    told = f"ends after {duration(deadline.takes_hours)}, {duration(deadline.within_hours)} are given"
    if deadline.cost <= LEVEL_ENOUGH:
        return [f"{told}; it costs nothing"]
    unspent = deadline.unspent_gpu_hours
    much = unspent >= LEAST_UNSPENT * proposal.request.budget_gpu_hours
    spent = f" and leaves {hours(unspent)} GPU-hours unspent" if much else ""
    return [
        f"{told}; it costs {deadline.cost:.3f} of expected score{spent}: without it {deadline.gpus_without} GPUs would "
        f"take {duration(deadline.hours_without)} to {deadline.score_without:.3f}"
    ]


def _otherwise(layout: Layout) -> str:
    price = layout.otherwise_gpu_hours_per_step
    return "–" if price is None else aligned_hours(price)


def _named(configuration: Configuration) -> str:
    axes = f" with {said(configuration.axes)}" if configuration.axes else ""
    return f"n = {configuration.rollouts_per_prompt}, B = {configuration.prompts_per_batch}{axes}"
