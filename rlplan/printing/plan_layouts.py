"""A plan's layouts, its deadline, how far its price may be off, and the studies that its ranking rests on."""

import math
from collections.abc import Iterator, Sequence

from planner.axes import named_configuration
from planner.percent import percent
from planner.proposals import Layout, Proposal, StudyWeight
from rlplan.wording.draw import Canvas, Column, Part, table_of
from rlplan.wording.numbers import aligned_hours, duration, hours, plural, steps

LEAST_UNSPENT = 0.01  # of the budget that is worth a word
LEVEL_ENOUGH = 0.002  # of expected score: what is no loss to speak of


def layouts_table(proposal: Proposal, canvas: Canvas) -> Part:
    """Lay out what row 1 takes on each number of GPUs; the plan's own is marked."""
    split = proposal.request.traits.asynchronous
    columns: Sequence[Column[Layout]] = (
        Column("GPUs", lambda each: f"{'> ' if each.chosen else ''}{each.gpus_per_trial}"),
        Column("at once", lambda each: each.at_once, gives_way=True),
        Column("GPU-h/step", lambda each: aligned_hours(each.gpu_hours_per_step)),
        Column("s/step", lambda each: aligned_hours(each.step_seconds), gives_way=True),
        Column("steps", lambda each: steps(each.update_steps)),
        Column("final run", lambda each: duration(each.final_wall_hours)),
        Column(
            "GPU-h/step in turn" if split else "GPU-h/step split",
            lambda each: aligned_hours(each.otherwise_gpu_hours_per_step),
        ),
    )
    return table_of(proposal.layouts, columns, canvas, dim=lambda each: not each.chosen)


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
    bought = f"its interval buys {steps(doubt.fewest_steps)} to {steps(doubt.most_steps)} steps of row 1"
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


def deadline_lines(proposal: Proposal) -> list[str]:
    """Say when the plan ends, and what the deadline costs; nothing where there is none."""
    deadline = proposal.deadline
    if deadline is None:
        return []
    ends = f"It ends after {duration(deadline.takes_hours)} of {duration(deadline.within_hours)}"
    if deadline.cost <= LEVEL_ENOUGH:
        return [f"{ends}; the deadline costs nothing."]
    unspent = deadline.unspent_gpu_hours
    much = unspent >= LEAST_UNSPENT * proposal.request.budget_gpu_hours
    spent = f" and leaves {hours(unspent)} GPU-hours unspent" if much else ""
    return [
        f"{ends}; the deadline costs {deadline.cost:.2g} of expected score{spent}. Without it "
        f"{plural(deadline.gpus_without, 'GPU')} would reach {deadline.score_without:.2f} in "
        f"{duration(deadline.hours_without)}."
    ]


FAR = 1.0  # the distance from which on a study counts less than half
LEAST_WEIGHT = 0.01  # of a study that is worth a line


def ground_lines(proposal: Proposal) -> list[str]:
    """List the studies with their weights and own first choices, and what else would change the first place."""
    grounds = [_ground(ground) for ground in proposal.grounds if ground.weight >= LEAST_WEIGHT]
    return [*grounds, *_what_ifs(proposal)]


def _ground(ground: StudyWeight) -> str:
    far = " (far)" if ground.distance is not None and ground.distance > FAR else ""
    first = f"n = {ground.rollouts_per_prompt}, B = {ground.prompts_per_batch}"
    return f"{percent(ground.weight):>5}  {ground.study}{far}: {first}"


def _what_ifs(proposal: Proposal) -> Iterator[str]:
    first = proposal.candidates[0].cell.key
    same = [each.what for each in proposal.elsewhere if each.best.key == first]
    if same:
        yield f"the same with {' or '.join(same)}"
    for each in proposal.elsewhere:
        n, B = each.best.key
        if (n, B) != first:
            yield f"with {each.what}: n = {n}, B = {B}, {steps(each.best.allocation.update_steps)} steps"
