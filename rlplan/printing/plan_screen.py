"""The first screen of a plan: what to do first, the best guess and how sure it is, and what to type next."""

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
from planner.axes import format_axes, value_of, values_by_axis
from planner.config.layers import DEFAULT
from planner.metrics import Interval
from planner.percent import percent
from planner.proposals import Candidate, Proposal
from planner.proposals.proposal import ChampionPlan
from rlplan.actions.calibrating import ADOPTED
from rlplan.actions.own_gpus import CLUSTER, THIS_MACHINE
from rlplan.actions.proposing import StoredPlan
from rlplan.printing.champion_screen import EXPLORING, against_champion, champion_lines, pilot_text
from rlplan.reading.plan_data import recipe_names
from rlplan.wording.assumptions import ASSUMED, GUESSED
from rlplan.wording.draw import Canvas, Column, Invocation, Part, next_steps, one_screen, table_of
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
from rlplan.wording.row_columns import axes_column

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
    for text in _answer(proposal):
        above += canvas.lines(text)
    above.append("")
    # Which facts that nobody gave matter most, and how far the price may be off.
    doubt, factor = proposal.doubt, math.exp(Z90 * proposal.run.cell.cost.log_sd)
    bought = f"{steps(doubt.fewest_steps)} to {steps(doubt.most_steps)} steps"
    known = f"A step's price is known within × {factor:.2g}: row {proposal.run.rank} gets {bought}."
    missing = []
    if any(each.what == "responses" and each.source.startswith("expected of") for each in plan.assumptions):
        missing.append("response length (--mean-response-tokens)")
    if not isinstance(proposal.request.workload.pass_rates, MeasuredPassRates | BetaPassRates):
        missing.append("pass rates (--pass-rates-file)")
    if any(each.what == "prompts" and each.source == DEFAULT for each in plan.assumptions):
        missing.append(f"{proposal.request.workload.prompt_set_size:,} prompts (--prompts)")
    missing += [row.value for row in plan.assumptions if row.what == GUESSED]
    if missing:
        known += f" Guessed: {', '.join(missing)}."
    workload, cost = proposal.request.workload, proposal.run.cell.cost
    if (cut := workload.under(proposal.request.traits).responses.truncated_share) > MOST_CUT:
        known += f" {percent(cut)} of responses are cut off."
    if any(each.what == "base pass rate" and each.source.startswith(ADOPTED) for each in plan.assumptions):
        known += f" Base pass rate {workload.pass_rates.mean:.2g}, from adopted runs."
    if saves := cost.seconds_by_phase.get(Phase.SAVE):
        known += f" Saves take {percent(saves / cost.step_seconds)} of the time."
    below: list[Part] = ["", *canvas.lines(known), *next_after(plan, invocation, canvas)]
    yield from one_screen(
        above, lambda rows: [candidates_table(proposal, _shown(proposal, rows), canvas)], below, canvas, top
    )


def _answer(proposal: Proposal) -> Iterator[str]:
    """Yield what to do first, and what to expect of it."""
    champion = proposal.champion
    if champion is not None:
        yield from (*champion_lines(proposal, champion), *deadline_lines(proposal))
        return
    yield from (_pilots(proposal), *_best_guess(proposal), standing_of(proposal), EXPLORING)


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
        "n": {each.cell.key[0] for each in piloted},
        "B": {each.cell.key[1] for each in piloted},
    }
    for name in values_by_axis(each.axes for each in piloted):  # a row without an axis has the plan's own value there
        differing[f"{name.replace('_', ' ')}s"] = {value_of(each.axes, name) for each in piloted}
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
    usual = {_sized(each): _against_first(each) for each in proposal.usual}
    if len(usual) == 1 and (near := _asked(proposal.usual[0])):
        against = f"row {proposal.usual[0].rank} (*), nearest to {near}, is {next(iter(usual.values()))}"
    elif len(set(usual.values())) == 1:
        names, verb = ("the usual choices", "are") if len(usual) > 1 else ("the usual choice", "is")
        against = f"{names} (*) {verb} {next(iter(usual.values()))}"
    else:
        against = "; ".join(f"the usual {name} is {stands}" for name, stands in usual.items())
    sizes = [each.cell.key for each in proposal.candidates]
    ends = [  # where row 1 is the last that the grid has: what lies beyond was not looked at
        f"{letter} = {own}"
        for place, (letter, own) in enumerate(zip("nB", sizes[0], strict=True))
        if own == max(size[place] for size in sizes) > min(size[place] for size in sizes)
    ]
    edge = f" {listing(ends)} {'is' if len(ends) == 1 else 'are'} the largest of the grid ([grid])." if ends else ""
    return f"{level or 'None'} of {count - 1} others {are} level with row 1; {against}.{edge}"


