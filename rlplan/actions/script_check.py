"""What `rlplan check` does, a script is read, and what it would launch is judged."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from budgets import catalogue
from budgets.errors import InputError
from budgets.hardware import NODE_GPUS
from budgets.memory import fewest_gpus
from planner.config import Resolved
from planner.config.layers import DEFAULT
from planner.price import PriceQuery
from planner.rules import USUAL
from planner.scripts.changes import Checked, check
from planner.scripts.launch import Launch, configured, launch_of
from planner.scripts.settings import GpuSplit, ScriptFacts, Settings
from planner.scripts.verdict import Memory, memory_of
from rlplan.actions.configuration import flag_of, flagged, load_configuration
from rlplan.actions.from_script import CAP, facts_of, known_name, model_of, name_in, overrides_of
from rlplan.actions.script_copy import Fixed, fixed_copy
from rlplan.actions.step_price import assumptions_of, measured_in
from rlplan.requests.plan import CheckRequest, FitsRequest
from rlplan.wording.answers import Key, View
from rlplan.wording.assumptions import Assumption

BESIDE_TASK = (CAP, "recipe.name")  # what a script says of an embedded task beside n, B and rate
NEEDED = ("rollouts_per_prompt", "prompts_per_batch")
# What a flag says in place of the script, beside what a plan can be asked for.
OF_SCRIPT = ("rollouts_per_prompt", "prompts_per_batch", "learning_rate", "model", "gpus")


@dataclass(frozen=True, slots=True)
class CheckedScript:
    """A script with what it would launch: the answer, what it takes for granted, and the copy that mends it."""

    files: tuple[Path, ...]
    facts: ScriptFacts
    checked: Checked
    assumptions: list[Assumption]
    guessed: list[tuple[str, str]]  # what nobody says, and the flag that would
    fixed: Fixed | None = None

    @property
    def launch(self) -> Launch:
        """What it would launch."""
        return self.checked.verdict.launch


class PartsData(View[Memory]):
    """What training and an engine take of a GPU."""

    training_bytes_per_gpu = Key[Mapping[str, float]]("of.training")
    micro_batch_bytes_per_gpu = Key[float]("of.micro_batch")
    engine_bytes_per_gpu = Key[float]("of.engine")
    usable_bytes_per_gpu = Key[float]("of.usable")
    fewest_gpus = Key[int | None]("of.fewest_gpus", "that would do")


def check_script(request: CheckRequest) -> CheckedScript:
    """Read a script and judge what it would launch, with what flags say in its place."""
    files = [Path(path) for path in ([request.files] if isinstance(request.files, str | Path) else request.files)]
    given = {name: value for name, value in vars(request).items() if value is not None}
    facts = facts_of(files, {name: given[name] for name in OF_SCRIPT if name in given})
    settings = facts.settings
    if lacking := [flag_of(name) for name in NEEDED if getattr(settings, name) is None]:
        by_gpu = ", or --gpus where it says what each takes" if lacking == [flag_of(NEEDED[1])] else ""
        raise InputError(f"{files[0]} does not say how large a batch is: give {' and '.join(lacking)}{by_gpu}")
    if settings.rollouts_per_prompt == 1:
        source = facts.keys.get("rollouts_per_prompt", f"as {facts.maker} does by itself")
        raise InputError(
            f"{files[0]} asks for 1 rollout of each prompt ({source}): PPO with a critic, or REINFORCE. rlplan checks "
            "GRPO and its kin, whose groups have at least 2: give --rollouts-per-prompt"
        )
    model = "" if request.task else name_in(model_of(facts, files[0]), files[0])
    with measured_in(request.db, _configuration(facts, model, request, request.from_log)) as (resolved, measured):
        launch = launch_of(facts, resolved, given.get("steps"))
        size = (launch.rollouts_per_prompt, 1)
        query = measured(PriceQuery(launch.workload, launch.hardware, launch.traits, *size, launch.coefficients))
    length_known = launch.length_known or query.coefficients.measured_lengths
    launch = replace(launch, workload=query.workload, coefficients=query.coefficients, length_known=length_known)
    checked = check(launch, request.budget)
    fixed = fixed_copy(files, facts, checked) if request.fix else None
    assumptions = assumptions_of(checked.verdict.price, resolved)
    maker = f"{facts.maker}'s own"  # what the script leaves to its trainer
    assumptions += [Assumption(name.replace("_", " "), str(value), maker) for name, value in facts.assumed.items()]
    assumptions += [Assumption("in the script", line, "give what it would say by flags") for line in facts.unresolved]
    return CheckedScript(tuple(files), facts, checked, assumptions, _guessed(facts, resolved, launch), fixed)


def room_for(request: FitsRequest) -> tuple[Launch, Memory, dict[str, int]]:
    """Return what training a model takes of the memory, all states sharded, and what an engine does.

    With it comes how many GPUs of each kind would do.
    """
    settings = Settings(*USUAL[0], model=request.model, gpus=request.gpus)
    facts = ScriptFacts(None, settings, GpuSplit(), {"lora_rank": request.lora_rank})
    launch = launch_of(facts, _configuration(facts, known_name(request.model), request))
    kinds = ((name, catalogue.gpu(name)) for name in catalogue.names("gpus"))
    counts = {name: fewest_gpus(launch.workload, launch.traits, gpu) for name, gpu in kinds if not gpu.one_process}
    memory = memory_of(launch, launch.hardware.gpus_per_trial)
    return launch, memory, {name: count for name, count in counts.items() if count is not None}


def _configuration(
    facts: ScriptFacts, model: str, request: CheckRequest | FitsRequest, log: str | Path | None = None
) -> Resolved:
    """Return the configuration: the user's file, then the script, then flags."""
    flags = {key: flag for key, flag in flagged(request).items() if flag[1] is not None and key != "workload.model"}
    if isinstance(request, CheckRequest) and request.task:
        of_script = {key: value for key, value in configured(facts, model).items() if key in BESIDE_TASK}
        return load_configuration(request.config, request.task, {**of_script, **flags}, log)
    overrides = overrides_of(facts, model, flags.get(CAP))
    if facts.settings.gpus is None:
        overrides |= dict.fromkeys(("hardware.gpus", "hardware.gpus_per_trial"), ("one node", NODE_GPUS))
    if request.gpus is not None:
        flags["hardware.gpus_per_trial"] = ("--gpus", request.gpus)
    return load_configuration(request.config, None, {**overrides, **flags}, log)


