"""Prints a recommendation: what to run, how sure that is, what would change it, warnings, and the command to run."""

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from planner.recommending.answer import FinalAnswer
from planner.recommending.choosing import Choice
from rlplan.reading.recommend_reading import COLUMNS, Recommended, csv_rows, recommended, recommended_data
from rlplan.reading.sweep_picture import overrun
from rlplan.wording.console import Part, how_to_run, print_csv, print_drawn, print_json
from rlplan.wording.formats import Format
from rlplan.wording.numbers import UNKNOWN, aligned_hours, hours, probability
from rlplan.wording.tables import SIZE, Column, axes_column, table_of
from rlplan.wording.terminal import Canvas

NAMES = ("n=", "n = ")  # what begins with one is not capitalised
MOST_ALIKE = 4  # that are not told from the best, and are listed
WIDE = 110  # columns from which the table has the learning rate, and what was seen


EXPECTED: Sequence[Column[Choice]] = (
    *SIZE,
    # Three digits, since a hundredth is what the best differ by.
    Column("expected", lambda choice: f"{choice.expected_score:.3f} ({choice.score_low:.3f}–{choice.score_high:.3f})"),
    Column("P(best)", lambda choice: probability(choice.probability_best)),
    Column("P(0.02)", lambda choice: probability(choice.probability_within_002)),
)


def print_recommendation(
    database: str, sweep: str | None, budget: float | None, target: float | None, format: Format
) -> None:
    """Print the answer of a stored sweep."""
    found = recommended(database, sweep, budget=budget, target=target)
    if format is Format.JSON:
        print_json(recommended_data(found))
    elif format is Format.CSV:
        print_csv(COLUMNS, csv_rows(found))
    else:
        print_drawn(lambda canvas: _whole(found, canvas))


def _whole(found: Recommended, canvas: Canvas) -> Iterator[Part]:
    yield from report(found, canvas)
    yield from how_to_run(found.launch.command, found.launch.note, canvas)
    state = "" if found.status.value == "finished" else f", which is {found.status.value}"
    over = overrun(found.spent_gpu_hours, found.pilot_gpu_hours)
    beyond = f", {aligned_hours(over)} too many" if over else ""
    yield ""
    yield from canvas.lines(
        f"From {found.sweep}{state}: {found.origin}. {aligned_hours(found.spent_gpu_hours)} of "
        f"{hours(found.pilot_gpu_hours)} pilot GPU-hours are spent{beyond}; the intervals are of 90 %.",
        "dim",
    )


def report(found: Recommended, canvas: Canvas, *, rest: str = "--format csv") -> Iterator[Part]:
    """Return the parts of what is printed above the command, none wider than the canvas; `rest` is where all are."""
    answer = found.answer
    yield from canvas.lines(answer.what, "bold")
    yield from canvas.lines(answer.how_sure)
    yield from canvas.lines(answer.valued)
    yield ""
    yield _alike(answer, canvas)
    hidden = len(answer.equivalent) - MOST_ALIKE
    if hidden > 0:
        more = "one more is" if hidden == 1 else f"{hidden} more are"
        yield from canvas.lines(f"{more} not told from the best: {rest} lists all", "dim")
    rival = [answer.runner_up.sentence] if answer.runner_up is not None else []
    yield from _listed(canvas, [*rival, *outlook(answer)])
    if answer.cautions:
        yield ""
        yield canvas.line("Mind", "bold")
        yield from _listed(canvas, [caution.text for caution in answer.cautions])
    yield ""
    yield canvas.line("To run it", "bold")


def _alike(answer: FinalAnswer, canvas: Canvas) -> Part:
    wide = canvas.width >= WIDE
    shown = [answer.chosen, *answer.equivalent[:MOST_ALIKE]]
    rival = None if answer.runner_up is None else answer.runner_up.choice
    if rival is not None and rival not in shown:
        shown.append(rival)
    columns: Sequence[Column[Choice]] = (
        *EXPECTED,
        Column("short", lambda choice: f"{choice.expected_regret:.3f}"),
        Column("piloted", lambda each: aligned_hours(each.reached_gpu_hours) if each.seeds_seen else UNKNOWN),
        Column("seeds", attrgetter("seeds_seen"), shown=wide),
        Column("collapse", lambda choice: f"{choice.collapse_risk:.2f}", shown=wide),
        Column("learning rate", lambda choice: f"{choice.learning_rate:.2g}", shown=wide),
        Column("status", attrgetter("status"), shown=wide),
        axes_column(shown, "axes"),
    )
    return table_of(shown, columns, canvas)


def outlook(answer: FinalAnswer) -> list[str]:
    """Say whether another budget changes the choice, and which part of this one is nearly as good."""
    lines, enough = [answer.elsewhere], answer.enough
    if enough is not None:
        lines.append(
            f"{enough.gpu_hours:.3g} GPU-hours ({enough.gpu_hours / answer.target_gpu_hours:.0%} of the final run) "
            f"should reach {enough.expected_score:.3f}, within 0.02 of it, with n={enough.rollouts_per_prompt}, "
            f"B={enough.prompts_per_batch}"
        )
    return lines


def _listed(canvas: Canvas, texts: Iterable[str]) -> Iterator[Part]:
    narrower = Canvas(canvas.width - 2, unicode=canvas.unicode)
    for text in texts:
        said = text if text.startswith(NAMES) else text[0].upper() + text[1:]
        for number, line in enumerate(narrower.lines(said)):
            yield canvas.line(("- " if number == 0 else "  ") + line.plain)
