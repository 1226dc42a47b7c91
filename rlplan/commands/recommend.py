"""`rlplan recommend`: what to run, how sure that is and what to type next, or all that it rests on."""

from collections.abc import Iterator, Sequence
from operator import attrgetter

from planner.axes import named_configuration
from planner.percent import chance
from planner.recommend.answer import FinalAnswer
from planner.recommend.choice import Choice, Succession
from planner.store.schema import SweepStatus
from rlplan.reading.recommendation import Recommended as Answer
from rlplan.reading.recommendation import outlook, recommended, usual_sentence
from rlplan.reading.sweep_picture import level_with_it, overrun
from rlplan.requests.results import RecommendRequest
from rlplan.wording.answers import SIZE, axes_column
from rlplan.wording.command_lines import wrapped_command
from rlplan.wording.numbers import UNKNOWN, aligned_hours, hours, interval, probability, rate, steps
from rlplan.wording.screen import (
    Canvas,
    Column,
    Invocation,
    NextStep,
    Part,
    capital,
    listed,
    next_steps,
    one_screen,
    table_of,
    unbroken,
)

__all__ = ["Answer", "answer", "parts"]

MOST_ALIKE = 4  # that are level with the best, and are listed
WIDE = 110  # columns from which the table has the learning rate, and what was seen
SHOWN_CAUTIONS = 2
IN_THE_FIRST_LINES = ("unsure",)  # cautions that need no line of their own


def answer(request: RecommendRequest) -> Answer:
    """Return the answer of a stored sweep."""
    return recommended(request.db, request.sweep, budget=request.budget, target=request.target)


