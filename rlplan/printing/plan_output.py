"""Prints a plan: as tables for a person, as JSON or CSV for a program."""

from collections.abc import Iterator, Sequence
from operator import attrgetter

from planner.axes import said, values_by_axis
from planner.proposals import Candidate, Outlook, PilotGrant, Proposal
from planner.proposals.propose import LEVEL_NOTE, USUAL_NOTE
from planner.store.engine import masked
from rlplan.actions.proposing import StoredPlan
from rlplan.printing.plan_layouts import (
    layouts_table,
    marked_rank,
    runs,
    said_of_deadline,
    said_of_doubt,
    said_of_layouts,
    said_of_the_grounds,
    said_of_the_ranking,
)
from rlplan.reading.plan_data import csv_rows, plan_data, recipe_names
from rlplan.wording.console import Part, print_csv, print_drawn, print_json
from rlplan.wording.formats import Format
from rlplan.wording.layout import said_of_layout, shares
from rlplan.wording.numbers import aligned_hours, count, duration, hours, steps
from rlplan.wording.sharing import said_of_pilots, warned_of_pilots
from rlplan.wording.tables import Cells, Column, axes_column, listed, table_of
from rlplan.wording.terminal import Canvas, tell

WIDE = 110  # columns from which learning rate, epochs and notes stand in the table itself
SECONDS_BELOW = 0.01  # GPU-hours a step below which seconds read better


def print_plan(plan: StoredPlan, format: Format, top: int, database: str) -> None:
    """Print a stored plan; data goes to stdout, everything else to stderr."""
    for notice in plan.notices:
        tell(notice)
    if format is Format.JSON:
        print_json(plan_data(plan.name, plan.proposal, plan.assumptions, plan.dollars))
    elif format is Format.CSV:
        rows = csv_rows(plan.proposal, plan.dollars)
        print_csv(list(rows[0]), rows)
        tell(f"stored as {plan.name} in {masked(database)}")
    else:
        print_drawn(lambda canvas: _parts(plan, top, database, canvas))


def _parts(plan: StoredPlan, top: int, database: str, canvas: Canvas) -> Iterator[Part]:
    from rich.text import Text  # noqa: PLC0415

    proposal = plan.proposal
    # The top of the ranking, every candidate that gets a pilot, however low it ranks, and the usual choices.
    shown = [each for each in proposal.candidates if each.rank <= top or each.pilot.steps or each.standing.usual]
    yield Text(_title(plan), style="bold")
    if warned := warned_of_pilots(proposal.sharing, proposal.request.budget_gpu_hours):
        yield Text(warned, style="yellow")
    yield Text(_legend(proposal), style="dim")
    yield ""
    yield _ranking(proposal, shown, canvas)
    if len(shown) < len(proposal.candidates):
        hidden = len(proposal.candidates) - len(shown)
        yield Text(f"{hidden} more: --top {len(proposal.candidates)}, or --format csv", style="dim")
    yield ""
    yield from map(Text, said_of_the_ranking(proposal))
    for heading, lines in (
        ("How the budget is split", _split(proposal, plan.dollars)),
        ("What the first place rests on, and what each alone would put first", said_of_the_grounds(proposal)),
        ("What other budgets would choose", [_outlook(outlook) for outlook in proposal.outlooks]),
        ("Mind", _reminders(shown, proposal.candidates)),
    ):
        yield from listed(heading, lines)
    if len(proposal.layouts) > 1:
        yield Text("\nRow 1 on other numbers of GPUs", style="bold")
        yield layouts_table(proposal, canvas)
        yield from (Text(line, style="dim") for line in said_of_layouts(proposal))
    yield Text("\nWhat this takes for granted", style="bold")
    yield _assumptions(plan)
    yield f"\nStored as {plan.name} in {masked(database)}; `rlplan init` writes a file to change any of this."


def _title(plan: StoredPlan) -> str:
    request, recipes = plan.proposal.request, recipe_names(plan.proposal)
    models = ", ".join(dict.fromkeys(variant.workload.model.name for variant in request.all_variants))
    hardware, piloted = request.hardware, bool(plan.proposal.pilot_gpu_hours)
    pilots = request.pilot_hardware if piloted else hardware
    share = shares(hardware.gpus, hardware.gpus_per_trial, pilots.gpus_per_trial)
    return (
        f"{plan.name}: {hours(request.budget_gpu_hours)} GPU-hours for {models} on "
        f"{hardware.gpus} {hardware.gpu.name}{share}, {request.difficulty} problems, "
        f"{'recipes' if ',' in recipes else 'recipe'} {recipes}"
    )


