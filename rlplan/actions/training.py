"""What `rlplan train` does: one run of one allocation, as a sweep of one trial."""

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from budgets.allocation import Allocation
from budgets.catalogue import model
from budgets.cost import step_cost
from budgets.errors import InputError, UnknownNameError
from budgets.hardware import LARGEST_BUDGET_GPU_HOURS
from planner.config import Config, Layer, Resolved, build_request, embedded_tasks, file_layer, flag_layer, resolve
from planner.config.layers import DEFAULT
from planner.store import open_store
from planner.store.schema import Plan
from planner.sweeping.grants import MARGIN, idle_gpu_hours
from rlplan.actions.configuring import DEFAULT_FILE, flagged, load_configuration
from rlplan.actions.given_plan import given_candidate, given_plan
from rlplan.actions.interrupts import Interrupts
from rlplan.actions.sweep_request import machine, spec_of
from rlplan.actions.sweeping import Began, DriversSeat, Finished, begin
from rlplan.requests.running import SweepRequest, TrainRequest
from rlplan.wording.extras import require_for_sweeps
from runner.machine import cpu_cores
from runner.processes import this_driver
from runner.sweep.planned import CPU
from runner.sweep.spec import SweepSpec
from runner.tasks.opening import SUFFIXES

VALIDATIONS = 20  # about so many in a run
# What means the same for a sweep.
AS_A_SWEEP = (
    *("seed", "folder", "config", "model", "reward", "validation"),
    *("engine", "device", "weights", "micro_batch_tokens"),
)


def own_problems(asked: TrainRequest) -> str | None:
    """Return the path of problems of one's own; None for an embedded task, or where the configuration names one."""
    return None if asked.task is None or asked.task in embedded_tasks() else asked.task


def train(
    request: TrainRequest,
    *,
    interrupts: Interrupts | None = None,
    began: Began = lambda sweep: None,
) -> Finished:
    """Store a sweep of one trial, and run it; it goes on as any other sweep does."""
    require_for_sweeps()
    plan = planned(request)
    spec = spec_of_run(request, plan)
    with open_store(request.db) as store:
        name = store.save_plan(plan, plan.candidates, created_at=datetime.now(UTC))
        seat = DriversSeat(this_driver(), None, interrupts, began, config=request.config)
        return begin(store, store.plan(name), spec, seat)


def planned(request: TrainRequest) -> Plan:
    """Return the plan of one allocation, whose only pilot is the run.

    Without a budget of its own the run may take what it costs by the upper end of its price's interval.
    """
    resolved = _configured(request)
    asked = build_request(resolved)
    variant = asked.all_variants[0]
    if len(asked.all_variants) > 1 or asked.learning_rate_range is not None:
        raise InputError("the configuration compares recipes, models or rates ([axes]): `rlplan sweep` does that")
    n, B, M = request.rollouts_per_prompt, request.prompts_per_batch, request.steps
    allocation = Allocation(n, B, M)
    cost = step_cost(variant.workload, asked.hardware, variant.traits, n, B, variant.coefficients)
    start, price, most = cost.start_up_gpu_hours, cost.gpu_hours_per_step, cost.gpu_hours_per_step_high
    segment = request.checkpoint_every or asked.workload.validation.steps_between(n * B)
    rate = allocation.learning_rate(asked.learning_rate.base, asked.learning_rate.base_rollouts)
    # A start-up is no surer than a step.
    upper = most / price * start
    limit = request.budget or MARGIN * (upper + M * most) + idle_gpu_hours(1, upper, asked.hardware.gpus_per_trial)
    candidate = given_candidate(
        asked,
        variant,
        allocation,
        (cost.gpu_hours_per_step_low, price, most),
        request.learning_rate or rate,
        (M, segment, start + M * price),
        "the run that was asked for",
    )
    plan = given_plan(asked, resolved, [candidate], limit, M * price, [cost.placement])
    plan.name = "the run"
    return plan


def spec_of_run(request: TrainRequest, plan: Plan) -> SweepSpec:
    """Return the settings of the sweep of one trial."""
    given = {name: getattr(request, name) for name in AS_A_SWEEP}
    own = own_problems(request)
    problems = None if own is None else Path(own)
    alone = SweepRequest(db=request.db, policy="full", workers=1, problems=problems, **given)
    spec = spec_of(alone, plan)
    here = {"threads": request.threads or (1 if own is None else cpu_cores()), "compile": request.compile}
    training: dict[str, Any] = {"machine": spec.training.machine.model_copy(update=here)}
    training["warmup_steps"] = request.warmup
    return spec.model_copy(update={"training": spec.training.model_copy(update=training)})


def validation_steps(steps: int) -> int:
    """Return the updates between validations: about 20 in the run, and the last of them at its end if that can be."""
    few = math.ceil(2 * steps / (3 * VALIDATIONS))
    many = max(few, 3 * steps // (2 * VALIDATIONS))
    return min(range(few, many + 1), key=lambda every: (steps % every, abs(every - steps / VALIDATIONS), -every))


def _configured(request: TrainRequest) -> Resolved:
    """Merge defaults, task, file and flags; where nobody says how often to validate, the length of the run does."""
    budget = request.budget or LARGEST_BUDGET_GPU_HOURS
    flags = {**flagged(request), "budget.gpu_hours": ("--budget", budget)}
    resolved = _resolved(request, flags)
    beneath = (DEFAULT, f"task {resolved.config.workload.task}")
    if all(resolved.source(f"validation.{key}") in beneath for key in ("every_steps", "every_rollouts")):
        flags["validation.every_steps"] = ("--steps", validation_steps(request.steps))
        resolved = _resolved(request, flags)
    return resolved


def _resolved(request: TrainRequest, flags: dict[str, tuple[str, Any]]) -> Resolved:
    """Merge the layers; problems of one's own take nothing from an embedded task, and run on this machine."""
    if (problems := own_problems(request)) is None:
        resolved = load_configuration(request.config, request.task, flags)
        if resolved.config.workload.task is None:
            raise InputError(
                f"no task given: --task takes {', '.join(embedded_tasks())}, or the path of a JSONL file of problems"
            )
        return resolved
    path = Path(problems).expanduser()
    if not (path.suffix in SUFFIXES or path.exists() or path.name != problems):
        raise UnknownNameError("task", path.name, embedded_tasks(), "The path of a JSONL file works too")
    given = {"--model FOLDER": request.model, "--response-tokens": request.response_tokens}
    if missing := [flag for flag, value in given.items() if value is None]:
        raise InputError(
            f"--task {problems} needs {' and '.join(missing)} too: problems of your own bring neither a "
            "model nor a length at which responses are cut"
        )
    file = request.config or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)
    on_cpu = (request.device or ("cuda" if machine()[1] else "cpu")) == "cpu"
    here = {"gpus": 1, "gpus_per_trial": 1, **({"gpu": CPU} if on_cpu else {})}
    own = [Layer("--task", {"workload": {"task": None}}), Layer("this machine", {"hardware": here})]
    folder = str(Path(str(request.model)).expanduser())
    room = model(folder).context - int(request.response_tokens or 0)  # for a prompt, whose length nobody has measured
    fits = Layer(DEFAULT, {"workload": {"prompt_tokens": float(min(Config().workload.prompt_tokens, max(1, room)))}})
    flags["workload.model"] = ("--model", folder)
    return resolve([fits, *([file_layer(Path(file))] if file else []), *own, *flag_layer(flags)])
