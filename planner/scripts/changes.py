"""What would help a launch: one value is changed, the same questions are asked again, and the answers are compared."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count, islice
from statistics import NormalDist
from typing import Any, Final

from budgets.allocation import steps_for_budget
from budgets.cost import Z90
from budgets.errors import InputError
from budgets.signal import signal_fraction
from budgets.work import Phase
from budgets.workload import Workload
from planner.config.layers import LORA_RATE_TIMES
from planner.metrics import Interval
from planner.price.measured_runs import NO_VALIDATION
from planner.price.step import STALENESS
from planner.prior.draws import differences, interval, noise_between, prior_draws
from planner.prior.laws import Circumstances, Run
from planner.prior.plan_prior import at_rate
from planner.rules import USUAL
from planner.scripts.launch import Launch
from planner.scripts.verdict import MOST_BESIDE, MOST_CUT, UNSHARDED, USUAL_GROUPS, Verdict, refused_sizes, verdict

MOST_CHANGES: Final = 3  # beside those that clear a red flag
# With half of the GPUs: where it saves a quarter, a step takes 1.5 times as long, and the second half does half of what
# the first does. With less the time lost weighs more than the hours.
LEAST_SAVED_BY_FEWER: Final = 0.25
# Times the script's value that are tried.
MORE_ROLLOUTS, MORE_PROMPTS, LONGER = (0.5, 2, 4, 8), (0.5, 2, 4), (2, 4, 8, 16, 32)
LEAST_BETWEEN_SAVES: Final = 10  # steps, where they cost next to nothing
REMEDIES: Final[Mapping[str, Collection[str]]] = {  # of red flags; what does not fit is helped by whatever makes it fit
    "sizes": ("update_rollouts", "prompts_per_batch", "rollouts_per_prompt"),
    "rate": ("learning_rate",),
    "cut": ("response_tokens",),
    "dead": ("rollouts_per_prompt",),
    "schedule": ("schedule_steps",),
    "length": (),
    "disk": ("save_every",),
    **dict.fromkeys(("resume", "saves", "saving"), ("save_every",)),
    **dict.fromkeys(("data", "validation"), ("validation_every",)),
}
# What a value in a script says; anything else (GPUs, adapters, sharding) takes more to change.
WRITABLE: Final = {
    *("rollouts_per_prompt", "prompts_per_batch", "update_rollouts", "updates_per_batch", "learning_rate"),
    *("response_tokens", "validation_every", "save_every", "engine_tensor_parallel", "schedule_steps"),
}

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
    together: Launch | None = None  # with those of these changes that a script can have, as far as they go together

    @property
    def usual_chance(self) -> float | None:
        """The chance of the usual n, B and rate to end higher, where studies expect more of them."""
        if self.usual_gain is None:
            return None
        gain, error = self.usual_gain
        return NormalDist(0, error / Z90).cdf(gain)


def check(launch: Launch, budget: float | None = None) -> Checked:
    """Judge a launch, and find the changes that would help most, each on a value of its own."""
    before_changes = verdict(launch)
    hours = budget if budget is not None else before_changes.gpu_hours[0] if before_changes.gpu_hours else None
    tried = [(name, before, after, verdict(changed)) for name, before, after, changed in _tries(before_changes)]
    tried = [each for each in tried if _flagged(each[3]) <= _flagged(before_changes)]
    bought: int | None = None
    score: Interval | None = None
    gains: Sequence[Gain | None] = [None] * len(tried)
    usual_gain: Gain | None = None
    if hours is not None:
        n, B = USUAL[0]
        prompts = launch.traits.updates_per_batch * B
        at_rule = replace(launch, rollouts_per_prompt=n, prompts_per_batch=prompts, learning_rate=None)
        usual = [verdict(at_rule)]
        bought, score, (*gains, usual_gain) = _scores([before_changes, *(each[3] for each in tried), *usual], hours)
        usual_gain = usual_gain if usual_gain[0] > usual_gain[1] / Z90 else None
    best: dict[str, Improvement] = {}
    for (name, before, after, other), gain in zip(tried, gains, strict=True):
        gone = (flag.name for flag in before_changes.flags if flag.name not in _flagged(other))
        cleared = tuple(flag for flag in gone if name in REMEDIES.get(flag, (name,)))
        saved = 1 - other.gpu_hours_per_step / before_changes.gpu_hours_per_step
        each = Improvement(name, before, after, other, cleared, gain, saved)
        if _helps(each, before_changes) and (name not in best or _worth(each) > _worth(best[name])):
            best[name] = each
    order = [flag.name for flag in before_changes.flags]
    first, together = _together(launch, sorted(best.values(), key=lambda each: _rank(each, order)))
    return Checked(before_changes, hours, None if budget is None else bought, score, first, usual_gain, together)


def _flagged(judged: Verdict) -> set[str]:
    return {flag.name for flag in judged.flags}


def _rank(improvement: Improvement, flags: Sequence[str]) -> tuple[float, int, float, float]:
    """Return where a change stands: remedies in the order of red flags, then by what is gained and saved."""
    _, gain, saved = _worth(improvement)
    place = min(map(flags.index, improvement.cleared), default=len(flags))
    remedies = REMEDIES.get(flags[place], ()) if improvement.cleared else ()
    return place, [*remedies, improvement.name].index(improvement.name), -gain, -saved


def _together(launch: Launch, improvements: Sequence[Improvement]) -> tuple[tuple[Improvement, ...], Launch]:
    """Choose the changes that help most, the first that clears a flag before others of it, and apply what goes."""
    chosen: list[Improvement] = []
    cleared: set[str] = set()
    for improvement in improvements:
        if improvement.cleared and cleared.issuperset(improvement.cleared):
            continue
        cleared.update(improvement.cleared)
        if improvement.cleared or len(chosen) < MOST_CHANGES:
            chosen.append(improvement)
        if improvement in chosen and improvement.name in WRITABLE:
            with suppress(InputError):
                changed = _with(launch, improvement.name, improvement.after)
                launch = changed if _flagged(verdict(changed)) <= _flagged(verdict(launch)) else launch
    return tuple(chosen), launch


def _scores(verdicts: Sequence[Verdict], gpu_hours: float) -> tuple[int, Interval | None, list[Gain]]:
    """Return what the prior expects for GPU-hours: the first's steps and score, and by what the others are ahead."""
    here = Circumstances.of(verdicts[0].launch.workload)
    runs = []
    for launch in (judged.launch for judged in verdicts):
        signal = signal_fraction(launch.workload.pass_rates, launch.rollouts_per_prompt)
        sizes = launch.update.rollouts_per_prompt, launch.update.prompts_per_batch
        runs.append(Run.of(sizes, signal, launch.traits, here))
    distinct = tuple(dict.fromkeys(runs))
    prior = prior_draws(distinct)
    steps = [
        steps_for_budget(gpu_hours, judged.gpu_hours_per_step, judged.price.cost.start_up_gpu_hours)
        for judged in verdicts
    ]
    updates = [max(1, count * judged.launch.updates) for count, judged in zip(steps, verdicts, strict=True)]
    scores = prior.expected([distinct.index(run) for run in runs], updates).scores
    for place, judged in enumerate(verdicts):
        if (factor := judged.rate_factor) is not None and factor != 1:
            scores[:, place] = at_rate(scores[:, place], here.pass_rate, factor)
    base, weights = scores[:, 0], prior.weights
    expected = Interval(float(weights @ base), *interval(base, weights)) if steps[0] else None
    means, sds = differences(scores[:, 1:], base, weights, noise_between(here.pass_rate))
    return steps[0], expected, [(mean, Z90 * sd) for mean, sd in zip(means.tolist(), sds.tolist(), strict=True)]


