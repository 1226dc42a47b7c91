"""From a checked configuration to the objects that a proposal works with."""

import math
from collections.abc import Iterable
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

from budgets import catalogue
from budgets.allocation import Allocation
from budgets.coefficients import RECOMPUTING, Coefficients, prior
from budgets.errors import ConfigError, InputError, UnknownNameError
from budgets.expected_lengths import GIVEN_LOG_SD, ExpectedLength, expected_length
from budgets.growth import NONE, Growth
from budgets.hardware import LARGEST_BUDGET_GPU_HOURS, Gpu, Hardware
from budgets.lengths import ResponseLengths
from budgets.memory import fewest_gpus, require_fit
from budgets.signal import DIFFICULTIES, BetaPassRates, MeasuredPassRates, PassRates, difficulty_of
from budgets.workload import TOOL_SECONDS, RecipeTraits, Turns, Validation, Workload
from planner.axes import GROWTH, LEARNING_RATE, MODEL, RECIPE
from planner.config.cost import execution_of
from planner.config.layers import DEFAULT, Resolved, collapse_single_values, has_axes, require_distinct
from planner.config.pass_rates import read_pass_rates
from planner.config.schema import Config, named_hours, named_sizes
from planner.config.trainer import BUILTIN
from planner.price.open_facts import FACTS, opened
from planner.price.step import PriceQuery
from planner.proposals import LearningRateRule, Request, Variant
from planner.proposals.request import TRIED_RATES, TRIED_RECIPES, ChampionChoice
from planner.recipes import Recipe, load_recipe
from planner.rules import CHALLENGER_SHARE, PATIENCE_HOURS, USUAL, PilotRules

DEFAULT_DIFFICULTY = "easy"
NEAR_RATE = 1.0  # octaves: published rates are up to four times the rule's, half of them within two
SCRIPT = "--from "  # begins the source of what a script says of n and B
OF_SWEEPS = ("cluster", "slurm", "storage")  # where a sweep runs and keeps its copies is no matter of the plan


def build_request(resolved: Resolved) -> Request:
    """Look up every name, check that the workload fits the hardware, and return the request."""
    config = collapse_single_values(resolved).config
    gpu = _gpu(config)
    budget, dollars = config.budget.gpu_hours, config.budget.dollars
    if dollars is not None:
        if not gpu.dollars_per_hour:
            raise InputError(
                f"{{budget}}: a GPU-hour of {gpu.name} has no price: give GPU-hours", budget=f"${dollars:,.10g}"
            )
        budget = min(LARGEST_BUDGET_GPU_HOURS, dollars / gpu.dollars_per_hour)
    if budget is None:
        example = 0.03 if config.hardware.gpu == "cpu" else 5000
        raise InputError("no budget given: say how many GPU-hours there are, such as {budget}", budget=f"{example:g}")
    difficulty, pass_rates = difficulty_and_rates(config)
    if (counted := counted_prompts(resolved, pass_rates)) is not None:
        counting = config.workload.model_copy(update={"prompt_set_size": counted})
        config = config.model_copy(update={"workload": counting})
    variants = _variants(config, pass_rates, gpu)
    hardware = _hardware(config, gpu, [(variant.workload, variant.traits) for variant in variants], budget)
    variants = tuple(_as_known(resolved, variant, hardware) for variant in variants)
    known_gpus = [catalogue.gpu(name, config.gpus) for name in (*catalogue.names("gpus"), *config.gpus)]
    for variant in variants:
        require_fit(variant.workload, variant.traits, hardware, known_gpus)
    # The first row is tried at other rates too, unless anybody gave a rate or further axes.
    rate_is_set = resolved.source("recipe.learning_rate") != DEFAULT
    other_rates = () if rate_is_set or has_axes(resolved.config.axes) else TRIED_RATES
    searched = config.axes.learning_rate_range
    rule = LearningRateRule(config.recipe.learning_rate, config.recipe.learning_rate_rollouts)
    champion, rule = _with_rate(_champion(resolved), rule, config)
    # Other recipes are tried with the first row too, unless anybody gave one, a rate or axes.
    tried = TRIED_RECIPES if other_rates and resolved.source("recipe.name") == DEFAULT else ()
    return Request(
        budget_gpu_hours=budget,
        workload=variants[0].workload,
        hardware=hardware,
        traits=variants[0].traits,
        difficulty=difficulty,
        learning_rate=rule,
        grid=config.grid,
        pilots=config.pilot if champion is None else _challenger_rules(resolved),
        coefficients=variants[0].coefficients,
        variants=variants if len(variants) > 1 or variants[0].axes else (),
        other_rates=other_rates,
        other_recipes=tuple(_as_trained(resolved.config, load_recipe(name)) for name in tried),
        usual=_baselines(resolved),
        learning_rate_range=(searched[0], searched[1]) if searched else None,
        whole_nodes=not config.hardware.count_busy_only,
        chooses_gpus=config.hardware.gpus_per_trial is None and not hardware.gpu.one_process,
        within_hours=None if config.budget.within is None else named_hours(config.budget.within),
        champion=champion,
    )