def _legend(proposal: Proposal) -> str:
    decides = "; the pilots decide" if proposal.pilot_gpu_hours else ""
    return (
        f"n rollouts per prompt × B prompts per batch × M update steps; M is what {hours(proposal.final_gpu_hours)} "
        f"GPU-hours buy, or less where more passes over the prompts are expected to do harm. Signal: the share of "
        f"groups whose rewards differ. Ranked by expected score, a prior with its 90 % interval{decides}."
    )


def _ranking(proposal: Proposal, shown: list[Candidate], canvas: Canvas) -> Part:
    wide = canvas.width >= WIDE
    in_seconds = proposal.candidates[0].cell.cost.gpu_hours_per_step < SECONDS_BELOW
    columns: Sequence[Column[Candidate]] = (
        Column("#", marked_rank),
        Column("n", attrgetter("cell.allocation.rollouts_per_prompt")),
        Column("B", attrgetter("cell.allocation.prompts_per_batch")),
        Column("M", lambda candidate: steps(candidate.cell.allocation.update_steps)),
        Column(
            "GPU-s/step" if in_seconds else "GPU-h/step",
            lambda candidate: aligned_hours(candidate.cell.cost.gpu_hours_per_step * (3600 if in_seconds else 1)),
            gives_way=True,
        ),
        Column("rollouts", lambda candidate: count(candidate.cell.allocation.rollouts), gives_way=True),
        Column("signal", lambda candidate: f"{candidate.cell.signal_fraction:.0%}", gives_way=True),
        Column("expected score", _score),
        Column("pilot", lambda candidate: f"{steps(candidate.pilot.steps)} steps" if candidate.pilot.steps else "–"),
        axes_column(shown),
        Column("against first", _against, shown=wide),
        Column("GPU-h", lambda c: hours(c.pilot.gpu_hours) if c.pilot.steps else "–", shown=wide),
        Column("lr", lambda candidate: f"{candidate.learning_rate:.2g}", shown=wide),
        Column("epochs", lambda c: f"{c.epochs:.2g}" if c.epochs < 10 else f"{c.epochs:,.0f}", shown=wide),
        Column("notes", lambda candidate: ", ".join(candidate.notes), Cells.TEXTS, shown=wide),
    )
    return table_of(shown, columns, canvas, dim=lambda candidate: not candidate.pilot.steps)


def _score(candidate: Candidate) -> str:
    score = candidate.cell.expected_score
    return f"{score.median:.2f} ({score.low:.2f}–{score.high:.2f})"


def _against(candidate: Candidate) -> str:
    standing = candidate.standing
    return f"{standing.median:+.3f} ± {standing.high - standing.median:.2f}" if candidate.rank > 1 else "–"


def _split(proposal: Proposal, dollars: Sequence[float]) -> list[str]:
    hardware, shared = proposal.request.hardware, proposal.request.pilot_hardware
    pilots = [candidate.pilot for candidate in proposal.candidates if candidate.pilot.steps]
    used = sum(pilot.gpu_hours for pilot in pilots)
    at_once = min(shared.parallel_trials, max(1, len(pilots)))
    pilot_time = duration(used / (at_once * shared.gpus_per_trial))
    told = f"{len(pilots)} pilots take {hours(used)}, about {pilot_time}, in segments of {_segments(pilots)}"
    price = proposal.request.budget_gpu_hours * hardware.gpu.dollars_per_hour
    lines = [
        f"pilots  {hours(proposal.pilot_gpu_hours)} GPU-hours: {told}" if pilots else "pilots  none",
        f"final   {hours(proposal.final_gpu_hours)} GPU-hours{_final_use(proposal)}",
    ]
    if layout := said_of_layout(hardware.gpus, hardware.gpus_per_trial, shared.gpus_per_trial, len(pilots)):
        lines.append(f"layout  {layout}")
    if pilots:
        lines.append(f"worth   {said_of_pilots(proposal.sharing)}")
    lines += [f"time    {line}" for line in said_of_deadline(proposal)]
    lines.append(f"doubt   of the price: {said_of_doubt(proposal)}")
    if price >= 1:
        lines.append(
            f"price   about ${price:,.0f} at ${hardware.gpu.dollars_per_hour:g} a GPU-hour, the catalogue's figure"
        )
    if dollars:
        run = dollars[0] * proposal.candidates[0].cell.allocation.update_steps
        lines.append(
            f"tokens  ${aligned_hours(dollars[0])} a step of row 1, ${run:,.4g} for its final run, whatever the GPUs "
            "([cost] per_million)"
        )
    return lines


