"""What a proposal takes for granted, each with its value and where that comes from."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from budgets.allocation import LARGEST_SCALING_ROLLOUTS
from budgets.coefficients import Coefficients, shipped
from budgets.cost import Z90, step_cost
from budgets.expected_lengths import a_model, kind_of
from budgets.generation import DECODE_BANDWIDTH_USE
from budgets.hardware import SECONDS_PER_HOUR, Gpu
from budgets.lengths import InterruptedLengths
from budgets.signal import BetaPassRates, MeasuredPassRates
from budgets.training import TRAINING_FLOPS_USE
from budgets.workload import RecipeTraits, Workload
from planner.config.layers import DEFAULT, Resolved, collapse_single_values
from planner.config.request import counted_prompts, length_name, stated_facts
from planner.percent import percent
from planner.price import PriceQuery
from planner.price.open_facts import MEAN_RESPONSE, OpenFact, facts_of
from planner.proposals import PricedCell, Proposal, Request
from planner.rules import ALARM_SHARE
from rlplan.wording.numbers import count, duration, plural, rate
from rlplan.wording.screen import Cells, Column


@dataclass(frozen=True, slots=True)
class Assumption:
    """Something taken for granted: what, how much, and says who."""

    what: str
    value: str
    source: str


GUESSED = "guessed"  # what nobody gave and the price depends on
ASSUMED = "as few whole nodes"  # begins the source of a machine that nobody gave


def assumptions(proposal: Proposal, resolved: Resolved) -> list[Assumption]:
    """List what the proposal rests on, the most consequential first."""
    request, resolved = proposal.request, collapse_single_values(resolved)
    first = proposal.candidates[0].cell
    factor = math.exp(Z90 * first.cost.log_sd)
    evidence = dict.fromkeys(
        variant.coefficients.evidence for variant in request.all_variants if variant.coefficients.evidence
    )
    nearest, next_to_it, *others = (ground.study for ground in proposal.grounds)
    studies = f"{nearest}; {next_to_it}; {len(others)} more, by their distance"
    start_up = f"{first.cost.start_up_seconds:,.0f} s a trial, first validation included"
    facts = _facts(request, resolved, first)
    guessed = [] if evidence else [fact for fact in facts if fact.key != MEAN_RESPONSE][:1]
    every = proposal.run.cell.cost.save_every_seconds
    saves = None if every is None else f"one in {duration(every / SECONDS_PER_HOUR)}; training waits for it"
    workload, prompts = request.workload, resolved.source("workload.prompt_set_size")
    if counted_prompts(resolved, workload.pass_rates) is not None:
        prompts = "one a pass rate; if these are a sample, set prompt_set_size"
    return [
        _response(request, resolved, first),
        Assumption("cost of a step", *width_and_evidence(factor, "; ".join(evidence), request.hardware.gpu, facts)),
        *(Assumption(GUESSED, fact.named, f"decides the price within × {fact.factor:.2g}") for fact in guessed),
        _pass_rates(request, resolved),
        Assumption("expected score", "a prior with a wide interval, no forecast", studies),
        _hardware(proposal, resolved),
        _model(request, resolved),
        Assumption("prompts", f"{workload.prompt_set_size:,} of {workload.prompt_tokens:,.0f} tokens", prompts),
        _recipe(request, resolved),
        _learning_rate(request, resolved),
        _validation(request, resolved),
        *([] if saves is None else [Assumption("saves", saves, resolved.source("trainer.save_seconds"))]),
        Assumption("start-up", start_up, "assumed; see [gpus]"),
        _share(proposal, resolved),
    ]


def _facts(request: Request, resolved: Resolved, cell: PricedCell) -> list[OpenFact]:
    traits, coefficients = request.traits, request.coefficients
    query = PriceQuery(request.workload, request.hardware, traits, *cell.key, coefficients, cell.cost.placement)
    return facts_of(query, resolved.config.trainer.name, stated_facts(resolved))


def _share(proposal: Proposal, resolved: Resolved) -> Assumption:
    part, source = proposal.request.pilot_fraction, resolved.source("pilot.fraction")
    if proposal.champion is not None:
        source = "--alone" if resolved.config.proposal.alone else source
        return Assumption(
            "challengers", f"{percent(part)} of the budget at most, up to {percent(ALARM_SHARE)} after an alarm", source
        )
    return Assumption("pilot share", f"{percent(part)} of the budget", source)


def narrowing(facts: Sequence[OpenFact]) -> str:
    """Name the two facts that would narrow a price most, where any would."""
    return " and ".join(fact.named for fact in facts[:2])


def width_and_evidence(factor: float, evidence: str, gpu: Gpu, facts: Sequence[OpenFact] = ()) -> tuple[str, str]:
    """Say how far a price may be off, and whether this set-up's own steps or other people's tell so."""
    within = f"within a factor {factor:.2g} (90 %)"
    if evidence:
        return f"{within}, by steps of this set-up", f"calibrated by {evidence}"
    unmeasured = "not measured yet; steps of this set-up narrow it"
    if not gpu.one_process:
        inside, steps = shipped().held
        unmeasured += f" most, then {narrowing(facts)}" if facts else ""
        return f"{within}, as {inside} of {steps} strangers' steps were", unmeasured
    return (
        f"{within}: decoding reaches {percent(DECODE_BANDWIDTH_USE)} of the memory bandwidth, training "
        f"{percent(TRAINING_FLOPS_USE)} of the peak",
        unmeasured,
    )


def lengths_text(workload: Workload, traits: RecipeTraits) -> str:
    """Say how long responses are, and what a recipe's interruptions make of them."""
    lengths, shortened = workload.responses, workload.under(traits).responses
    text = f"{lengths.mean:,.0f} tokens on average, {lengths.cap:,} at most, {percent(lengths.truncated_share)} cut"
    if not isinstance(shortened, InterruptedLengths):
        return text
    return (
        f"{text}; with interruptions {shortened.mean:,.0f} on average, none cut and "
        f"{percent(shortened.interrupted_share)} made to answer before the end"
    )


