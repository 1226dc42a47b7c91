"""From a stored plan to a sweep: its settings, which trials there are, and what a worker occupies."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from budgets import catalogue
from budgets.errors import BudgetError, InputError
from planner.axes import RECIPE, suffix, text_of
from planner.config.layers import DEFAULT
from planner.config.trainer import COMMAND, TrainerChoice, chosen_trainer, is_service
from planner.policy.champion import KEY, champion_of, most_of_a_sweep
from planner.store.schema import Candidate, Plan, Trial
from planner.tables import Section, explained
from planner.view import CHAMPION_POLICY, EXPLORING_POLICY, Axes, Configuration
from runner.ports.trial import TrialConfig
from runner.sweep.common import training_of
from runner.sweep.plan_rows import (
    CPU,
    compared_models,
    configuration_of,
    nodes_of,
    pilot_gpus,
    rate_of,
    row_of,
    tried_recipes,
)
from runner.sweep.spec import Resources, SweepSpec, cell_name
from runner.sweep.stand_in import in_its_own_time
from runner.tasks.tokenizers import is_hub_name
from runner.trainers.catalogue import driver_of
from runner.trainers.driver import Reaching

if TYPE_CHECKING:
    from runner.trainers.script import Script

MOST_GPUS_OF_A_TRIAL = 1  # the trainer of this package is one process


AnyPath = Annotated[Path, Field(strict=False)]
Text = Annotated[str, BeforeValidator(lambda text: str(text) if isinstance(text, Path) else text)]


TRIES_OUT, SAME_SIZE = 0.01, 0.02  # of the weights that a plan is priced for


class SweepChoice(Section):
    """How a plan is to be run, and what it does not say about the training; None stands for what was not given."""

    policy: str | None = None  # the champion's where the plan has one, else rlplan
    search: str | None = None
    seed: int = 0
    workers: int | None = None
    folder: AnyPath | None = None
    storage: str | None = None
    retries: int = 3
    problems: Text | None = None
    model: Text | None = None
    reward: str | None = None
    validation: Text | None = None
    engine: str | None = None
    device: str | None = None
    weights: str | None = None
    micro_batch_tokens: int | None = None
    simulation: dict[str, Any] | None = None  # a world to train in instead of a trainer
    trainer: Text | None = None  # a name, or a file that describes one
    script: AnyPath | None = None  # that starts verl, of which what the plan does not decide is kept
    approximate: bool = False  # whether it may train a recipe otherwise than it says
    only: int | None = None  # the rank of the plan's one row that is trained, in full and without pilots


def sweep_spec(plan: Plan, choice: SweepChoice) -> SweepSpec:
    """Return the settings of a sweep of the plan; InputError when it cannot be run as it was planned."""
    choice = choice.model_copy(update={"policy": _policy(plan, choice)})
    if choice.only is None and choice.policy != CHAMPION_POLICY:
        _require_pilots(plan)
    _require_applicable(plan)
    planned = str(plan.config["workload"].get("model"))  # counts where nobody names another and it can be loaded
    if not (choice.model or compared_models(plan)) and (is_hub_name(planned) or Path(planned).expanduser().is_dir()):
        choice = choice.model_copy(update={"model": planned})
    script: Script | None = None
    if choice.script is not None:
        from runner.trainers.script import read_script  # noqa: PLC0415  (reads what no other sweep needs)

        script = read_script(choice.script)
    table = plan.config.get("trainer")
    name = choice.trainer or (script.trainer if script is not None and not table else None)
    configured = chosen_trainer(name, table, approximate=choice.approximate)
    trainer = configured if script is None else script.onto(configured)
    if trainer is not None and trainer.save_seconds is None:  # as rarely as the plan has priced it
        trainer = trainer.model_copy(update={"save_seconds": plan.hardware.get("save_every_seconds")})
    if trainer is None and choice.simulation is None:
        _require_builtin_can(plan)
    try:
        spec = SweepSpec.model_validate(_settings(plan, choice, trainer))
    except ValidationError as error:
        raise explained(
            error, SweepSpec, {"workers": "--workers", "retries": "--retries", "seed": "--seed"}, "the plan"
        ) from error
    if script is not None:
        spec = _left_open(spec, plan, script, configured, choice.only)
    spec = in_its_own_time(spec, plan.candidates)
    spec = _without_untrainable(spec, plan) if choice.only is None else spec
    _require_trainable(spec, plan, only=choice.only)
    for config, _ in [*_kinds(spec, plan, choice.only)][:1] if trainer else ():
        if isinstance(driver := driver_of(config), Reaching):
            driver.reach(config)
    if choice.model is not None and not compared_models(plan):
        _require_planned_model(plan, Path(choice.model).expanduser())
    return spec


def _require_planned_model(plan: Plan, folder: Path) -> None:
    """Refuse a folder of another model than the plan is priced for; one a hundred times smaller only tries it out."""
    planned = plan.workload.get("parameters")
    if not planned or not (folder / "config.json").is_file():
        return
    try:
        has = catalogue.model(str(folder)).parameters
    except InputError:  # a shape that is not known here: the trainer loads it or says why not
        return
    if has >= TRIES_OUT * planned and abs(has / planned - 1) > SAME_SIZE:
        raise InputError(
            f"--model {folder}: it has {has / 1e9:.3g} billion weights, and {plan.name} is priced for "
            f"{plan.workload['model']} with {planned / 1e9:.3g}. Plan for it: rlplan propose --budget "
            f"{plan.budget_gpu_hours:g} --model {folder}"
        )


def _policy(plan: Plan, choice: SweepChoice) -> str:
    """Return the policy of a sweep: the one that is named, else by whether the plan has a champion."""
    has_champion = KEY in plan.config and choice.only is None
    if choice.policy == CHAMPION_POLICY and not has_champion:
        raise InputError(f"--policy {choice.policy}: {plan.name} explores its whole grid and has no champion")
    return choice.policy or (CHAMPION_POLICY if has_champion else EXPLORING_POLICY)


def _require_builtin_can(plan: Plan) -> None:
    """Refuse what the trainer of this package does not do."""
    gpu, per_trial = plan.hardware["gpu"], int(plan.hardware["gpus_per_trial"])
    if gpu != CPU and per_trial > MOST_GPUS_OF_A_TRIAL:
        raise InputError(
            f"{plan.name} gives each trial {per_trial} {gpu}, and the trainer of rlplan uses one: name "
            "another by --trainer, or make a plan with --gpus-per-trial 1"
        )
    if plan.config.get("cost", {}).get("lora_rank"):
        raise InputError("[cost] lora_rank: the trainer of rlplan trains all weights: name another by --trainer")


def _settings(plan: Plan, choice: SweepChoice, trainer: TrainerChoice | None) -> dict[str, Any]:
    """Return a sweep's settings as SweepSpec has them, not yet checked."""
    hardware, on_cpu = plan.hardware, plan.hardware["gpu"] == CPU
    per_trial, per_pilot = int(hardware["gpus_per_trial"]), pilot_gpus(plan)
    # A person may have chosen the part of the budget that is for pilots; otherwise the sweep may stop earlier.
    source = str(plan.config.get("sources", {}).get("pilot.fraction", DEFAULT))
    rest_to_final = choice.only is None and (source == DEFAULT or source.startswith("task "))
    trained = choice.simulation is None  # a simulated trial has saved nothing
    money = {
        "pilot_gpu_hours": plan.pilot_gpu_hours if choice.only is None else 0.0,
        "target_gpu_hours": plan.final_gpu_hours,
    }
    if choice.policy == CHAMPION_POLICY:
        rest_to_final, trained = True, True
        money = _money_of_champion(plan)
    folder = choice.folder or Path("rlplan-sweeps")
    # The split of the GPUs that each row is priced for; nothing of those that do all in turn.
    shares = zip(plan.candidates, plan.hardware.get("training_shares", ()), strict=False)
    return {
        **choice.model_dump(include={"policy", "search", "seed", "retries"}),
        **money,
        "rest_to_final": rest_to_final,
        "continues_pilot": rest_to_final and trained and per_trial == per_pilot,
        "workers": int(hardware["gpus"]) // per_pilot if choice.workers is None else choice.workers,
        "learning_rate_range": plan.config.get("axes", {}).get("learning_rate_range"),
        "folder": str(folder.expanduser().absolute()),
        "storage": choice.storage,
        "resources": Resources(
            gpu=hardware["gpu"],
            slots=per_pilot,
            cpus=float(per_pilot if on_cpu else 1),
            gpus=0.0 if on_cpu or is_service(trainer) else per_pilot,
        ).model_dump(),
        "final_gpus": None if per_trial == per_pilot else per_trial,
        "final_nodes": 1 if per_trial == per_pilot else nodes_of(plan, per_trial),
        "training_shares": {cell_name(configuration_of(row)): share for row, share in shares if share is not None},
        "training": training_of(plan, choice, trainer, on_cpu=on_cpu).model_dump(),
    }