def _champion(resolved: Resolved) -> ChampionChoice | None:
    """Return which n and B are trained first; None where the grid is explored, as a searched learning rate does it."""
    choice = resolved.config.proposal
    if choice.explore and (choice.alone or choice.advised):
        other = "alone" if choice.alone else "advised"
        raise InputError(f"{{explore}} has no champion: leave out {{{other}}}", explore=None, **{other: None})
    if choice.explore or resolved.config.axes.learning_rate_range is not None:
        return None
    source = resolved.source("proposal.baseline")
    if choice.advised or source == DEFAULT:
        return ChampionChoice(USUAL[0], "advised" if choice.advised else "usual")
    return ChampionChoice(_baselines(resolved)[0], "script" if source.startswith(SCRIPT) else "flag")


def _baselines(resolved: Resolved) -> tuple[tuple[int, int], ...]:
    """Return each n and B of the baseline, B of an update: who types one has the prompts of a batch in mind."""
    sizes, source = named_sizes(resolved.config.proposal.baseline), resolved.source("proposal.baseline")
    if source == DEFAULT or source.startswith((SCRIPT, "task ")):
        return sizes
    traits = recipe_traits(resolved.config)
    return tuple((n, traits.prompts_of_update(B)) for n, B in sizes)


def _with_rate(
    champion: ChampionChoice | None, rule: LearningRateRule, config: Config
) -> tuple[ChampionChoice | None, LearningRateRule]:
    """Return the champion with its own learning rate, and the rule.

    A rate that is near the rule's is what all others scale by; one that is far is an axis of the champion's own.
    """
    rate = config.proposal.learning_rate
    if champion is None or rate is None or not champion.given:
        return champion, rule
    n, B = champion.sizes
    factor = rate / Allocation(n, B, 1).learning_rate(rule.base, rule.base_rollouts)
    if has_axes(config.axes) or abs(math.log2(factor)) <= NEAR_RATE:
        return champion, LearningRateRule(rate, n * B)
    return replace(champion, rate_factor=float(f"{factor:.6g}")), rule


def _challenger_rules(resolved: Resolved) -> PilotRules:
    """Return the pilots' rules with the challengers' share; that of a task is for who explores."""
    rules, source = resolved.config.pilot, resolved.source("pilot.fraction")
    fraction = None if source == DEFAULT or source.startswith("task ") else rules.fraction
    if resolved.config.proposal.alone:
        if fraction:
            raise InputError("{alone} and {pilot_fraction}: leave one of them out", alone=None, pilot_fraction=fraction)
        fraction = 0.0
    return rules.model_copy(update={"fraction": CHALLENGER_SHARE if fraction is None else fraction})


def build_step(resolved: Resolved) -> tuple[Workload, Hardware, RecipeTraits, Coefficients]:
    """Return what a step's price depends on beside n and B; a budget is not needed."""
    config = collapse_single_values(resolved).config
    _, pass_rates = difficulty_and_rates(config)
    model_name, gpu, traits = config.workload.model, _gpu(config), recipe_traits(config)
    workload = _workload(config, pass_rates, model_name)
    hardware = _hardware(config, gpu, [(workload, traits)])
    coefficients = _known(config, workload, model_name, gpu)
    return (
        workload,
        hardware,
        traits,
        _opened(resolved, PriceQuery(workload, hardware, traits, *USUAL[0], coefficients)),
    )


def length_name(configured: str, shape: str) -> str:
    """Return the name that says how long responses are: 'Qwen/Qwen2.5-7B-Instruct' has the shape of a base model."""
    return configured if shape in catalogue.names("models") else shape


