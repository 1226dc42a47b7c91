"""The runner-up, and what would have to be true for it to win: read off the draws in which it does."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from planner.axes import named_configuration
from planner.recommending.choice import Choice, Choices
from planner.recommending.prospect import Joint, Prospect, beats

OCTAVES = (-2, 2)
FEWEST_WINS = 20  # draws below which nothing is said of what they have in common


@dataclass(frozen=True, slots=True)
class Rival:
    """The runner-up at the target.

    `shifts` say by how much more than expected the gap closes where it wins, by what closes it; they add up to
    `gap_where_it_wins` + `gap`.
    """

    choice: Choice
    probability_wins: float  # against the chosen
    gap: float  # expected, chosen − runner-up
    gap_where_it_wins: float | None  # runner-up − chosen, on average
    overtakes_at_gpu_hours: float | None  # the compute nearest to the target where it is expected to score higher
    shifts: dict[str, float]
    sentence: str
    taken_at_gpu_hours: float | None = None  # the compute nearest to the target where it would be chosen


def runner_up(joint: Joint, choices: Choices, chosen: int) -> Rival | None:
    """Return the highest expectation beside the chosen one; None when there is nothing else."""
    prospect = choices.prospect
    rung = prospect.rung(0)
    others = [row for row in range(len(prospect.configurations)) if row != chosen and prospect.able[rung, row]]
    if not others:
        return None
    expected = prospect.expected[rung]
    row = max(others, key=lambda each: (expected[each], -each))
    scores = prospect.scores[rung]
    probability = beats(scores, row, chosen)
    gap = float(expected[chosen] - expected[row])
    wins = scores[:, row] > scores[:, chosen]
    known = int(wins.sum()) >= FEWEST_WINS
    won_by = float((scores[wins, row] - scores[wins, chosen]).mean()) if known else None
    shifts = _shifts(joint, prospect, row, chosen) if known else {}
    overtakes, taken = _overtakes(prospect, row, chosen), _taken(choices, lambda each: each == row)
    return Rival(
        choice=choices.described(rung, row),
        probability_wins=probability,
        gap=gap,
        gap_where_it_wins=won_by,
        overtakes_at_gpu_hours=None if overtakes is None else float(prospect.gpu_hours[overtakes]),
        shifts=shifts,
        sentence="; ".join(
            [*_sentence(prospect, row, chosen, probability, gap, shifts), _elsewhere(choices, row, chosen, overtakes)]
        ),
        taken_at_gpu_hours=None if taken is None else float(prospect.gpu_hours[taken]),
    )


def _shifts(joint: Joint, prospect: Prospect, row: int, chosen: int) -> dict[str, float]:
    """Split how far the gap closes where the rival wins into levels at the pilots' ends, and rises from there."""
    reached = [prospect.facts[each].reached_gpu_hours for each in (row, chosen)]
    final = prospect.scores[prospect.rung(0)][:, [row, chosen]]
    # Without a pilot, all of a score is yet to come.
    ends = [min(each, prospect.target_gpu_hours) or prospect.gpu_hours[0] for each in reached]
    asked = joint.scores(sorted(set(map(float, ends))))
    at = [sorted(set(map(float, ends))).index(float(end)) for end in ends]
    level = np.stack([asked[:, each, place] for each, place in zip((row, chosen), at, strict=True)], axis=1)
    level[:, [end == 0 for end in reached]] = 0.0
    wins = final[:, 0] > final[:, 1]

    def shift(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
        return float(values[wins].mean() - values.mean())

    rise = final - level
    return {
        "its_level_so_far": shift(level[:, 0]),
        "its_further_rise": shift(rise[:, 0]),
        "level_of_the_chosen_so_far": -shift(level[:, 1]),
        "further_rise_of_the_chosen": -shift(rise[:, 1]),
    }


def _nearest(prospect: Prospect) -> list[int]:
    """Return the computes from ¼ to 4 × the target, the nearest first, without the target itself."""
    target = prospect.rung(0)
    around = [rung for rung in prospect.rungs(*OCTAVES) if rung != target]
    return sorted(around, key=lambda rung: (abs(rung - target), -rung))


def _overtakes(prospect: Prospect, row: int, chosen: int) -> int | None:
    """Return the nearest compute at which one is expected to score higher than the chosen one."""
    ahead = prospect.able[:, row] & (prospect.expected[:, row] > prospect.expected[:, chosen])
    return next((rung for rung in _nearest(prospect) if ahead[rung]), None)


def _taken(choices: Choices, of: Callable[[int], bool]) -> int | None:
    """Return the nearest compute at which such a one would be taken, as the table of other final runs has it."""
    return next((rung for rung in _nearest(choices.prospect) if of(choices.settled(rung).row)), None)


def _elsewhere(choices: Choices, row: int, chosen: int, overtakes: int | None) -> str:
    """Say what would be taken where the final run is another: the same choices as in the table of those."""
    prospect = choices.prospect
    if (taken := _taken(choices, lambda each: each == row)) is not None:
        target, around = prospect.rung(0), prospect.rungs(*OCTAVES)
        beyond = [rung for rung in around if (rung >= taken if taken > target else rung <= taken)]
        always = all(choices.settled(rung).row == row for rung in beyond)
        word = ("from" if taken > target else "up to") if always else "at"
        return f"{word} {_times(prospect, taken)} it would be taken"
    if overtakes is not None and choices.settled(overtakes).row not in (row, chosen):
        third = named_configuration(prospect.configurations[choices.settled(overtakes).row])
        return f"at {_times(prospect, overtakes)} it is expected to be ahead, and {third} would be taken"
    third_at = _taken(choices, lambda each: each != chosen)
    if third_at is None:
        return "no final run of ¼ to 4 × the GPU-hours would take it or another"
    third = named_configuration(prospect.configurations[choices.settled(third_at).row])
    return (
        f"no final run of ¼ to 4 × the GPU-hours would take it; at {_times(prospect, third_at)} {third} would be taken"
    )


def _times(prospect: Prospect, rung: int) -> str:
    gpu_hours = float(prospect.gpu_hours[rung])
    return f"{gpu_hours / prospect.target_gpu_hours:.2g} × the final run ({gpu_hours:.3g} GPU-hours)"


def _sentence(
    prospect: Prospect, row: int, chosen: int, probability: float, gap: float, shifts: dict[str, float]
) -> Iterator[str]:
    it, other = named_configuration(prospect.configurations[row]), named_configuration(prospect.configurations[chosen])
    if gap > 0:
        yield f"{it} wins if it ends {gap:.3f} or more higher against {other} than expected, P = {probability:.2g}"
    else:
        yield f"{it} is expected {-gap:.3f} higher and was given up in the tie, P(it wins) = {probability:.2g}"
    if shifts:
        cause = max(shifts, key=lambda name: shifts[name])
        reached = [prospect.facts[each].reached_gpu_hours for each in (row, chosen)]
        yield f"where it wins, {_cause(cause, shifts[cause], reached, other)}"


def _cause(name: str, shift: float, reached: list[float], other: str) -> str:
    return {
        "its_level_so_far": f"mostly because it already stands {shift:.3f} higher than its points say",
        "its_further_rise": f"mostly because it {_beyond(shift, 'more', reached[0])}",
        "level_of_the_chosen_so_far": f"mostly because {other} already stands {shift:.3f} lower than its points say",
        "further_rise_of_the_chosen": f"mostly because {other} {_beyond(shift, 'less', reached[1])}",
    }[name]


def _beyond(shift: float, word: str, end: float) -> str:
    if end == 0:
        return f"scores {shift:.3f} {word} than its neighbours say"
    return f"gains {shift:.3f} {word} than expected after its pilot's last score at {end:.3g} GPU-hours"