_LEARNING = {
    *("rollouts_per_prompt", "prompts_per_batch", "learning_rate", "updates_per_batch", "update_rollouts"),
    "response_tokens",
}


def _helps(improvement: Improvement, judged: Verdict) -> bool:
    """Whether a change clears a flag, raises the score beyond its error, or saves more than the price may be off by."""
    if improvement.cleared:
        return "cut" not in improvement.cleared or improvement.verdict.cut_off <= MOST_CUT
    if "dead" in _flagged(judged) and (improvement.name, improvement.after) == (
        "rollouts_per_prompt",
        max(USUAL_GROUPS),
    ):
        return True  # on hard problems no group size clears the flag
    gain, error = improvement.score_gain or (0.0, 0.0)
    if gain > error > 0:
        return True
    median, _, high = judged.step_seconds
    fewer = improvement.name == "gpus" and improvement.after < improvement.before
    least = max(1 - median / high, LEAST_SAVED_BY_FEWER if fewer else 0.01)
    return improvement.name not in _LEARNING and improvement.saved >= least and improvement.verdict.memory.fits


def _worth(improvement: Improvement) -> tuple[int, float, float]:
    gain, error = improvement.score_gain or (0.0, 0.0)
    # Of groups that are large enough the smallest: it changes least.
    return (
        len(improvement.cleared),
        gain if gain > error else 0.0,
        -improvement.after if "dead" in improvement.cleared else improvement.saved,
    )


def _tries(judged: Verdict) -> Iterator[tuple[str, Any, Any, Launch]]:
    """Yield each value that may be better: its name, what it is now, what it would be, and the launch with it."""
    for name, (before, others) in _offers(judged).items():
        for after in others:
            if after != before:
                with suppress(InputError):  # beyond the model's context, or no split of these GPUs
                    yield name, before, after, _with(judged.launch, name, after)


