"""`rlplan propose`: a plan on a first screen, or all of it."""

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from planner.axes import format_axes, named_configuration, values_by_axis
from planner.percent import percent
from planner.prior.studies import FEWEST_SUPPORTED_UPDATES, HARMFUL_EPOCHS, HARMLESS_EPOCHS, STUDIED_ROLLOUTS
from planner.proposals import Candidate, Layout, OtherBudget, Proposal
from planner.proposals.propose import LEVEL_NOTE, LITTLE_SIGNAL, STOPS_EARLY, USUAL_NOTE
from planner.store.engine import masked
from rlplan.actions.stored_plan import StoredPlan, asked_configuration, make_plan
from rlplan.commands.plan import Plan
from rlplan.commands.propose_screen import (
    LEVEL_ENOUGH,
    candidates_table,
    champion_lines,
    deadline_lines,
    next_after,
    plan_screen,
    standing_of,
    title,
)
from rlplan.exits import ExitCode
from rlplan.reading.plan_data import PlanData, csv_rows
from rlplan.requests.plan import ProposeRequest
from rlplan.wording.answers import Answer, plain
from rlplan.wording.assumptions import ASSUMPTIONS
from rlplan.wording.command_lines import Format
from rlplan.wording.file_writing import write_csv
from rlplan.wording.numbers import aligned_hours, duration, hours, layout_text, listing, plural, steps
from rlplan.wording.screen import ROWS, Canvas, Column, Invocation, Part, listed, table_of, tell

# What a candidate's note means for who reads it, and what can be done about it.
REMINDERS = {
    "few updates": f"there are fewer than {FEWEST_SUPPORTED_UPDATES} updates, as in no study: a larger budget helps",
    "many epochs": f"every prompt is repeated more than {HARMLESS_EPOCHS:g} times: more prompts would gain more",
    "far too many epochs": f"every prompt is repeated more than {HARMFUL_EPOCHS:g} times, which did harm: add prompts",
    STOPS_EARLY: "the run stops early, since more passes over the prompts should do harm: add prompts",
    "little signal": f"fewer than {percent(LITTLE_SIGNAL)} of the groups teach anything: a larger n has more that do",
    "memory tight": "memory is tight: shorter responses or smaller micro-batches make room",
    "batch beyond the study": "a batch has more rollouts than any study had: the score is a guess",
    "beyond the study": f"there are more than {STUDIED_ROLLOUTS[1]:,.0f} rollouts, more than in any study",
}
LEVEL_WITH_CHAMPION = "Level: better than the champion (*) with a probability of 25 to 75 %."


