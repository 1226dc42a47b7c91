"""The screen of `rlplan propose`: the answer, the split, the rows, and what to type next."""

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from operator import attrgetter
from pathlib import Path

from budgets.cost import Z90
from budgets.signal import BetaPassRates, MeasuredPassRates
from budgets.work import Phase
from planner.axes import (
    LEARNING_RATE,
    MODEL,
    format_axes,
    named_configuration,
    rate_factor,
    value_of,
    values_by_axis,
    without,
)
from planner.config.layers import DEFAULT
from planner.metrics import Interval
from planner.percent import chance, percent
from planner.proposals import Candidate, Proposal
from planner.proposals.proposal import ChampionPlan
from planner.view import Configuration
from rlplan.actions.calibration import ADOPTED
from rlplan.actions.configuration import CLUSTER, THIS_MACHINE
from rlplan.actions.stored_plan import StoredPlan
from rlplan.reading.plan_data import recipe_names
from rlplan.wording.answers import axes_column
from rlplan.wording.assumptions import ASSUMED, GUESSED
from rlplan.wording.numbers import (
    aligned_hours,
    difference,
    duration,
    hours,
    interval,
    listing,
    plural,
    rate,
    share,
    steps,
)
from rlplan.wording.screen import Canvas, Column, Invocation, Part, next_steps, one_screen, table_of

# What exploring costs, as it was measured on recorded tables (docs/concepts/decisions.md).
EXPLORING = (
    "Exploring is for the n × B map. With 10 % for pilots it ended 0.014 ± 0.012 below the usual choice alone, "
    "with the same GPU-hours."
)
LIKELY, UNLIKELY = 0.75, 0.25  # chances of ending above the champion, beyond which a row is not called level with it


def champion_lines(proposal: Proposal, champion: ChampionPlan) -> Iterator[str]:
    """Yield what is started, what is tried beside it, and what to expect."""
    start = _named(champion.row, with_rate=True)
    alone = champion.terms.alone
    pilot = "it has all GPU-hours, and no challengers" if alone else "it is its own pilot"
    models = [str(value_of(candidate.axes, MODEL)) for candidate in champion.terms.candidates]
    if len(models) > 1:
        sizes = named_configuration(champion.row.cell.configuration._replace(axes=()))
        yield f"Race {listing(models)} first, with {sizes}: the one that leads goes on as its own pilot."
    elif champion.source == "script":
        yield f"Start your run, {start}: {pilot}."
    else:
        yield f"Start with {start}: {pilot}."
    if champion.usual_ahead is not None:
        rate_differs = rate_factor(champion.usual.axes) != rate_factor(champion.row.axes)
        likely, usual = chance(champion.usual_ahead.chance), _named(champion.usual, with_rate=rate_differs)
        yield f"Studies expect more of the usual {usual}: {likely} likely higher. --advised starts with it."
    if not alone:
        yield _challengers(proposal, champion)
    yield _expected(proposal, champion.row)
    if not alone:
        alarm, look = share(champion.terms.alarm_share), hours(champion.look_gpu_hours)
        yield f"If its first {look} GPU-hours give alarm, up to {alarm} go into what could mend it."


def _challengers(proposal: Proposal, champion: ChampionPlan) -> str:
    part = share(champion.terms.challenger_share)
    raced = [challenger.cell.configuration in champion.terms.candidates for challenger in champion.challengers]
    rows = [row for row, races in zip(champion.challengers, raced, strict=True) if not races]
    if any(raced) and not rows:
        race = hours(sum(challenger.pilot.gpu_hours for challenger in champion.challengers))
        return f"The race costs {race} GPU-hours for the models that lose it, of {part} for challengers."
    if not rows:
        return f"No challenger is worth a look today: the {part} for them wait for an alarm."
    rate_differs = any(rate_factor(row.axes) != rate_factor(champion.row.axes) for row in rows)
    names = listing([_named(row, with_rate=rate_differs) for row in rows])
    cost, time = sum(row.pilot.gpu_hours for row in rows), duration(proposal.pilot_wall_hours)
    kind = without(champion.row.axes, LEARNING_RATE)  # of another recipe or model studies say nothing
    alike = [row.against_champion for row in rows if without(row.axes, LEARNING_RATE) == kind]
    chances = listing([chance(gap.chance) for gap in alike if gap is not None]) if len(alike) == len(rows) else ""
    likely = f"; {chances} likely to end higher, by studies" if chances else ""
    return (
        f"Challengers get at most {part}, where a look is worth its cost: first {names}, {hours(cost)} GPU-hours, "
        f"{time}{likely}. The better one goes on to the end."
    )