def _response(request: Request, resolved: Resolved, cell: PricedCell) -> Assumption:
    value = lengths_text(request.workload, request.traits)
    source = resolved.source("workload.mean_response_tokens")
    if source != DEFAULT:
        return Assumption("responses", value, source)
    log_sd = request.coefficients.length_log_sd
    if request.coefficients.measured_lengths:
        return Assumption("responses", value, measured_lengths(request.coefficients))

    def price(times: float) -> float:
        workload = request.workload.with_mean_response(times * request.workload.responses.mean)
        terms = (workload, request.hardware, request.traits, *cell.key, request.coefficients)
        return step_cost(*terms, placement=cell.cost.placement).step_seconds

    config = resolved.config
    name = length_name((config.axes.models or [config.workload.model])[0], request.workload.model.name)
    kind = kind_of(name, thinking=not config.workload.no_thinking)
    return Assumption("responses", value, asked_for_lengths(kind, log_sd, price))


def measured_lengths(coefficients: Coefficients) -> str:
    """Say whose steps the mean response is from, and how well it is known."""
    return f"measured within × {math.exp(Z90 * coefficients.length_log_sd):.2g} (90 %): {coefficients.evidence}"


def asked_for_lengths(kind: str, log_sd: float, price: Callable[[float], float]) -> str:
    """Ask for the mean response, and say what not knowing it is worth, by the price of so many times as long ones."""
    factor = math.exp(Z90 * log_sd)
    worth = price(factor) / price(1 / factor)
    return (
        f"expected of {a_model(kind)} within × {factor:.2g} (90 %): give --mean-response-tokens, it decides the price "
        f"by a factor of {worth:.2g}"
    )


def _pass_rates(request: Request, resolved: Resolved) -> Assumption:
    rates = request.workload.pass_rates
    if isinstance(rates, MeasuredPassRates):
        return Assumption(
            "base pass rate",
            f"{rates.mean:.3g} over {len(rates.rates):,} prompts",
            ", ".join(["measured, your file", *([rates.read_as] if rates.read_as else [])]),
        )
    if isinstance(rates, BetaPassRates):
        right = rates.mean * rates.concentration
        spread = f"prompts spread around it (Beta {right:.3g}, {rates.concentration - right:.3g})"
        return Assumption(
            "base pass rate", f"{rates.mean:.3g} on average, {spread}", resolved.source("workload.pass_rate")
        )
    source = resolved.source("workload.difficulty")
    return Assumption("base pass rate", f"{rates.mean:.3g} on average ({request.difficulty} problems)", source)