@dataclass(frozen=True, eq=False, repr=False)
class ProposedPlan(Plan):
    """A plan that was made here."""

    proposed: StoredPlan
    top: int | None  # how many rows its screen has

    @property
    def document(self) -> PlanData:
        """All of it."""
        return _document(self.proposed)

    @property
    def stderr(self) -> Sequence[str]:
        """What was done to the database meanwhile, such as an upgrade."""
        return self.proposed.notices

    def emit(self, format: Format, invocation: Invocation) -> ExitCode:
        """Print it; with all that was worked out of each candidate as CSV."""
        if format is not Format.CSV:
            return super().emit(format, invocation)
        rows = csv_rows(self.proposed.proposal, self.proposed.dollars)
        write_csv(sys.stdout, list(rows[0]), rows)
        for line in (*self.stderr, f"stored as {self.name} in {masked(self.database)}"):
            tell(line)
        return self.code

    def __str__(self) -> str:
        return Answer.__str__(self)

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Draw a plan that was made here: the first screen, or all of it."""
        drawn = _explained if invocation.explain else plan_screen
        return drawn(self.proposed, self.top, replace(invocation, database=self.database), canvas)


def answer(request: ProposeRequest) -> ProposedPlan:
    """Make a plan, and store it."""
    stored = make_plan(asked_configuration(request), request.db, learn_from=request.learn_from)
    return ProposedPlan(request.db, plain(_document(stored)), stored, request.top)


def _document(stored: StoredPlan) -> PlanData:
    return PlanData(stored.proposal, stored.name, stored.assumptions, stored.dollars)


def _explained(plan: StoredPlan, top: int | None, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    from rich.text import Text  # noqa: PLC0415

    proposal = plan.proposal
    # The top of the ranking, every candidate that gets a pilot, however low it ranks, and the usual choices.
    shown = [row for row in proposal.candidates if row.rank <= (top or ROWS) or row.pilot.steps or row.standing.usual]
    yield Text(title(plan), style="bold")
    if proposal.champion is not None:
        yield from map(Text, champion_lines(proposal, proposal.champion))
    yield ""
    yield candidates_table(proposal, shown, canvas)
    if hidden := len(proposal.candidates) - len(shown):
        yield Text(f"{hidden} more rows: --top {len(proposal.candidates)}, or --format csv", style="dim")
    for line in (
        f"Steps are what {hours(proposal.final_gpu_hours)} GPU-hours buy, or fewer where more passes over the prompts "
        "should do harm.",
        "Signal is the share of groups whose rewards differ. Scores are a prior with its 90 % interval.",
        LEVEL_WITH_CHAMPION
        if proposal.champion
        else "Level: better than row 1 with a probability of 25 % or more. *: a usual choice.",
    ):
        yield Text(line, style="dim")
    if proposal.champion is None:
        yield Text(standing_of(proposal))
    for heading, lines in (
        ("How the budget is split", _split(proposal, plan.dollars)),
        ("What the first place rests on, and what each alone would put first", list(ground_lines(proposal))),
        ("What other budgets would choose", [_outlook(outlook) for outlook in proposal.outlooks]),
        ("Mind", _reminders(shown, proposal.candidates)),
    ):
        yield from listed(heading, lines)
    if len(proposal.layouts) > 1:
        yield Text(f"\nRow {proposal.run.rank} on other numbers of GPUs", style="bold")
        yield layouts_table(proposal, canvas)
        yield from (Text(line, style="dim") for line in layout_notes(proposal))
    yield Text("\nWhat this takes for granted", style="bold")
    yield table_of(plan.assumptions, ASSUMPTIONS, canvas, headed=False)
    stored = f"Stored as {plan.name} in {masked(invocation.database)}."
    yield f"\n{stored} `rlplan init` writes a file to change any of this."
    yield from next_after(plan, invocation, canvas)


def _split(proposal: Proposal, dollars: Sequence[float]) -> list[str]:
    hardware, shared = proposal.request.hardware, proposal.request.pilot_hardware
    pilots = [candidate.pilot for candidate in proposal.candidates if candidate.pilot.gpu_hours]
    used, lengths = sum(pilot.gpu_hours for pilot in pilots), sorted({pilot.segment_steps for pilot in pilots})
    shortest_and_longest = dict.fromkeys(lengths[:1] + lengths[-1:])
    segments = f"{' to '.join(map(str, shortest_and_longest))} steps"
    pilot_time = duration(proposal.pilot_wall_hours)
    what = "pilot" if proposal.champion is None else "challenger"
    granted = f"{plural(len(pilots), what)} of {hours(used)}, about {pilot_time}, in segments of {segments}"
    price = proposal.spent_gpu_hours * hardware.gpu.dollars_per_hour
    lines = [
        f"{what}s  {hours(proposal.pilot_gpu_hours)} GPU-hours: {granted}" if pilots else f"{what}s  none",
        f"final   {hours(proposal.final_gpu_hours)} GPU-hours{_final_use(proposal)}",
    ]
    if layout := layout_text(hardware.gpus, hardware.gpus_per_trial, shared.gpus_per_trial, len(pilots)):
        lines.append(f"layout  {layout}")
    lines += [f"time    {line}" for line in deadline_lines(proposal)]
    lines.append(f"doubt   a step's price: {doubt_line(proposal)}")
    if price >= 1:
        lines.append(
            f"price   about ${price:,.0f} at ${hardware.gpu.dollars_per_hour:g} a GPU-hour, the catalogue's figure"
        )
    if dollars:
        rank, a_step = proposal.run.rank, dollars[proposal.run.rank - 1]
        run = a_step * proposal.run.cell.allocation.update_steps
        lines.append(
            f"tokens  ${aligned_hours(a_step)} a step of row {rank}, ${run:,.4g} for its final run, whatever the GPUs "
            "([cost] per_million)"
        )
    return lines


def _final_use(proposal: Proposal) -> str:
    first, hardware = proposal.run, proposal.request.hardware
    used = proposal.run_gpu_hours
    machine = f"{hardware.gpus_per_trial} {hardware.gpu.name} of one trial"
    time = f", about {duration(used / hardware.gpus_per_trial)} on the {machine}"
    if used >= proposal.final_gpu_hours:
        return time
    return (
        f", of which row {first.rank} uses {hours(used)}{time}: beyond {first.epochs:,.3g} passes over the prompts it "
        "should lose more than it gains; more prompts would use the rest"
    )


def _outlook(outlook: OtherBudget) -> str:
    budget = f"{hours(outlook.budget_gpu_hours)} GPU-hours"
    if outlook.best is None:
        return f"{budget}: too few for a run"
    allocation, score = outlook.best.allocation, outlook.best.expected_score
    expected = f", score {score.median:.2f} ({score.low:.2f}–{score.high:.2f})"
    axes = f" with {format_axes(outlook.best.variant.axes)}" if outlook.best.variant.axes else ""
    law = outlook.published_rollouts_per_prompt
    published = f"; IsoCompute's law alone: n = {law:.0f}" if law else ""
    return (
        f"{budget}: n = {allocation.rollouts_per_prompt}, B = {allocation.prompts_per_batch}, "
        f"{steps(allocation.update_steps)} steps{axes}{expected}{published}"
    )


def _reminders(shown: list[Candidate], candidates: Sequence[Candidate]) -> list[str]:
    """Gather the notes of the candidates that are shown, each with the rows it holds for."""
    rows: dict[str, list[int]] = {}
    for candidate in shown:
        for note in (note.split(" (")[0] for note in candidate.notes):
            if note not in (LEVEL_NOTE, USUAL_NOTE):  # which the table shows
                rows.setdefault(note, []).append(candidate.rank)
    lines = [
        f"In {'row' if len(ranks) == 1 else 'rows'} {listing(ranks)} {REMINDERS[note]}." for note, ranks in rows.items()
    ]
    # Values of an axis that no pilot has, so that nothing is learnt of them.
    offered = [row.axes for row in candidates if row.pilot.steps or not row.cell.variant.of_first_row]
    piloted = values_by_axis(candidate.axes for candidate in candidates if candidate.pilot.steps)
    lines += [
        f"No pilot of {format_axes(((name, value),))}: the pilot budget, or pilot.most_pilots, allows no more."
        for name, values in values_by_axis(offered).items()
        for value in values
        if value not in piloted.get(name, ())
    ]
    without = sum(not candidate.pilot.steps for candidate in shown)
    if 0 < without < len(shown):
        lines.append(f"{without} of these rows get no pilot; --format json has the reason of each.")
    return lines


def layouts_table(proposal: Proposal, canvas: Canvas) -> Part:
    """Lay out what row 1 takes on each number of GPUs; the plan's own is marked."""
    split = proposal.request.traits.asynchronous
    columns: Sequence[Column[Layout]] = (
        Column("GPUs", lambda layout: f"{'> ' if layout.chosen else ''}{layout.gpus_per_trial}"),
        Column("at once", lambda layout: layout.at_once, gives_way=True),
        Column("GPU-h/step", lambda layout: aligned_hours(layout.gpu_hours_per_step)),
        Column("s/step", lambda layout: aligned_hours(layout.step_seconds), gives_way=True),
        Column("steps", lambda layout: steps(layout.update_steps)),
        Column("final run", lambda layout: duration(layout.final_wall_hours)),
        Column(
            "GPU-h/step in turn" if split else "GPU-h/step split",
            lambda layout: aligned_hours(layout.otherwise_gpu_hours_per_step),
        ),
    )
    return table_of(proposal.layouts, columns, canvas, dim=lambda row: not row.chosen)