def _named(row: Candidate, *, with_rate: bool = False) -> str:
    n, B, axes = row.cell.configuration
    name = named_configuration(Configuration(n, B, without(axes, LEARNING_RATE)))
    return f"{name} at learning rate {rate(row.learning_rate)}" if with_rate else name


def _expected(proposal: Proposal, row: Candidate) -> str:
    hardware, score, cell = proposal.request.hardware, row.cell.expected_score, row.cell
    used = proposal.run_gpu_hours
    on = f"{hardware.gpus_per_trial}" + (f" of {hardware.gpus}" if hardware.gpus > hardware.gpus_per_trial else "")
    dollars = proposal.spent_gpu_hours * hardware.gpu.dollars_per_hour
    price = f", ${dollars:,.0f}" if dollars >= 1 else ""
    stops = used < proposal.final_gpu_hours
    end = f" It uses {hours(used)} GPU-hours: more passes over the prompts should do harm." if stops else ""
    return (
        f"Expected score {interval(score.median, score.low, score.high)} after {steps(cell.allocation.update_steps)} "
        f"steps, {duration(used / hardware.gpus_per_trial)} on {on} {hardware.gpu.name}{price}.{end}"
    )


def _against_champion(champion: ChampionPlan, row: Candidate) -> str:
    """Say how a row stands against the champion, in a cell of the table."""
    gap = row.against_champion
    if row is champion.row or gap is None:
        return "yours" if champion.given else "usual"
    if abs(gap.median) > gap.error:
        return f"{gap.median:+.2f} ± {gap.error:.2f}"
    if UNLIKELY <= gap.chance <= LIKELY:
        return "level"
    return "likely higher" if gap.chance > LIKELY else "likely lower"


def _pilot_price(champion: ChampionPlan, row: Candidate) -> str:
    """Say what a look at a row costs."""
    if row is champion.row:
        return "its own"
    return f"{hours(row.pilot.gpu_hours)} GPU-hours" if row.pilot.steps else "–"


MOST_CUT = 0.1  # of the responses that may be cut off without a word
LEAST_UNSPENT = 0.01  # of the budget that is worth a word
LEVEL_ENOUGH = 0.002  # of expected score: what is no loss to speak of
BEHIND = "likely lower"  # not level with the first, by no more than the error
NEEDED_FOR_TRAINING = {"problems": "--problems FILE.jsonl", "model": "--model FOLDER"}
SECONDS_BELOW = 0.01  # GPU-hours a step below which seconds read better


