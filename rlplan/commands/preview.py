"""`rlplan preview`: what pilots should add, at several shares of the budget."""

from collections.abc import Iterator, Sequence

from planner.axes import named_configuration
from planner.metrics import EQUIVALENCE_MARGIN
from planner.percent import percent
from rlplan.actions.previewing import CHAMPION, MOST_DRAWS, NO_PILOTS, Estimate, FractionSummary, Preview, preview
from rlplan.wording.draw import ROWS, Canvas, Column, Invocation, Part, next_steps, table_of
from rlplan.wording.numbers import aligned_hours, duration, hours, listing, plural, share

answer = preview
ENOUGH_DRAWS = 40  # to tell shares apart that differ by a hundredth, which is what they differ by


def parts(found: Preview, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    """Draw what is to be expected at each pilot fraction."""
    yield canvas.line(f"{found.plan}: what {_what(found)} should add to the final score", "bold")
    for line in _best(found):
        yield from canvas.lines(line)
    yield ""
    columns: Sequence[Column[FractionSummary]] = (
        Column("their share", lambda each: share(each.pilot_fraction)),
        Column("GPU-hours", lambda each: aligned_hours(each.gpu_hours_spent.mean)),
        Column("time", lambda each: duration(each.pilot_wall_hours.mean)),
        Column("final score", lambda each: _with_error(each.score)),
        Column("below the best", lambda each: _with_error(each.regret)),
        Column(f"within {EQUIVALENCE_MARGIN:g}", lambda each: percent(each.probability_near_best.mean)),
    )
    shown = found.summaries if invocation.explain else found.summaries[:ROWS]
    yield table_of(shown, columns, canvas)
    yield ""
    seconds = found.cut_after_seconds
    cut = "" if seconds is None else f" (cut after {seconds:.0f} s: --draws {MOST_DRAWS} plays {MOST_DRAWS})"
    yield from canvas.lines(
        f"{plural(found.draws, 'simulated sweep')} a row{cut}, policy {found.policy}, scores drawn from the prior; ± "
        "is one standard error. Below the best: how much lower the choice scores than the best one; within "
        f"{EQUIVALENCE_MARGIN:g}: how often it is that near.",
        "dim",
    )
    if invocation.explain:
        yield from _explained(found, canvas)
    show = invocation.step("rank", found.plan, "its rows, ranked")
    more = [] if invocation.explain else [invocation.explained("what is assumed")]
    yield from next_steps([show, *more], canvas)


def _explained(found: Preview, canvas: Canvas) -> Iterator[Part]:
    trials = f"{plural(found.workers, 'trial')} at once, each on {plural(found.pilot_gpus, 'GPU')}"
    final = f"; the final run on {found.gpus_per_trial}" if found.pilot_gpus != found.gpus_per_trial else ""
    yield from canvas.lines(
        f"{hours(found.budget_gpu_hours)} GPU-hours; {trials}{final}. The final run has what the pilots leave.", "dim"
    )
    first = "the champion" if found.policy == CHAMPION else "the plan's first"
    without = [
        f"{_with_error(found.without_pilots('first_ranked'))} with {first}, {named_configuration(found.first_ranked)}",
        f"{_with_error(found.without_pilots('random'))} with one at random",
        f"{_with_error(found.without_pilots('best'))} with the best, if it were known",
    ]
    yield from canvas.lines(f"All on a final run, without {_what(found)}: {'; '.join(without)}.")
    for assumed in found.assumptions:
        yield from canvas.lines(f"Assumed: {assumed}.", "dim")


def _best(found: Preview) -> Iterator[str]:
    """Say which share is the best, and before all else when it is none."""
    shares = {each.pilot_fraction: each for each in found.summaries}
    best, alike = shares[found.best_fraction], list(found.as_good)
    if len(alike) + 1 == len(shares) > 1 and found.draws < ENOUGH_DRAWS:
        yield f"{plural(found.draws, 'simulated sweep')} cannot tell the shares apart: give --draws {ENOUGH_DRAWS}."
        return
    piloted = max(
        (each for each in shares.values() if each.pilot_fraction), key=lambda each: each.score.mean, default=None
    )
    what = _what(found)
    if piloted is not None and NO_PILOTS in (best.pilot_fraction, *alike):
        part = f"{share(piloted.pilot_fraction)} of the budget"
        if best.pilot_fraction == NO_PILOTS and piloted.pilot_fraction not in alike:
            gain = _gain(piloted.gain_over_first_ranked, found)
            if found.policy == CHAMPION:  # no simulated run has a wrong rate, which challengers are there for
                yield f"Challengers are insurance: where nothing is wrong, a run with {part} for them ends {gain}."
            else:
                yield f"Pilots cost more than they gain: at best, with {part}, {gain}."
        else:
            yield f"No measurable difference between {part} for {what} and none."
        others = [each for each in (best.pilot_fraction, *alike) if each not in (NO_PILOTS, piloted.pilot_fraction)]
        if others:
            yield f"The same holds for {'a share' if len(others) == 1 else 'shares'} of {_shares(others)}."
        return
    yield f"Best share for {what}: {share(best.pilot_fraction)} of the budget" + (
        f"; level with it: {_shares(alike)}." if alike else "."
    )
    if piloted is not None:
        yield (
            f"They take {duration(best.pilot_wall_hours.mean)}, the final run {duration(best.final_wall_hours)}; "
            f"{_gain(best.gain_over_first_ranked, found)}."
        )


def _what(found: Preview) -> str:
    return "challengers" if found.policy == CHAMPION else "pilots"


def _shares(fractions: Sequence[float]) -> str:
    return listing([share(each) for each in sorted(fractions)])


def _gain(estimate: Estimate, found: Preview) -> str:
    size = _with_error(Estimate(abs(estimate.mean), estimate.standard_error))
    alone = "the champion alone" if found.policy == CHAMPION else "row 1 without pilots"
    return f"{size} {'above' if estimate.mean >= 0 else 'below'} {alone}"


def _with_error(estimate: Estimate) -> str:
    error = "" if estimate.standard_error is None else f" ± {estimate.standard_error:.3f}"
    return f"{estimate.mean:.3f}{error}"