def _asked(candidate: Candidate) -> str | None:
    """Name the usual choice that a row is only the nearest to."""
    asked = candidate.standing.usual
    return f"n = {asked[0]}, B = {asked[1]}" if asked is not None and asked != candidate.cell.key else None


def _sized(candidate: Candidate) -> str:
    n, B = candidate.cell.key
    near = _asked(candidate)
    return f"n = {n}, B = {B}" + (f" (nearest to {near})" if near else "")


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
    usual = {each.rank for each in (proposal.usual if champion is None else (champion.row, champion.usual))}
    wanted = sorted(
        proposal.candidates, key=lambda each: (each.rank > 1, each.rank not in usual, not each.pilot.steps, each.rank)
    )
    return sorted(wanted[:rows], key=attrgetter("rank"))


def candidates_table(proposal: Proposal, shown: Sequence[Candidate], canvas: Canvas) -> Part:
    """Lay out the candidates, with how each stands against the champion, or the first."""
    champion = proposal.champion
    in_seconds = proposal.candidates[0].cell.cost.gpu_hours_per_step < SECONDS_BELOW
    columns: Sequence[Column[Candidate]] = (
        Column("#", lambda each: f"{'*' if _marked(each, champion) else ''}{each.rank}"),
        Column("n", attrgetter("cell.allocation.rollouts_per_prompt")),
        Column("B", attrgetter("cell.allocation.prompts_per_batch")),
        axes_column(shown),
        Column("steps", lambda each: steps(each.cell.allocation.update_steps)),
        Column(
            "GPU-s/step" if in_seconds else "GPU-h/step",
            lambda each: aligned_hours(each.cell.cost.gpu_hours_per_step * (3600 if in_seconds else 1)),
            gives_way=True,
        ),
        Column("signal", lambda each: percent(each.cell.signal_fraction), gives_way=True),
        Column("learning rate", lambda each: rate(each.learning_rate), gives_way=True),
        Column("expected score", lambda each: _score(each.cell.expected_score)),
        *(_of_exploring() if champion is None else _of_champion(champion)),
    )
    return table_of(shown, columns, canvas, dim=lambda each: not each.pilot.steps)


def _marked(candidate: Candidate, champion: ChampionPlan | None) -> bool:
    return bool(candidate.standing.usual) if champion is None else candidate is champion.row


def _of_exploring() -> Sequence[Column[Candidate]]:
    return (
        Column("against #1", partial(_against_first, in_words=False)),
        Column("pilot", lambda each: f"{steps(each.pilot.steps)} steps" if each.pilot.steps else "–"),
    )


def _of_champion(champion: ChampionPlan) -> Sequence[Column[Candidate]]:
    return (
        Column("against yours" if champion.given else "against *", lambda each: against_champion(each, champion)),
        Column("pilot", lambda each: pilot_text(each, champion)),
    )


def _score(score: Interval) -> str:
    return interval(score.median, score.low, score.high)


def next_after(plan: StoredPlan, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    """Name the sweep where it runs as it stands; elsewhere what is to be trained on has to be filled in.

    A plan without pilots has no sweep: its first row is launched.
    """
    given = any(each.what == "model" and each.source.startswith("task ") for each in plan.assumptions)
    piloted, champion = any(candidate.pilot.steps for candidate in plan.proposal.candidates), plan.proposal.champion
    verb, does = ("sweep", "runs the pilots") if piloted else ("launch", "runs row 1 against this forecast")
    if champion is not None:
        does = "starts it, looks, decides"
    if given:
        run = invocation.step(verb, plan.name, does)
    else:
        script = next((word for flag, word in pairwise(invocation.words) if flag == "--from"), None)
        of_script: Mapping[str, str] = {}
        if script is not None:
            from rlplan.actions.from_script import trained_on  # noqa: PLC0415 (reads what no other plan needs)

            of_script = trained_on(Path(script))
        trainer = of_script.get("trainer", "verl")
        with_it = f"--trainer {trainer}" if script is None or verb == "launch" else f"--from {shlex.quote(script)}"
        named = {} if verb == "launch" else of_script
        lacking = [f" {flag}" for key, flag in NEEDED_FOR_TRAINING.items() if key not in named]
        own = f"{plan.name} {with_it}{''.join(lacking)}"
        run = invocation.step(verb, own, does)
        if lacking:
            yield from canvas.lines(f"Run it: {run.command}")
            run = invocation.step("preview", plan.name, "simulates pilots" if champion else "simulates its pilots")
        if not piloted:
            run = invocation.step("launch", f"{plan.name} --print {trainer}", f"row 1 as {trainer}'s flags")
    further = [] if invocation.explain else [invocation.explained("what this rests on")]
    yield from next_steps([run, *further], canvas)