def layout_notes(proposal: Proposal) -> list[str]:
    """Say why the marked layout is taken."""
    request = proposal.request
    gpus = request.hardware.gpus_per_trial
    if not request.chooses_gpus:
        return [f"> {plural(gpus, 'GPU')} a final run, as given."]
    if request.within_hours is not None:
        return [f"> {plural(gpus, 'GPU')} should end highest by the deadline; --gpus-per-trial takes others."]
    return [
        f"> {plural(gpus, 'GPU')} should end highest of what ends within a week, or soonest where nothing does.",
        "--within sets a deadline, --gpus-per-trial the GPUs.",
    ]


def doubt_line(proposal: Proposal) -> str:
    """Say what the interval of the price means for the steps, and for the first rows."""
    doubt, first = proposal.doubt, proposal.candidates[0].cell
    row = f"row {proposal.run.rank}"
    bought = f"its interval buys {steps(doubt.fewest_steps)} to {steps(doubt.most_steps)} steps of {row}"
    if doubt.firm > 1:
        return f"{bought}; the order of the first {doubt.firm} rows does not depend on it"
    if doubt.lost <= LEVEL_ENOUGH:
        return f"{bought}; row 1 stays first"
    ends = [
        f"at the {end} price {named_configuration(configuration)} would be first"
        for end, configuration in (("highest", doubt.first_if_dear), ("lowest", doubt.first_if_cheap))
        if configuration is not None and configuration != first.configuration
    ]
    if not math.isfinite(doubt.lost):
        return "; ".join([f"{bought}; at the highest price the budget buys no step of it", *ends])
    return "; ".join([bought, *ends, f"row 1 would score up to {doubt.lost:.2g} less than it"])


FAR = 1.0  # the distance from which on a study counts less than half
LEAST_WEIGHT = 0.01  # of a study that is worth a line


def ground_lines(proposal: Proposal) -> Iterator[str]:
    """List the studies with their weights and own first choices, and what else would change the first place."""
    for ground in proposal.grounds:
        if ground.weight >= LEAST_WEIGHT:
            far = " (far)" if ground.distance is not None and ground.distance > FAR else ""
            first = f"n = {ground.rollouts_per_prompt}, B = {ground.prompts_per_batch}"
            yield f"{percent(ground.weight):>5}  {ground.study}{far}: {first}"
    row_1 = proposal.candidates[0].cell.key
    if same := [case.what for case in proposal.elsewhere if case.best.key == row_1]:
        yield f"the same with {' or '.join(same)}"
    for case in proposal.elsewhere:
        n, B = case.best.key
        if (n, B) != row_1:
            yield f"with {case.what}: n = {n}, B = {B}, {steps(case.best.allocation.update_steps)} steps"