def parts(advice: Answer, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    """Draw what to run, how sure that is and what to type next; in full all that it rests on too."""
    answer = advice.answer
    chosen, so_far = answer.chosen, advice.kept is not None and advice.kept.so_far
    name = named_configuration(chosen.configuration)
    what = (
        f"{'So far: run' if so_far else 'Run'} {name} for "
        f"{steps(chosen.update_steps)} steps at learning rate {rate(chosen.learning_rate)}, recipe {chosen.recipe}."
    )
    if answer.succession is not None:
        what = f"{'So far: go' if so_far else 'Go'} on with {name}: {answer.succession.reason}."
    above: list[Part] = [*canvas.lines(what, "bold")]
    for text in _how_sure(advice) if answer.succession is None else _going_on(advice, answer.succession):
        above += canvas.lines(text)
    above.append("")
    beside = [f"{capital(text)}." for text in outlook(answer)]
    if answer.succession is None and (rival := answer.runner_up) is not None:
        beside.insert(0, f"{rival.sentence}.")
    beside += [usual_sentence(choice, chosen) for choice in advice.usual]
    if invocation.explain:
        yield from above
        yield from _in_full(advice, beside, canvas)
        yield from next_steps([_run(advice, invocation)], canvas)
        return
    cautions = [caution.text for caution in answer.cautions if caution.kind not in IN_THE_FIRST_LINES][:SHOWN_CAUTIONS]
    below: list[Part] = [""]
    for text in (*beside, *(f"{capital(text)}." for text in cautions)):
        below += canvas.lines(text)
    below += next_steps([_run(advice, invocation), invocation.explained("what it rests on")], canvas)
    yield from one_screen(above, lambda rows: [_choices(answer, rows, canvas)], below, canvas)


def _how_sure(advice: Answer) -> Iterator[str]:
    answer, chosen, pilot = advice.answer, advice.answer.chosen, advice.launch.continues
    score = interval(chosen.expected_score, chosen.score_low, chosen.score_high)
    yield (
        f"Expected score {score} after {hours(chosen.gpu_hours)} GPU-hours; "
        f"{chance(chosen.probability_within_002)} likely within 0.02 of the best choice."
        f"{level_with_it(len(answer.level), len(answer.equivalent))}"
    )
    if pilot is not None:
        yield f"It continues pilot {pilot.trial}, trained for {hours(pilot.gpu_hours)} GPU-hours already."
    else:
        yield answer.valued


def _going_on(advice: Answer, succession: Succession) -> Iterator[str]:
    """Say where it should end, where the champion would have ended alone, and what the likeliest other has cost."""
    answer, chosen = advice.answer, advice.answer.chosen
    score = interval(chosen.expected_score, chosen.score_low, chosen.score_high)
    yield f"Expected score {score} after the remaining {hours(advice.launch.gpu_hours)} GPU-hours."
    challengers = sum(row.gpu_hours_spent for row in answer.ranked if row.configuration != succession.configuration)
    alone = succession.alone
    if challengers:
        yield (
            f"Had you gone on alone with {named_configuration(succession.configuration)}: "
            f"{interval(alone.expected_score, alone.score_low, alone.score_high)}, with the "
            f"{hours(challengers)} GPU-hours of its challengers."
        )
    if (rival := answer.runner_up) is not None and rival.choice.configuration != succession.configuration:
        name, cost = named_configuration(rival.choice.configuration), hours(rival.choice.gpu_hours_spent)
        yield f"Nearest: {name}, {rival.odds}; its pilot cost {cost} GPU-hours."


def _run(advice: Answer, invocation: Invocation) -> NextStep:
    """Name what runs the answer, or what has to come before."""
    if advice.status is SweepStatus.RUNNING:
        return invocation.step("status --watch", advice.sweep, "follows the sweep")
    if advice.status is SweepStatus.INTERRUPTED:
        return invocation.step("resume", advice.sweep, "goes on with the pilots")
    if advice.asked_for:
        return invocation.step("recommend", advice.sweep, "for the final run of the plan")
    if advice.final is not None:
        return invocation.step("status", advice.final, "how its final run stands")
    if advice.answer.succession is not None and (pilot := advice.launch.continues) is not None:
        return invocation.step("launch", advice.sweep, f"goes on from step {pilot.step:,}, held to this forecast")
    return invocation.step("launch", advice.sweep, "runs it against this forecast")


def _choices(answer: FinalAnswer, rows: int, canvas: Canvas) -> Part:
    """Lay out the chosen one, its runner-up, those that are level with it, and the next by expectation."""
    rival = [answer.runner_up.choice] if answer.runner_up is not None else []
    choices = [answer.chosen, *rival, *answer.equivalent, *answer.ranked]
    first = list({choice.configuration: choice for choice in choices}.values())[:rows]
    shown = sorted(first, key=lambda row: (row.configuration != answer.chosen.configuration, -row.expected_score))
    columns: Sequence[Column[Choice]] = (
        *SIZE,
        axes_column(shown),
        Column("expected score", lambda row: interval(row.expected_score, row.score_low, row.score_high)),
        Column("within 0.02", lambda row: chance(row.probability_within_002)),
        Column("best", lambda row: chance(row.probability_best), gives_way=True),
        Column("trained GPU-h", lambda row: aligned_hours(row.reached_gpu_hours) if row.seeds_seen else UNKNOWN),
    )
    return table_of(shown, columns, canvas)


def _in_full(advice: Answer, beside: Sequence[str], canvas: Canvas) -> Iterator[Part]:
    """Return the best with all that is known of them, every caution, the command, and where the answer is from."""
    answer = advice.answer
    yield _alike(answer, canvas)
    if (hidden := len(answer.equivalent) - MOST_ALIKE) > 0:
        more = "one more is" if hidden == 1 else f"{hidden} more are"
        yield from canvas.lines(f"{more} level with the best: --format csv lists all", "dim")
    yield ""
    for text in beside:
        yield from canvas.lines(text)
    yield from listed("Mind", [capital(caution.text) for caution in answer.cautions])
    yield ""
    yield canvas.line("To run it", "bold")
    if advice.final is not None:
        yield from canvas.lines(f"{advice.final} is its final run.", "dim")
    else:
        if advice.launch.command is not None:
            yield unbroken(wrapped_command(advice.launch.command, canvas.width))
        yield from canvas.lines(f"{capital(advice.launch.note)}.", "dim")
    state = "" if advice.status.value == "finished" else f", which is {advice.status.value}"
    over = overrun(advice.spent_gpu_hours, advice.pilot_gpu_hours)
    beyond = f", {aligned_hours(over)} too many" if over else ""
    yield ""
    yield from canvas.lines(
        f"From {advice.sweep}{state}: {advice.origin}. {aligned_hours(advice.spent_gpu_hours)} of "
        f"{hours(advice.pilot_gpu_hours)} pilot GPU-hours are spent{beyond}; the intervals are of 90 %.",
        "dim",
    )


def _alike(answer: FinalAnswer, canvas: Canvas) -> Part:
    wide = canvas.width >= WIDE
    shown = [answer.chosen, *answer.equivalent[:MOST_ALIKE]]
    rival = None if answer.runner_up is None else answer.runner_up.choice
    if rival is not None and rival not in shown:
        shown.append(rival)
    columns: Sequence[Column[Choice]] = (
        *SIZE,
        # Three digits, since a hundredth is what the best differ by.
        Column("expected", lambda row: f"{row.expected_score:.3f} ({row.score_low:.3f}–{row.score_high:.3f})"),
        Column("P(best)", lambda choice: probability(choice.probability_best)),
        Column("P(0.02)", lambda choice: probability(choice.probability_within_002)),
        Column("short", lambda choice: f"{choice.expected_regret:.3f}"),
        Column("trained", lambda row: aligned_hours(row.reached_gpu_hours) if row.seeds_seen else UNKNOWN),
        Column("seeds", attrgetter("seeds_seen"), shown=wide),
        Column("collapse", lambda choice: f"{choice.collapse_risk:.2f}", shown=wide),
        Column("learning rate", lambda choice: f"{choice.learning_rate:.2g}", shown=wide),
        Column("status", attrgetter("status"), shown=wide),
        axes_column(shown, "axes"),
    )
    return table_of(shown, columns, canvas)