def _hardware(proposal: Proposal, resolved: Resolved) -> Assumption:
    hardware = proposal.request.hardware
    share = "all for one trial" if hardware.parallel_trials == 1 else f"{hardware.gpus_per_trial} a trial"
    if proposal.pilot_gpu_hours and (each := proposal.request.pilots.gpus) != hardware.gpus_per_trial:
        share = f"{share.replace('one trial', 'the final run').replace('a trial', 'for the final run')}, {each} a pilot"
    source = resolved.source("hardware.gpus")
    if source == DEFAULT:
        source = f"{ASSUMED} as end the budget in time, a week without --within"
    if proposal.request.chooses_gpus and hardware.gpus > 1:
        source += "; how they are shared was chosen"
    return Assumption("hardware", f"{hardware.gpus} {hardware.gpu.name}, {share}", source)


def _model(request: Request, resolved: Resolved) -> Assumption:
    models = {variant.workload.model for variant in request.all_variants}
    labels = [
        f"{model.name}, {count(model.parameters)} parameters"
        + (f" ({model.approximated})" if model.approximated else "")
        for model in sorted(models, key=attrgetter("name"))
    ]
    if len(labels) == 1:
        return Assumption("model", labels[0], resolved.source("workload.model"))
    states_lengths = resolved.source("workload.mean_response_tokens") != DEFAULT
    alike = f"{'lengths and ' if states_lengths else ''}pass rates are taken to be the same"
    return Assumption("models", f"{'; '.join(labels)}; {alike}", resolved.source("axes.models"))


def _recipe(request: Request, resolved: Resolved) -> Assumption:
    recipes = {variant.traits.name: _traits(variant.traits) for variant in request.all_variants}
    value = "; ".join(f"{name} ({parts})" for name, parts in recipes.items())
    if len(recipes) > 1:
        return Assumption("recipes", value, resolved.source("axes.recipes"))
    if request.other_recipes and request.pilots.fraction:
        value += f"; row 1 also with {', '.join(recipe.name for recipe in request.other_recipes)}"
    return Assumption("recipe", value, resolved.source("recipe.name"))


def _traits(traits: RecipeTraits) -> str:
    parts = ["asynchronous" if traits.asynchronous else "synchronous"]
    parts += ["KL term"] if traits.reference_pass else []
    parts += ["refills groups"] if traits.refills_groups else []
    parts += traits.execution.deviations()
    return ", ".join(parts)


def _learning_rate(request: Request, resolved: Resolved) -> Assumption:
    rule = request.learning_rate
    value, source = (
        f"{rate(rule.base)} · √(n·B / {rule.base_rollouts:,}), flat above {LARGEST_SCALING_ROLLOUTS:,}",
        resolved.source("recipe.learning_rate"),
    )
    if request.other_rates and request.pilots.fraction and request.champion is None:
        value += f"; row 1 also at {', '.join(f'{factor:g}' for factor in request.other_rates)} times it"
    factors = sorted({variant.learning_rate_factor for variant in request.all_variants})
    if len(factors) > 1:
        value += f", times {', '.join(f'{factor:g}' for factor in factors)}"
        source = resolved.source("axes.learning_rates")
    if request.learning_rate_range is not None:
        low, high = request.learning_rate_range
        value += f", times {low:g} to {high:g}, to be searched"
        source = resolved.source("axes.learning_rate_range")
    return Assumption("learning rate", value, source)


def _validation(request: Request, resolved: Resolved) -> Assumption:
    validation = request.workload.validation
    steps, rollouts = validation.steps_between(1, request.traits.updates_per_batch), validation.every_rollouts
    apart, source = (
        (f"{steps} steps", "every_steps") if rollouts is None else (f"{rollouts:,} rollouts", "every_rollouts")
    )
    value = f"{plural(validation.problems, 'problem')} × {plural(validation.samples, 'answer')} every {apart}"
    return Assumption("validation", value, resolved.source(f"validation.{source}"))


ASSUMPTIONS: Sequence[Column[Assumption]] = (
    Column("what", lambda fact: fact.what, Cells.NAMES),
    Column("value", lambda fact: fact.value, Cells.TEXTS),
    Column("source", lambda fact: fact.source, Cells.TEXTS, gives_way=True),
)
