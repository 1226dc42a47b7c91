"""What would help a launch: one value is changed, the same questions are asked again, and the answers are compared."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, Final

from budgets.allocation import steps_for_budget
from budgets.cost import Z90
from budgets.errors import InputError
from budgets.signal import signal_fraction
from budgets.workload import Workload
from planner.config.layers import LORA_RATE_TIMES
from planner.metrics import Interval
from planner.pricing.one import STALENESS
from planner.prior.comparing import differences, interval, noise_between
from planner.prior.draws import prior_draws
from planner.prior.laws import Circumstances, Run
from planner.prior.rates import at_rate
from planner.rules import USUAL
from planner.vetting.launch import Launch
from planner.vetting.verdict import MOST_CUT, UNSHARDED, Verdict, verdict

MOST_CHANGES: Final = 3
LEAST_SAVED: Final = 0.01  # of the GPU-hours: what would print as 0 % is no gain
# With half of the GPUs: where it saves a quarter, a step takes 1.5 times as long, and the second half does half of what
# the first does. With less the time lost weighs more than the hours.
LEAST_SAVED_BY_FEWER: Final = 0.25
# Times the script's value that are tried.
MORE_ROLLOUTS, MORE_PROMPTS, LONGER, RARER = (0.5, 2, 4, 8), (0.5, 2, 4), (2, 4, 8, 16, 32), (2, 4)


Gain = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Improvement:
    """One value in place of another, and what it does; scores are for the same GPU-hours."""

    name: str
    before: Any
    after: Any
    verdict: Verdict
    cleared: tuple[str, ...]  # names of red flags that are gone
    score_gain: Gain | None  # expected, and its 90 % error
    saved: float  # share of the GPU-hours of a step; negative: it costs more


@dataclass(frozen=True)
class Checked:
    """The whole answer: a verdict, what is expected of the run, and what would help it most."""

    verdict: Verdict
    gpu_hours: float | None  # that scores are compared at: the budget, else those of the run
    budget_steps: int | None  # that a budget buys
    score: Interval | None
    improvements: tuple[Improvement, ...]
    usual_gain: Gain | None = None  # of the usual n, B and rate, where that is more than a standard deviation

    @property
    def usual_chance(self) -> float | None:
        """The chance of the usual n, B and rate to end higher, where studies expect more of them."""
        if self.usual_gain is None:
            return None
        gain, error = self.usual_gain
        return NormalDist(0, error / Z90).cdf(gain)


def check(launch: Launch, budget: float | None = None) -> Checked:
    """Judge a launch, and find the changes that would help most, each on a value of its own."""
    found = verdict(launch)
    hours = budget if budget is not None else found.gpu_hours[0] if found.gpu_hours else None
    tried = [(name, before, after, verdict(changed)) for name, before, after, changed in _tries(found)]
    flagged = {flag.name for flag in found.flags}
    tried = [each for each in tried if {flag.name for flag in each[3].flags} <= flagged]  # that raises no new flag
    bought: int | None = None
    score: Interval | None = None
    gains: Sequence[Gain | None] = [None] * len(tried)
    usual_gain: Gain | None = None
    if hours is not None:
        usual = [verdict(_usual(launch))]
        bought, score, (*gains, usual_gain) = _scores([found, *(each[3] for each in tried), *usual], hours)
        usual_gain = usual_gain if usual_gain[0] > usual_gain[1] / Z90 else None
    best: dict[str, Improvement] = {}
    for (name, before, after, other), gain in zip(tried, gains, strict=True):
        cleared = tuple(flag.name for flag in found.flags if flag.name not in {each.name for each in other.flags})
        saved = 1 - other.gpu_hours_per_step / found.gpu_hours_per_step
        each = Improvement(name, before, after, other, cleared, gain, saved)
        if _helps(each) and (name not in best or _worth(each) > _worth(best[name])):
            best[name] = each
    first = sorted(best.values(), key=_worth, reverse=True)[:MOST_CHANGES]
    return Checked(found, hours, None if budget is None else bought, score, tuple(first), usual_gain)


def _usual(launch: Launch) -> Launch:
    """Return the same launch with the usual n and B, at the rule's learning rate."""
    n, B = USUAL[0]
    prompts = launch.traits.updates_per_batch * B
    return replace(launch, rollouts_per_prompt=n, prompts_per_batch=prompts, learning_rate=None)


def _scores(found: Sequence[Verdict], gpu_hours: float) -> tuple[int, Interval | None, list[Gain]]:
    """Return what the prior expects for GPU-hours: the first's steps and score, and by what the others are ahead."""
    here = Circumstances.of(found[0].launch.workload)
    runs = []
    for launch in (each.launch for each in found):
        signal = signal_fraction(launch.workload.pass_rates, launch.rollouts_per_prompt)
        sizes = launch.update.rollouts_per_prompt, launch.update.prompts_per_batch
        runs.append(Run.of(sizes, signal, launch.traits, here))
    distinct = tuple(dict.fromkeys(runs))
    prior = prior_draws(distinct)
    steps = [steps_for_budget(gpu_hours, each.gpu_hours_per_step, each.price.cost.start_up_gpu_hours) for each in found]
    updates = [max(1, count * each.launch.updates) for count, each in zip(steps, found, strict=True)]
    scores = prior.expected([distinct.index(run) for run in runs], updates).scores
    for place, each in enumerate(found):
        if (factor := each.rate_factor) is not None and factor != 1:
            scores[:, place] = at_rate(scores[:, place], here.pass_rate, factor)
    own, weights = scores[:, 0], prior.weights
    expected = Interval(float(weights @ own), *interval(own, weights)) if steps[0] else None
    means, sds = differences(scores[:, 1:], own, weights, noise_between(here.pass_rate))
    return steps[0], expected, [(mean, Z90 * sd) for mean, sd in zip(means.tolist(), sds.tolist(), strict=True)]


