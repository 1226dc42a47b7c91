"""What a plan's ranking can bear, in sentences: which rows are level, where the usual choice stands, who says so."""

from collections.abc import Iterator
from itertools import pairwise

from planner.proposals import Candidate, Ground, Proposal
from planner.proposals.comparing import LEVEL
from rlplan.wording.numbers import steps

FAR = 1.0  # the distance from which on a study counts less than half
LEAST_WEIGHT = 0.01  # of a study that is worth a line


def marked_rank(candidate: Candidate) -> str:
    """Return a row's rank with its signs: = for level with the first, * for the usual choice."""
    standing = candidate.standing
    return f"{'*' if standing.usual else ''}{'=' if standing.level else ''}{candidate.rank}"


def said_of_the_ranking(proposal: Proposal) -> list[str]:
    """Say which rows are level with the first, and what the usual choice is expected to lose or gain."""
    return [_level(proposal), _usual(proposal)]


def _level(proposal: Proposal) -> str:
    level = [candidate.rank for candidate in proposal.candidates if candidate.standing.level]
    if len(level) == 1:
        return f"= No row is level with the first: none is better with a probability of {LEVEL:.0%}."
    decides = "The pilots decide" if proposal.pilot_gpu_hours else "Without pilots nothing decides"
    return (
        f"= Level with the first, that is, better than it with a probability of {LEVEL:.0%} or more: rows "
        f"{runs(level)}. {decides} between them."
    )


def _usual(proposal: Proposal) -> str:
    usual, asked = proposal.usual, proposal.request.usual
    n, B = usual.cell.key
    named = f"n = {n}, B = {B},"
    named = (
        f"* The usual choice, {named}"
        if (n, B) == asked
        else f"* {named} of this grid the nearest to n = {asked[0]}, B = {asked[1]},"
    )
    if usual.rank == 1:
        return f"{named} is the first."
    low, high = (_behind(-end) for end in (usual.standing.high, usual.standing.low))
    return f"{named} is row {usual.rank}: {_behind(-usual.standing.median)} the first ({low} to {high})."


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