def _gpu(config: Config) -> Gpu:
    gpu, per_node = catalogue.gpu(config.hardware.gpu, config.gpus), config.hardware.gpus_per_node
    return gpu if per_node is None else replace(gpu, gpus_per_node=per_node)


def _hardware(config: Config, gpu: Gpu, runs: Iterable[tuple[Workload, RecipeTraits]], budget: float = 0.0) -> Hardware:
    """Return the machine; nodes that nobody gives are as few as fit all runs and end the budget in time."""
    gpus, per_trial = config.hardware.gpus, config.hardware.gpus_per_trial
    if gpus is None:
        fits = [fewest for workload, traits in runs if (fewest := fewest_gpus(workload, traits, gpu)) is not None]
        hours = PATIENCE_HOURS if config.budget.within is None else named_hours(config.budget.within)
        least = max(per_trial or 1, budget / hours, *fits)
        gpus = gpu.gpus_per_node * 2 ** max(0, math.ceil(math.log2(least / gpu.gpus_per_node)))
    return Hardware(gpu, gpus, per_trial or gpus)


def _variants(config: Config, pass_rates: PassRates, gpu: Gpu) -> tuple[Variant, ...]:
    """Return every combination of a model, a recipe, a growth and a learning rate; one where each has one value.

    A growing batch is priced as if it were full from the start: its run then takes no more than it was given.
    """
    axes = config.axes
    models = [(_workload(config, pass_rates, name), name) for name in axes.models or [config.workload.model]]
    shapes = {label: workload.model.name for workload, label in models}
    recipes = {label: _as_trained(config, load_recipe(label)) for label in axes.recipes or ()}
    # Those that are called alike could not be told apart later.
    require_distinct("axes.models", list(axes.models or ()), shapes.__getitem__)
    require_distinct("axes.recipes", list(axes.recipes or ()), lambda label: recipes[label].name)
    traits = list(recipes.values()) or [recipe_traits(config)]
    growths = [growth.name if (growth := Growth.named(growth_name)) else NONE for growth_name in axes.growths or ()]
    require_distinct("axes.growths", growths, str)
    growing: list[str | None] = [None] if growths in ([], [NONE]) else [*growths]
    # Of what is priced alike the rule's own rate comes first.
    factors = sorted(axes.learning_rates or [1.0], key=lambda factor: (abs(math.log(factor)), factor))
    return tuple(
        Variant(
            axes=(
                *(((RECIPE, recipe.name),) if len(traits) > 1 else ()),
                *(((MODEL, workload.model.name),) if len(models) > 1 else ()),
                *(((GROWTH, growth),) if growth is not None else ()),
                *(((LEARNING_RATE, factor),) if len(factors) > 1 else ()),
            ),
            workload=workload,
            traits=recipe,
            learning_rate_factor=factor,
            coefficients=_known(config, workload, model_name, gpu),
        )
        for (workload, model_name), recipe, growth, factor in product(models, traits, growing, factors)
    )


def difficulty_and_rates(config: Config) -> tuple[str, PassRates]:
    """Return the difficulty's name and the spread of pass rates, from whichever of the three was given."""
    section = config.workload
    if section.pass_rate is not None and section.pass_rates_file is not None:
        raise ConfigError(
            f"workload.pass_rate ({section.pass_rate}) and workload.pass_rates_file ({section.pass_rates_file}) are "
            "both given: they say the same thing twice, keep the file"
        )
    if section.pass_rates_file is not None:
        rates = read_pass_rates(Path(section.pass_rates_file))
        return section.difficulty or difficulty_of(rates.rates), rates
    if section.pass_rate is not None:
        return section.difficulty or difficulty_of(section.pass_rate), BetaPassRates(section.pass_rate)
    name = section.difficulty or DEFAULT_DIFFICULTY
    if name not in DIFFICULTIES:
        raise UnknownNameError("difficulty", name, DIFFICULTIES)
    return name, DIFFICULTIES[name]


def counted_prompts(resolved: Resolved, rates: PassRates) -> int | None:
    """Return how many prompts have a measured rate, where nobody says how many there are; else None."""
    explicit = resolved.source("workload.prompt_set_size") != DEFAULT
    return None if explicit or not isinstance(rates, MeasuredPassRates) else len(rates.rates)


def recipe_traits(config: Config) -> RecipeTraits:
    """Return what costs in the named recipe."""
    return _as_trained(config, load_recipe(config.recipe.name))