def _money_of_champion(plan: Plan) -> dict[str, Any]:
    """Return what a sweep of a plan with a champion may spend, and what its final run has with that."""
    total = plan.pilot_gpu_hours + plan.final_gpu_hours
    champion = champion_of(plan.config, total)
    assert champion is not None, "the plan has one"
    for configuration in champion.candidates:
        row_of(plan, configuration)  # refuses what is none of its rows
    return {"champion": plan.config[KEY], "pilot_gpu_hours": most_of_a_sweep(champion), "target_gpu_hours": total}


def _require_applicable(plan: Plan) -> None:
    """Refuse what of a plan for this package's own trainer counts for others alone."""
    others = ("trainer.patience", "trainer.save_", "trainer.environment", "trainer.secrets")
    keys = [key for key in plan.config.get("sources", {}) if key.startswith(others)]
    if keys and "trainer" not in plan.config:
        raise InputError(
            f"{keys[0]} counts for another trainer than rlplan's own, which keeps to its defaults, and {plan.name} is "
            "for that: leave it out, or give [trainer] a name, and propose again"
        )


def _without_untrainable(spec: SweepSpec, plan: Plan) -> SweepSpec:
    """Return the settings without the recipes that are tried beside the plan's where the trainer cannot do them."""
    for name in tried_recipes(plan) if spec.training.trainer else ():
        recipes = {other: recipe for other, recipe in spec.training.recipes.items() if other != name}
        try:
            _require_trainable(spec, plan, alone=name)
        except InputError:
            training = spec.training.model_copy(update={"recipes": recipes if len(recipes) > 1 else {}})
            spec = spec.model_copy(update={"training": training})
    return spec