def _final_use(proposal: Proposal) -> str:
    first, hardware = proposal.candidates[0], proposal.request.hardware
    stops = first.cell.allocation.update_steps < first.cell.affordable_steps
    used = first.cell.gpu_hours if stops else proposal.final_gpu_hours
    machine = f"{hardware.gpus_per_trial} {hardware.gpu.name} of one trial"
    time = f", about {duration(used / hardware.gpus_per_trial)} on the {machine}"
    if not stops:
        return time
    return (
        f", of which row 1 uses {hours(used)}{time}: beyond {first.epochs:,.3g} passes over the prompts it is expected "
        "to lose more than it gains; more prompts would use the rest"
    )


def _segments(pilots: Sequence[PilotGrant]) -> str:
    lengths = sorted({pilot.segment_steps for pilot in pilots})
    if not lengths:
        return "no steps"
    return f"{lengths[0]} steps" if len(lengths) == 1 else f"{lengths[0]} to {lengths[-1]} steps"


def _outlook(outlook: Outlook) -> str:
    budget = f"{hours(outlook.budget_gpu_hours)} GPU-hours"
    if outlook.best is None:
        return f"{budget}: too few for a run"
    allocation, score = outlook.best.allocation, outlook.best.expected_score
    expected = f", score {score.median:.2f} ({score.low:.2f}–{score.high:.2f})"
    axes = f" with {said(outlook.best.variant.axes)}" if outlook.best.variant.axes else ""
    law = outlook.published_rollouts_per_prompt
    published = f"; IsoCompute's law alone says n = {law:.0f}" if law else ""
    return (
        f"{budget}: n = {allocation.rollouts_per_prompt}, B = {allocation.prompts_per_batch}, "
        f"M = {steps(allocation.update_steps)}{axes}{expected}{published}"
    )


def _unseen(candidates: Sequence[Candidate]) -> list[str]:
    """Name the values of an axis that no pilot has, so that nothing can be said of them."""
    piloted = values_by_axis(candidate.axes for candidate in candidates if candidate.pilot.steps)
    return [
        f"no pilot of {said(((name, value),))}: the pilot budget, or pilot.most_pilots, allows for no more"
        for name, values in values_by_axis(candidate.axes for candidate in candidates).items()
        for value in values
        if value not in piloted.get(name, ())
    ]


def _reminders(shown: list[Candidate], candidates: Sequence[Candidate]) -> list[str]:
    """Gather the notes of the candidates that are shown, each with the rows it holds for."""
    rows: dict[str, list[int]] = {}
    for candidate in shown:
        for note in (note.split(" (")[0] for note in candidate.notes):
            if note not in (LEVEL_NOTE, USUAL_NOTE):  # of which the ranking's own lines tell
                rows.setdefault(note, []).append(candidate.rank)
    lines = [f"{note}: {'row' if len(ranks) == 1 else 'rows'} {runs(ranks)}" for note, ranks in rows.items()]
    lines += _unseen(candidates)
    without = sum(not candidate.pilot.steps for candidate in shown)
    if 0 < without < len(shown):
        lines.append(f"{without} of these rows get no pilot; --format json says why for each")
    return lines


def _assumptions(plan: StoredPlan) -> Part:
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, header_style="dim", padding=(0, 1), show_header=False)
    table.add_column("what", no_wrap=True)
    table.add_column("value")
    table.add_column("source", style="dim")
    for assumption in plan.assumptions:
        table.add_row(assumption.what, assumption.value, assumption.source)
    return table