def _as_trained(config: Config, recipe: Recipe) -> RecipeTraits:
    """Return what the recipe costs with its trainer: some score each rollout once more, and ours alone interrupts."""
    trainer, traits = config.trainer.name, recipe.traits(config.workload.task)
    gpu = catalogue.gpu(config.hardware.gpu, config.gpus)
    execution = execution_of(config.cost, trainer, gpu, config.trainer.save_seconds)
    traits = traits if trainer == BUILTIN else traits.uninterrupted
    return replace(traits, old_log_probs=trainer in RECOMPUTING, execution=execution)


def resolved_values(request: Request, resolved: Resolved) -> dict[str, Any]:
    """Return the configuration as it counts, with every name that was left open filled in."""
    counts = collapse_single_values(resolved)
    values: dict[str, Any] = counts.config.model_dump(mode="json")
    for section in OF_SWEEPS:
        del values[section]
    if not has_axes(counts.config.axes):
        del values["axes"]
    if counts.config.trainer.name == BUILTIN:
        del values["trainer"]
    if not any(key.startswith("task.") for key in counts.sources):
        del values["task"]
    values["workload"]["prompt_set_size"] = request.workload.prompt_set_size
    values["hardware"]["gpus"] = request.hardware.gpus
    values["budget"] |= {"gpu_hours": request.budget_gpu_hours, "dollars": None}
    values["hardware"]["gpus_per_trial"] = request.hardware.gpus_per_trial
    values["recipe_traits"] = asdict(request.traits)
    values["sources"] = {key: source for key, source in counts.sources.items() if key.split(".")[0] not in OF_SWEEPS}
    return values


def _workload(config: Config, pass_rates: PassRates, model: str) -> Workload:
    section, shape = config.workload, catalogue.model(model, config.models)
    cap, name = section.response_tokens, length_name(model, shape.name)
    mean = section.mean_response_tokens or _expected(config, name, pass_rates.mean).mean
    return Workload(
        model=shape,
        prompt_tokens=section.prompt_tokens + section.image_tokens,
        image_tokens=section.image_tokens,
        responses=ResponseLengths(mean, cap, section.response_spread),
        prompt_set_size=section.prompt_set_size,
        pass_rates=pass_rates,
        validation=Validation(**config.validation.model_dump(exclude={"metric", "metric_k"})),
        turns=_turns(config),
    )


def _expected(config: Config, model: str, pass_rate: float) -> ExpectedLength:
    """Return the mean response that is expected where nobody gives it."""
    section = config.workload
    cap, thinking = section.response_tokens, not section.no_thinking
    return expected_length(model, cap, pass_rate, turns=_turns(config), thinking=thinking)


def _turns(config: Config) -> Turns:
    section = config.workload
    count = section.turns or max(1.0, catalogue.table("lengths")["turns"]["share"] * section.most_turns)
    assumed = TOOL_SECONDS if count > 1 else 0.0
    return Turns(
        count,
        assumed if section.tool_seconds is None else section.tool_seconds,
        section.tool_tokens,
        section.environments,
        config.cost.prefix_caching,
        section.most_turns,
        section.turn_tokens,
    )


def _as_known(resolved: Resolved, variant: Variant, hardware: Hardware) -> Variant:
    query = PriceQuery(variant.workload, hardware, variant.traits, *USUAL[0], variant.coefficients)
    return replace(variant, coefficients=_opened(resolved, query))


def _opened(resolved: Resolved, query: PriceQuery) -> Coefficients:
    """Return what is known of a price, as unsure as the facts that nobody gave leave it."""
    needed = fewest_gpus(query.workload, query.traits, query.hardware.gpu)
    if needed is None or needed > query.hardware.gpus_per_trial:
        return query.coefficients
    return opened(query, resolved.config.trainer.name, stated_facts(resolved))


def stated_facts(resolved: Resolved) -> frozenset[str]:
    """Return the keys of facts that somebody gave."""
    return frozenset(key for key in FACTS if resolved.source(key) != DEFAULT)


def _known(config: Config, workload: Workload, model: str, gpu: Gpu) -> Coefficients:
    """Return the coefficients before anything is measured here, with the mean response as well as it is known."""
    expected = _expected(config, length_name(model, workload.model.name), workload.pass_rates.mean)
    sd = GIVEN_LOG_SD if config.workload.mean_response_tokens else expected.log_sd
    return replace(prior(gpu, config.trainer.name), length_log_sd=sd)