def _guessed(facts: ScriptFacts, resolved: Resolved, launch: Launch) -> list[tuple[str, str]]:
    """List what neither script, flags nor file say of what decides most: what is taken for it, and the flag for it."""
    workload = launch.workload
    guesses_by_key = {
        "hardware.gpu": (launch.hardware.gpu.name, "--gpu"),
        "hardware.gpus": (f"{launch.hardware.gpus} GPUs", "--gpus"),
        "workload.pass_rate": (f"a pass rate of {workload.pass_rates.mean:.2g}", "--pass-rate"),
        "workload.response_tokens": (f"at most {workload.responses.cap:,} tokens", "--response-tokens"),
        "workload.mean_response_tokens": (
            f"{workload.responses.mean:,.0f} tokens a response",
            "--mean-response-tokens",
        ),
        "workload.prompt_set_size": (
            f"{workload.prompt_set_size:,} prompts, by their name"
            if launch.prompts_by_name
            else "an unknown number of prompts",
            "--prompts",
        ),
        "validation.problems": (f"{workload.validation.problems} validation problems", "--validation-problems"),
    }
    stated = {
        "workload.pass_rate": launch.rates_known,
        "workload.mean_response_tokens": launch.length_known,
        "validation.problems": not launch.validates,  # where nothing is, nothing is guessed
    }
    guesses = [key for key in guesses_by_key if resolved.source(key) in (DEFAULT, "one node") and not stated.get(key)]
    named = ["workload.prompt_set_size"] if launch.prompts_by_name else []
    return [guess for key, guess in guesses_by_key.items() if key in guesses + named]