def _require_trainable(spec: SweepSpec, plan: Plan, alone: str | None = None, only: int | None = None) -> None:
    """Have the trainer look at every kind of trial of the plan, `alone` at those of one recipe, `only` at one row."""
    training = spec.training
    if training.trainer is not None and training.trainer.name == COMMAND:
        for axis, values in (("recipe", training.recipes), ("model", training.models)):
            if len(values) > 1 and f"{{{axis}" not in f"{training.trainer.options} {training.trainer.environment}":
                raise InputError(
                    f"{plan.name} compares {axis}s ({', '.join(values)}), and the trainer's command names no "
                    f"{{{axis}}}: it would train the same for all; name it, or make a plan of one {axis}"
                )
    for config, row in _kinds(spec, plan, only) if spec.training.trainer else ():
        if alone in (None, text_of(row.axes, RECIPE)):
            try:
                driver_of(config).check(config)
            except InputError as error:
                name = trial_name(configuration_of(row), spec.seed)
                raise type(error)(f"{plan.name}, {name}: {error}") from error


def _kinds(spec: SweepSpec, plan: Plan, only: int | None = None) -> Iterator[tuple[TrialConfig, Candidate]]:
    """Yield every kind of trial of the plan, or one row's, with its candidate."""
    rows = piloted(spec, plan) if only is None else [row for row in plan.candidates if row.rank == only]
    for row in rows:
        if spec.trains(row.axes):
            yield spec.trial(configuration_of(row), row.learning_rate, spec.seed), row


