"""What a plan says of its layouts, of time and doubt, and of what its ranking can bear."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from planner.axes import said
from planner.prior.comparing import LEVEL
from planner.proposals import Candidate, Ground, Layout, Proposal
from planner.view import Configuration
from rlplan.wording.console import Part
from rlplan.wording.numbers import aligned_hours, duration, hours, steps
from rlplan.wording.tables import Column, table_of
from rlplan.wording.terminal import Canvas

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
        Column("M", lambda each: steps(each.update_steps)),
        Column("final run", lambda each: duration(each.final_wall_hours)),
        Column(
            "GPU-h/step in turn" if split else "GPU-h/step split",
            lambda each: aligned_hours(each.otherwise_gpu_hours_per_step),
        ),
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


def _named(configuration: Configuration) -> str:
    axes = f" with {said(configuration.axes)}" if configuration.axes else ""
    return f"n = {configuration.rollouts_per_prompt}, B = {configuration.prompts_per_batch}{axes}"


FAR = 1.0  # the distance from which on a study counts less than half
LEAST_WEIGHT = 0.01  # of a study that is worth a line


def marked_rank(candidate: Candidate) -> str:
    """Return a row's rank with its signs: = for level with the first, * for a usual choice."""
    standing = candidate.standing
    return f"{'*' if standing.usual else ''}{'=' if standing.level else ''}{candidate.rank}"


def said_of_the_ranking(proposal: Proposal) -> list[str]:
    """Say which rows are level with the first, and what the usual choices are expected to lose or gain."""
    named = "Usual choices" if len(proposal.usual) > 1 else "The usual choice"
    return [_level(proposal), f"* {named}: {'; '.join(map(_usual, proposal.usual))}."]


def _level(proposal: Proposal) -> str:
    level = [candidate.rank for candidate in proposal.candidates if candidate.standing.level]
    if len(level) == 1:
        return f"= No row is level with the first: none is better with a probability of {LEVEL:.0%}."
    decides = "The pilots decide" if proposal.pilot_gpu_hours else "Without pilots nothing decides"
    return (
        f"= Level with the first, that is, better than it with a probability of {LEVEL:.0%} or more: rows "
        f"{runs(level)}. {decides} between them."
    )


def _usual(candidate: Candidate) -> str:
    (n, B), asked, standing = candidate.cell.key, candidate.standing.usual, candidate.standing
    named = f"n = {n}, B = {B}"
    if asked is not None and (n, B) != asked:
        named += f" (the nearest here to n = {asked[0]}, B = {asked[1]})"
    if candidate.rank == 1:
        return f"{named} is the first"
    low, high = (_behind(-end) for end in (standing.high, standing.low))
    return f"{named} is row {candidate.rank}, {_behind(-standing.median)} the first ({low} to {high})"


def _behind(score: float) -> str:
    return f"{abs(score):.3f} {'behind' if score >= 0 else 'ahead'}"


def runs(ranks: list[int]) -> str:
    """Write ranks as runs, such as 1–4, 6."""
    breaks = [place for place, (a, b) in enumerate(pairwise(ranks), start=1) if b != a + 1]
    parts = [ranks[start:end] for start, end in pairwise([0, *breaks, len(ranks)])]
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}–{part[-1]}" for part in parts)


def said_of_the_grounds(proposal: Proposal) -> list[str]:
    """List the studies with their weights and own first choices, and what else would change the first place."""
    grounds = [_ground(ground) for ground in proposal.grounds if ground.weight >= LEAST_WEIGHT]
    return [*grounds, *_elsewhere(proposal)]


def _ground(ground: Ground) -> str:
    far = " (far)" if ground.distance is not None and ground.distance > FAR else ""
    first = f"n = {ground.rollouts_per_prompt}, B = {ground.prompts_per_batch}"
    return f"{ground.weight:>4.0%}  {ground.study}{far}: {first}"


def _elsewhere(proposal: Proposal) -> Iterator[str]:
    first = proposal.candidates[0].cell.key
    same = [each.what for each in proposal.elsewhere if each.best.key == first]
    if same:
        yield f"the same with {' or '.join(same)}"
    for each in proposal.elsewhere:
        n, B = each.best.key
        if (n, B) != first:
            yield f"with {each.what}: n = {n}, B = {B}, M = {steps(each.best.allocation.update_steps)}"
