"""Prints a preview: as a table for a person, as JSON or CSV for a program."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from planner.axes import named_configuration
from planner.metrics import EQUIVALENCE_MARGIN
from rlplan.actions.previewing import NO_PILOTS, Estimate, FractionSummary, Preview
from rlplan.printing.replay_output import chosen_data
from rlplan.wording.console import Part, print_csv, print_drawn, print_json
from rlplan.wording.formats import Format
from rlplan.wording.numbers import aligned_hours, duration, hours
from rlplan.wording.tables import Column, table_of
from rlplan.wording.terminal import Canvas


def print_preview(preview: Preview, format: Format) -> None:
    """Print what is to be expected at each pilot fraction."""
    if format is Format.JSON:
        print_json(preview_data(preview))
    elif format is Format.CSV:
        rows = [_flat(summary) for summary in preview.summaries]
        print_csv(list(rows[0]), rows)
    else:
        print_drawn(lambda canvas: _drawn(preview, canvas))


def preview_data(preview: Preview) -> dict[str, Any]:
    """Return the document of `preview --format json`."""
    first, chance, best = (asdict(preview.without_pilots(choice)) for choice in ("first_ranked", "random", "best"))
    return {
        "plan": preview.plan,
        "policy": preview.policy,
        "seed": preview.seed,
        "draws": preview.draws,
        "budget_gpu_hours": preview.budget_gpu_hours,
        "workers": preview.workers,
        "pilot_gpus": preview.pilot_gpus,
        "best_pilot_fraction": preview.best_fraction,
        "as_good": list(preview.as_good),
        "fractions": [asdict(summary) for summary in preview.summaries],
        "without_pilots": {
            "first_ranked": {**chosen_data(preview.first_ranked), "score": first},
            "random": {"score": chance},
            "best": {"score": best},
        },
        "near_best_within": EQUIVALENCE_MARGIN,
        "assumptions": list(preview.assumptions),
    }


def _flat(summary: FractionSummary) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in asdict(summary).items():
        if isinstance(value, dict):
            flat |= {key: value["mean"], f"{key}_standard_error": value["standard_error"]}
        else:
            flat[key] = value
    return flat


def _drawn(preview: Preview, canvas: Canvas) -> Iterator[Part]:
    worlds = "one world" if preview.draws == 1 else f"{preview.draws} worlds"
    yield canvas.line(f"{preview.policy} on {preview.plan}, in {worlds} drawn from the prior", "bold")
    trials = "one trial" if preview.workers == 1 else f"{preview.workers} trials"
    final = f", the final run on {preview.gpus_per_trial}" if preview.pilot_gpus != preview.gpus_per_trial else ""
    yield from canvas.lines(
        f"{hours(preview.budget_gpu_hours)} GPU-hours; {trials} at once, each on {preview.pilot_gpus}{final}. Scores "
        "are those of the final run, which has what the pilots leave; ± is one standard error.",
        "dim",
    )
    yield ""
    columns: Sequence[Column[FractionSummary]] = (
        Column("pilots", lambda each: f"{each.pilot_fraction:.3g}"),
        Column("GPU-hours", lambda each: aligned_hours(each.gpu_hours_spent.mean)),
        Column("they take", lambda each: duration(each.pilot_wall_hours.mean)),
        Column("final score", lambda each: _told(each.score)),
        Column("regret", lambda each: _told(each.regret)),
        Column(f"within {EQUIVALENCE_MARGIN:g}", lambda each: f"{each.probability_near_best.mean:.0%}"),
    )
    yield table_of(preview.summaries, columns, canvas)
    yield ""
    yield from canvas.lines(_best(preview))
    without = [
        f"{_told(preview.without_pilots('first_ranked'))} with the plan's first, "
        f"{named_configuration(preview.first_ranked)}",
        f"{_told(preview.without_pilots('random'))} with one at random",
        f"{_told(preview.without_pilots('best'))} with the best, if it were known",
    ]
    yield from canvas.lines(f"All on a final run without pilots: {'; '.join(without)}.")
    for assumed in preview.assumptions:
        yield from canvas.lines(f"Assumed: {assumed}.", "dim")


def _best(preview: Preview) -> str:
    """Say which share is the best, and before all else when it is none."""
    shares = {each.pilot_fraction: each for each in preview.summaries}
    best, alike = shares[preview.best_fraction], list(preview.as_good)
    piloted = max(
        (each for each in shares.values() if each.pilot_fraction), key=lambda each: each.score.mean, default=None
    )
    if piloted is not None and NO_PILOTS in (best.pilot_fraction, *alike):
        alone = best.pilot_fraction == NO_PILOTS and piloted.pilot_fraction not in alike
        judged = "Pilots cost more than they show" if alone else "Pilots are not told apart from none"
        others = [each for each in (best.pilot_fraction, *alike) if each not in (NO_PILOTS, piloted.pilot_fraction)]
        return (
            f"{judged}: with {piloted.pilot_fraction:.3g} of the budget, the best share played, the "
            f"final run ends {_gain(piloted.gain_over_first_ranked)} than the plan's first on the whole budget"
            f"{_named(others, ' is', ' are', ' not distinguishable either')}."
        )
    told = (
        f"Best expected final score: a pilot fraction of {best.pilot_fraction:.3g}"
        f"{_named(alike, '', '', ' not distinguishable')}."
    )
    if piloted is None:
        return told
    return (
        f"{told} Its pilots take {duration(best.pilot_wall_hours.mean)} and the final run "
        f"{duration(best.final_wall_hours)}; that is {_gain(best.gain_over_first_ranked)} than to run the plan's first "
        "without pilots."
    )


def _named(fractions: Sequence[float], one: str, several: str, what: str) -> str:
    if not fractions:
        return ""
    verb = one if len(fractions) == 1 else several
    return f", and {' and '.join(f'{each:.3g}' for each in sorted(fractions))}{verb}{what}"


def _gain(estimate: Estimate) -> str:
    size = _told(Estimate(abs(estimate.mean), estimate.standard_error))
    return f"{size} {'better' if estimate.mean >= 0 else 'worse'}"


def _told(estimate: Estimate) -> str:
    error = "" if estimate.standard_error is None else f" ± {estimate.standard_error:.3f}"
    return f"{estimate.mean:.3f}{error}"