_LEARNING = {"rollouts_per_prompt", "prompts_per_batch", "learning_rate", "updates_per_batch", "response_tokens"}


def _helps(each: Improvement) -> bool:
    """Whether a change clears a flag, raises the score beyond its error, or trains the same for less."""
    if each.cleared:
        return "cut" not in each.cleared or each.verdict.cut_off <= MOST_CUT
    gain, error = each.score_gain or (0.0, 0.0)
    if gain > error > 0:
        return True
    fewer = each.name == "gpus" and each.after < each.before
    least = LEAST_SAVED_BY_FEWER if fewer else LEAST_SAVED
    return each.name not in _LEARNING and each.saved >= least and each.verdict.memory.fits


def _worth(each: Improvement) -> tuple[int, float, float]:
    gain, error = each.score_gain or (0.0, 0.0)
    return len(each.cleared), gain if gain > error else 0.0, each.saved


def _tries(found: Verdict) -> Iterator[tuple[str, Any, Any, Launch]]:
    """Yield each value that may be better: its name, what it is now, what it would be, and the launch with it."""
    for name, (before, others) in _offers(found.launch).items():
        for after in others:
            if after != before:
                with suppress(InputError):  # beyond the model's context, or no split of these GPUs
                    yield name, before, after, _with(found.launch, name, after)


def _offers(launch: Launch) -> dict[str, tuple[Any, Sequence[Any]]]:
    """Return what each value is, and what it could be."""
    n, B, gpus = launch.rollouts_per_prompt, launch.prompts_per_batch, launch.hardware.gpus_per_trial
    lengths, execution = launch.workload.responses, launch.traits.execution
    size, every = execution.engine_gpus, launch.workload.validation.every_steps // launch.traits.updates_per_batch
    turns = launch.placement is not None and launch.placement.colocated
    return {
        "rollouts_per_prompt": (n, [max(2, int(n * times)) for times in MORE_ROLLOUTS]),
        "prompts_per_batch": (B, [max(1, int(B * times)) for times in MORE_PROMPTS]),
        "learning_rate": (launch.learning_rate, [float(f"{launch.rule_rate:.2g}")] if launch.learning_rate else []),
        "updates_per_batch": (launch.updates, [launch.passes]),
        "response_tokens": (lengths.cap, [] if lengths.fixed else [lengths.cap * times for times in LONGER]),
        "gpus": (gpus, [half for half in (gpus // 2,) if half] + [2 * gpus, 4 * gpus] if turns else []),
        "staleness": (launch.traits.staleness_bound, [STALENESS] if turns and launch.updates == 1 and gpus > 1 else []),
        "lora_rank": (execution.lora_rank, [None]),
        "engine_tensor_parallel": (size, [each for each in (size // 2, 2 * size) if 1 <= each <= gpus] if size else []),
        "sharding": (launch.sharding, ["zero3"] if launch.sharding in UNSHARDED else []),
        "validation_every": (every, [every * times for times in RARER] if launch.validates else []),
        "schedule_steps": (launch.schedule_steps, [launch.steps] if launch.schedule_steps and launch.steps else []),
    }


def _with(launch: Launch, name: str, value: Any) -> Launch:
    """Return the launch with one other value."""
    workload, traits, hardware, placement = launch.workload, launch.traits, launch.hardware, launch.placement
    changed: dict[str, Any] = {name: value}
    match name:
        case "updates_per_batch":  # validations are counted in updates
            every = max(1, workload.validation.every_steps // traits.updates_per_batch)
            changed = {"traits": replace(traits, updates_per_batch=1), "workload": _validated(workload, every)}
        case "validation_every":
            changed = {"workload": _validated(workload, value * traits.updates_per_batch)}
        case "response_tokens":
            longer = replace(workload.responses, mean=workload.responses.moment_up_to(value, 1), cap=value)
            changed = {"workload": replace(workload, responses=longer)}
        case "gpus":
            hardware = replace(hardware, gpus=value, gpus_per_trial=value)
            changed = {"hardware": hardware, "placement": placement and placement.on(value)}
        case "staleness":
            changed = {"traits": replace(traits, staleness_bound=value), "placement": None}
        case "lora_rank":  # with the rate that goes with all weights
            changed = {
                "traits": replace(traits, execution=replace(traits.execution, lora_rank=None)),
                "rule": replace(launch.rule, base=launch.rule.base / LORA_RATE_TIMES),
                "learning_rate": launch.learning_rate and launch.learning_rate / LORA_RATE_TIMES,
            }
        case "engine_tensor_parallel":
            changed = {
                "traits": replace(traits, execution=replace(traits.execution, engine_gpus=value)),
                "placement": placement and replace(placement, engine_gpus=value),
            }
    return replace(launch, **changed)


def _validated(workload: Workload, every_updates: int) -> Workload:
    return replace(workload, validation=replace(workload.validation, every_steps=every_updates))