def _offers(judged: Verdict) -> dict[str, tuple[Any, Sequence[Any]]]:
    """Return what each value is, and what it could be."""
    launch, flagged = judged.launch, _flagged(judged)
    n, B, gpus = launch.rollouts_per_prompt, launch.prompts_per_batch, launch.hardware.gpus_per_trial
    lengths, execution = launch.workload.responses, launch.traits.execution
    size, every = execution.engine_gpus, launch.workload.validation.every_steps // launch.traits.updates_per_batch
    turns = launch.placement is not None and launch.placement.colocated
    rollouts = [max(2, int(n * times)) for times in MORE_ROLLOUTS]
    prompts = [max(1, int(B * times)) for times in MORE_PROMPTS]
    update, share = launch.update_rollouts or launch.update.rollouts_per_step, judged.beside[Phase.EVALUATE]
    unit = n if launch.trainer == "verl" else 1
    if "dead" in flagged:
        rollouts = [group for group in USUAL_GROUPS if group > n] or rollouts
    if "sizes" in flagged and launch.batch_rollouts and launch.batch_rollouts % n:
        rollouts, prompts = [*_accepted(judged, "rollouts_per_prompt", n, range(2, 4 * n)), *rollouts], []
    elif "sizes" in flagged:
        prompts = _accepted(judged, "prompts_per_batch", B, range(1, 2 * B))
    # Half of the GPUs saves what half of the nodes costs: idle ones of a node are paid.
    fewer = [gpus // 2] if gpus % (2 * launch.hardware.gpu.gpus_per_node) == 0 else []
    return {
        "rollouts_per_prompt": (n, rollouts),
        "prompts_per_batch": (B, prompts),
        "update_rollouts": (update, _accepted(judged, "update_rollouts", update, range(unit, n * B + 1, unit))),
        "learning_rate": (launch.learning_rate, [float(f"{launch.rule_rate:.2g}")] if launch.learning_rate else []),
        "updates_per_batch": (launch.updates, [launch.passes]),
        "response_tokens": (lengths.cap, [] if lengths.fixed else [lengths.cap * times for times in LONGER]),
        "gpus": (gpus, [*fewer, 2 * gpus, 4 * gpus] if turns else []),
        "staleness": (launch.traits.staleness_bound, [STALENESS] if turns and launch.updates == 1 and gpus > 1 else []),
        "lora_rank": (execution.lora_rank, [None]),
        "engine_tensor_parallel": (
            size,
            [width for width in (size // 2, 2 * size) if 1 <= width <= gpus] if size else [],
        ),
        "sharding": (launch.sharding, ["zero3"] if launch.sharding in UNSHARDED else []),
        "validation_every": (every, [0] if "data" in flagged else [_rarer(every, share)] if launch.validates else []),
        "save_every": (launch.save_every, [_saved_every(judged)] if flagged & {"resume", "saves", "saving"} else []),
        "schedule_steps": (launch.schedule_steps, [launch.steps] if launch.schedule_steps and launch.steps else []),
    }


def _accepted(judged: Verdict, name: str, now: int, values: Iterable[int]) -> list[int]:
    """Return the nearest value that the trainer accepts, where it refuses what there is."""
    launch = judged.launch
    if "sizes" not in _flagged(judged):
        return []
    near = sorted(values, key=lambda value: abs(math.log(value / now)))
    return list(islice((value for value in near if not any(refused_sizes(_with(launch, name, value)))), 1))


def _rarer(every: int, share: float) -> int:
    """Return the least of 1, 2, 5, 10, … steps at which what takes a share of the time takes half of what it may."""
    least = max(1.0, every * share / (1 - share) * (2 / MOST_BESIDE - 1))
    return int(next(step * 10**power for power in count() for step in (1, 2, 5) if step * 10**power >= least))


def _saved_every(judged: Verdict) -> int:
    saved = replace(judged.launch, save_every=judged.launch.save_every or 1)
    return max(LEAST_BETWEEN_SAVES, _rarer(saved.save_every or 1, verdict(saved).beside[Phase.SAVE]))


def _with(launch: Launch, name: str, value: Any) -> Launch:
    """Return the launch with one other value."""
    workload, traits, hardware, placement = launch.workload, launch.traits, launch.hardware, launch.placement
    made = launch.rollouts_per_prompt * launch.prompts_per_batch
    changed: dict[str, Any] = {name: value}
    match name:
        case "rollouts_per_prompt":  # of a batch that is stated in rollouts there are as many
            changed |= {"update_rollouts": None}
            if launch.batch_rollouts:
                changed |= {"prompts_per_batch": max(1, launch.batch_rollouts // value)}
        case "prompts_per_batch":
            changed |= {
                "update_rollouts": None,
                "batch_rollouts": launch.batch_rollouts and value * launch.rollouts_per_prompt,
            }
        case "updates_per_batch":
            changed = {"traits": replace(traits, updates_per_batch=1), "update_rollouts": None}
        case "update_rollouts":
            changed |= {"traits": replace(traits, updates_per_batch=math.ceil(made / value))}
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
    if "traits" in changed and launch.validates:  # validations are counted in updates
        every = workload.validation.every_steps // traits.updates_per_batch
        changed |= {"workload": _validated(workload, every * changed["traits"].updates_per_batch)}
    return replace(launch, **changed)


def _validated(workload: Workload, every_updates: int) -> Workload:
    every = replace(workload.validation, every_steps=every_updates) if every_updates else NO_VALIDATION
    return replace(workload, validation=every)