def plan_screen(plan: StoredPlan, top: int | None, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    """Return the parts of the screen; rows that get a pilot and the usual choices are in its table."""
    proposal = plan.proposal
    above: list[Part] = [*canvas.lines(title(plan), "bold")]
    if len({variant.workload.model.name for variant in proposal.request.all_variants}) > 1:
        above += canvas.lines("Models are ranked as if their pass rates were equal: measured ones may turn the order.")
    if proposal.champion is not None:
        answer = [*champion_lines(proposal, proposal.champion), *deadline_lines(proposal)]
    else:
        answer = [_pilots(proposal), *_best_guess(proposal), standing_of(proposal), EXPLORING]
    for text in answer:
        above += canvas.lines(text)
    above.append("")
    # Which facts that nobody gave matter most, and how far the price may be off.
    doubt, factor = proposal.doubt, math.exp(Z90 * proposal.run.cell.cost.log_sd)
    bought = f"{steps(doubt.fewest_steps)} to {steps(doubt.most_steps)} steps"
    doubts = f"A step's price is known within × {factor:.2g}: row {proposal.run.rank} gets {bought}."
    missing = []
    if any(fact.what == "responses" and fact.source.startswith("expected of") for fact in plan.assumptions):
        missing.append("response length (--mean-response-tokens)")
    if not isinstance(proposal.request.workload.pass_rates, MeasuredPassRates | BetaPassRates):
        missing.append("pass rates (--pass-rates-file)")
    if any(fact.what == "prompts" and fact.source == DEFAULT for fact in plan.assumptions):
        missing.append(f"{proposal.request.workload.prompt_set_size:,} prompts (--prompts)")
    missing += [row.value for row in plan.assumptions if row.what == GUESSED]
    if missing:
        doubts += f" Guessed: {', '.join(missing)}."
    workload, cost = proposal.request.workload, proposal.run.cell.cost
    if (cut := workload.under(proposal.request.traits).responses.truncated_share) > MOST_CUT:
        doubts += f" {percent(cut)} of responses are cut off."
    if any(fact.what == "base pass rate" and fact.source.startswith(ADOPTED) for fact in plan.assumptions):
        doubts += f" Base pass rate {workload.pass_rates.mean:.2g}, from adopted runs."
    if saves := cost.seconds_by_phase.get(Phase.SAVE):
        doubts += f" Saves take {percent(saves / cost.step_seconds)} of the time."
    below: list[Part] = ["", *canvas.lines(doubts), *next_after(plan, invocation, canvas)]
    yield from one_screen(
        above, lambda rows: [candidates_table(proposal, _shown(proposal, rows), canvas)], below, canvas, top
    )


def title(plan: StoredPlan) -> str:
    """Name the plan, its budget, what is trained and on what."""
    request, recipes = plan.proposal.request, recipe_names(plan.proposal)
    models = ", ".join(dict.fromkeys(variant.workload.model.name for variant in request.all_variants))
    machine = next((row for row in plan.assumptions if row.what == "hardware"), None)
    flag = "" if machine is None or not machine.source.startswith((ASSUMED, THIS_MACHINE, CLUSTER)) else " (--gpus)"
    updates = request.traits.updates_per_batch
    several = f": B and steps are of one of {updates} updates of a batch" if updates > 1 else ""
    return (
        f"{plan.name}: {hours(request.budget_gpu_hours)} GPU-hours, {models} on {request.hardware.gpus} "
        f"{request.hardware.gpu.name}{flag}, {request.difficulty} problems, "
        f"{'recipes ' if ',' in recipes else ''}{recipes}{several}"
    )


def _pilots(proposal: Proposal) -> str:
    piloted = [candidate for candidate in proposal.candidates if candidate.pilot.steps]
    if not piloted:
        return "No pilots: the whole budget goes into the final run of row 1."
    they, verb = ("It", "s") if len(piloted) == 1 else ("They", "")
    hardware, on_each = proposal.request.hardware, proposal.request.pilot_hardware.gpus_per_trial
    on = ""
    if on_each != hardware.gpus_per_trial:  # a step's GPU-hours are then not those of the table
        on = f" on {on_each} {hardware.gpu.name}{' each' if len(piloted) > 1 else ''}"
    differing: dict[str, set[object]] = {
        "n": {row.cell.key[0] for row in piloted},
        "B": {row.cell.key[1] for row in piloted},
    }
    for name in values_by_axis(row.axes for row in piloted):  # a row without an axis has the plan's own value there
        differing[f"{name.replace('_', ' ')}s"] = {value_of(row.axes, name) for row in piloted}
    names = [name for name, values in differing.items() if len(values) > 1]
    compared = f", and compare {listing(names)}" if names else ""
    return (
        f"Pilots first: {plural(len(piloted), 'run')}{on}, {hours(proposal.pilot_gpu_hours)} GPU-hours "
        f"({share(proposal.request.pilot_fraction)}), about {duration(proposal.pilot_wall_hours)}. "
        f"{they} measure{verb} the price of a step and the response length{compared}."
    )


def _best_guess(proposal: Proposal) -> Iterator[str]:
    first, hardware = proposal.candidates[0], proposal.request.hardware
    n, B = first.cell.key
    score, of = first.cell.expected_score, first.cell.allocation
    axes = f", {format_axes(first.axes)}" if first.axes else ""
    share = f"{hardware.gpus_per_trial}" + (f" of {hardware.gpus}" if hardware.gpus > hardware.gpus_per_trial else "")
    used = proposal.run_gpu_hours
    dollars = proposal.spent_gpu_hours * hardware.gpu.dollars_per_hour
    price = f", ${dollars:,.0f} in all" if dollars >= 1 else ""
    yield (
        f"Best guess today: n = {n}, B = {B}{axes}, {steps(of.update_steps)} steps at learning rate "
        f"{rate(first.learning_rate)}."
    )
    yield (
        f"Expected score {_score(score)}, "
        f"{duration(used / hardware.gpus_per_trial)} on {share} {hardware.gpu.name}{price}."
    )
    if used < proposal.final_gpu_hours:
        yield f"It uses {hours(used)} GPU-hours: more passes over the prompts should do harm."
    yield from deadline_lines(proposal)


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


def standing_of(proposal: Proposal) -> str:
    """Say how many choices are level with the first, and how the usual ones stand against it."""
    level, count = len(proposal.level) - 1, len(proposal.candidates)
    are = "is" if level == 1 else "are"
    usual: dict[str, str] = {}
    for row in proposal.usual:
        nearest = _asked(row)
        near = f" (nearest to {nearest})" if nearest else ""
        usual[f"n = {row.cell.key[0]}, B = {row.cell.key[1]}{near}"] = _against_first(row)
    if len(usual) == 1 and (nearest := _asked(proposal.usual[0])):
        against = f"row {proposal.usual[0].rank} (*), nearest to {nearest}, is {next(iter(usual.values()))}"
    elif len(set(usual.values())) == 1:
        names, verb = ("the usual choices", "are") if len(usual) > 1 else ("the usual choice", "is")
        against = f"{names} (*) {verb} {next(iter(usual.values()))}"
    else:
        against = "; ".join(f"the usual {name} is {stands}" for name, stands in usual.items())
    sizes = [candidate.cell.key for candidate in proposal.candidates]
    ends = [  # where row 1 is the last that the grid has: what lies beyond was not looked at
        f"{letter} = {size_of_first}"
        for place, (letter, size_of_first) in enumerate(zip("nB", sizes[0], strict=True))
        if size_of_first == max(size[place] for size in sizes) > min(size[place] for size in sizes)
    ]
    edge = f" {listing(ends)} {'is' if len(ends) == 1 else 'are'} the largest of the grid ([grid])." if ends else ""
    return f"{level or 'None'} of {count - 1} others {are} level with row 1; {against}.{edge}"


def _asked(candidate: Candidate) -> str | None:
    """Name the usual choice that a row is only the nearest to."""
    asked = candidate.standing.usual
    return f"n = {asked[0]}, B = {asked[1]}" if asked is not None and asked != candidate.cell.key else None


def _against_first(candidate: Candidate, *, in_words: bool = True) -> str:
    """Say how a row stands against the first, in a sentence or in a cell of the table."""
    standing = candidate.standing
    error = standing.high - standing.median
    if candidate.rank == 1:
        return "row 1 itself" if in_words else "–"
    if standing.level:
        return "level too" if in_words else "level"
    if abs(standing.median) <= error:
        return BEHIND
    return difference(standing.median, error) if in_words else f"{standing.median:+.2f} ± {error:.2f}"


def _shown(proposal: Proposal, rows: int) -> list[Candidate]:
    """Return the first row, the usual choices, those with a pilot, and the top of the ranking, as many as there are.

    The champion stands before the usual choices.
    """
    champion = proposal.champion
    usual = {row.rank for row in (proposal.usual if champion is None else (champion.row, champion.usual))}
    wanted = sorted(
        proposal.candidates, key=lambda row: (row.rank > 1, row.rank not in usual, not row.pilot.steps, row.rank)
    )
    return sorted(wanted[:rows], key=attrgetter("rank"))


def candidates_table(proposal: Proposal, shown: Sequence[Candidate], canvas: Canvas) -> Part:
    """Lay out the candidates, with how each stands against the champion, or the first."""
    champion = proposal.champion
    in_seconds = proposal.candidates[0].cell.cost.gpu_hours_per_step < SECONDS_BELOW
    if champion is None:
        marked = {row.rank for row in shown if row.standing.usual}
        against: Sequence[Column[Candidate]] = (
            Column("against #1", partial(_against_first, in_words=False)),
            Column("pilot", lambda row: f"{steps(row.pilot.steps)} steps" if row.pilot.steps else "–"),
        )
    else:
        marked = {champion.row.rank}
        against = (
            Column("against yours" if champion.given else "against *", partial(_against_champion, champion)),
            Column("pilot", partial(_pilot_price, champion)),
        )
    columns: Sequence[Column[Candidate]] = (
        Column("#", lambda row: f"{'*' if row.rank in marked else ''}{row.rank}"),
        Column("n", attrgetter("cell.allocation.rollouts_per_prompt")),
        Column("B", attrgetter("cell.allocation.prompts_per_batch")),
        axes_column(shown),
        Column("steps", lambda candidate: steps(candidate.cell.allocation.update_steps)),
        Column(
            "GPU-s/step" if in_seconds else "GPU-h/step",
            lambda candidate: aligned_hours(candidate.cell.cost.gpu_hours_per_step * (3600 if in_seconds else 1)),
            gives_way=True,
        ),
        Column("signal", lambda candidate: percent(candidate.cell.signal_fraction), gives_way=True),
        Column("learning rate", lambda candidate: rate(candidate.learning_rate), gives_way=True),
        Column("expected score", lambda candidate: _score(candidate.cell.expected_score)),
        *against,
    )
    return table_of(shown, columns, canvas, dim=lambda row: not row.pilot.steps)


def _score(score: Interval) -> str:
    return interval(score.median, score.low, score.high)


def next_after(plan: StoredPlan, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    """Name the sweep where it runs as it stands; elsewhere what is to be trained on has to be filled in.

    A plan without pilots has no sweep: its first row is launched.
    """
    of_task = any(fact.what == "model" and fact.source.startswith("task ") for fact in plan.assumptions)
    piloted, champion = any(candidate.pilot.steps for candidate in plan.proposal.candidates), plan.proposal.champion
    verb, does = ("sweep", "runs the pilots") if piloted else ("launch", "runs row 1 against this forecast")
    if champion is not None:
        does = "starts it, looks, decides"
    if of_task:
        run = invocation.step(verb, plan.name, does)
    else:
        script = next((word for flag, word in pairwise(invocation.words) if flag == "--from"), None)
        of_script: Mapping[str, str] = {}
        if script is not None:
            from rlplan.actions.from_script import trained_on  # noqa: PLC0415 (reads what no other plan needs)

            of_script = trained_on(Path(script))
        trainer = of_script.get("trainer", "verl")
        with_it = f"--trainer {trainer}" if script is None or verb == "launch" else f"--from {shlex.quote(script)}"
        from_script = {} if verb == "launch" else of_script
        lacking = [f" {flag}" for key, flag in NEEDED_FOR_TRAINING.items() if key not in from_script]
        arguments = f"{plan.name} {with_it}{''.join(lacking)}"
        run = invocation.step(verb, arguments, does)
        if lacking:
            yield from canvas.lines(f"Run it: {run.command}")
            run = invocation.step("preview", plan.name, "simulates pilots" if champion else "simulates its pilots")
        if not piloted:
            run = invocation.step("launch", f"{plan.name} --print {trainer}", f"row 1 as {trainer}'s flags")
    further = [] if invocation.explain else [invocation.explained("what this rests on")]
    yield from next_steps([run, *further], canvas)