def _left_open(
    spec: SweepSpec, plan: Plan, script: "Script", configured: TrainerChoice | None, only: int | None
) -> SweepSpec:
    """Return the sweep with those of a script's settings that the plan leaves open in every trial."""
    from runner.trainers.keys import DecidedError  # noqa: PLC0415
    from runner.trainers.script import require_known, without  # noqa: PLC0415

    assert spec.training.trainer is not None
    assert configured is not None
    trainer = spec.training.trainer
    settings, own_settings = dict(trainer.options["settings"]), configured.options.get("settings", {})
    for config, _ in _kinds(spec, plan, only):
        with suppress(InputError):  # any other is told of by the trial itself
            try:
                tried = trainer.model_copy(update={"options": {**trainer.options, "settings": settings}})
                alike = config.model_copy(update={"trainer": tried})
                driver_of(alike).check(alike)
            except DecidedError as error:
                settings = without(settings, error.keys, own_settings)
    require_known(script, settings)
    made = trainer.model_copy(update={"options": {**trainer.options, "settings": settings}})
    return spec.model_copy(update={"training": spec.training.model_copy(update={"trainer": made})})


def _require_pilots(plan: Plan) -> None:
    """Refuse a plan whose whole budget is for the final run, and say how to run that, or to have pilots."""
    if any(row.pilot_steps for row in plan.candidates):
        return
    launch = f"`rlplan launch {plan.name}`" if plan.id else "`rlplan propose`, then `rlplan launch PLAN`"
    raise BudgetError(
        f"{plan.name} has no pilots, and a sweep runs nothing else: its budget is for the final run, {launch}. "
        "For a sweep make the plan with --pilot-fraction 0.2 or another share"
    )


def piloted(spec: SweepSpec, plan: Plan) -> list[Candidate]:
    """Return the plan's rows that get a trial: the champion's first, then all with a pilot by their rank."""
    champion = spec.champion_terms
    first = [] if champion is None else [row_of(plan, candidate) for candidate in champion.candidates]
    return [*first, *(row for row in plan.candidates if row.pilot_steps and row not in first)]


def new_trials(spec: SweepSpec, plan: Plan) -> list[Trial]:
    """Return a trial for every row of the plan that gets one and can be trained."""
    champion = spec.champion_terms
    axes_of_candidates = (
        {} if champion is None else {row_of(plan, candidate).rank: candidate.axes for candidate in champion.candidates}
    )
    rows = ((row, axes_of_candidates.get(row.rank, row.axes)) for row in piloted(spec, plan))
    return [new_trial(spec, row, axes, rate_of(row, axes)) for row, axes in rows if spec.trains(axes)]


def new_trial(
    spec: SweepSpec, candidate: Candidate, axes: Axes, learning_rate: float, seed: int | None = None
) -> Trial:
    """Return a trial of a candidate, whose axes and rate are its own unless the rate is searched for."""
    configuration = configuration_of(candidate)._replace(axes=axes)
    config = spec.trial(configuration, learning_rate, spec.seed if seed is None else seed)
    return trial_row(config, candidate, axes)


def trial_row(config: TrialConfig, candidate: Candidate, axes: Axes) -> Trial:
    """Return a trial of a configuration as it is stored."""
    n, B = config.rollouts_per_prompt, config.prompts_per_batch
    return Trial(
        name=trial_name(Configuration(n, B, axes), config.seed),
        rollouts_per_prompt=n,
        prompts_per_batch=B,
        learning_rate=config.learning_rate,
        recipe=config.recipe.name,
        seed=config.seed,
        config=config.model_dump(mode="json"),
        candidate_id=candidate.id,
        axes=axes,
    )


def trial_name(configuration: Configuration, seed: int) -> str:
    """Name a trial, and the folder that it keeps its files in."""
    n, B, axes = configuration
    return f"n{n}-B{B}{suffix(axes)}-s{seed}"


def shortfall(spec: SweepSpec, plan: Plan, cpus: float, gpus: float) -> str | None:
    """Say what a plan's trial needs that is not there, and what would fit; None when it fits."""
    need = spec.resources
    lacking = []
    if need.cpus > cpus:
        lacking.append(f"{need.cpus:g} CPU cores where {cpus:g} are")
    if need.gpus > gpus:
        lacking.append(f"{need.gpus:g} {need.gpu} where {gpus:g} GPUs are")
    if not lacking:
        return None
    fits = f"--gpus {gpus:g}" if gpus >= 1 else "--task sum-easy, which runs on the CPU"
    return (
        f"each trial of {plan.name} needs {' and '.join(lacking)}: join a larger cluster with --ray-address, or make a "
        f"plan that fits with rlplan propose {fits}"
    )
