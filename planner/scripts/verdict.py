"""The verdict on a launch: memory by part, time and money, what is wasted, and what is wrong with it."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from budgets.cost import Z90
from budgets.hardware import SECONDS_PER_HOUR
from budgets.memory import (
    CHUNKED,
    checkpoint_bytes,
    engine_sizes,
    fewest_gpus,
    memory_share,
    states,
    token_bytes,
    usual_engine,
)
from budgets.signal import signal_fraction
from budgets.work import Phase
from planner.percent import percent
from planner.price.step import Interval, Price
from planner.prior.plan_prior import retained_gain
from planner.scripts.launch import Launch

# Sizes that trainers refuse: verl 0.9 (utils/config.py, workers/engine_workers.py, utils/tensordict_utils.py), TRL 1.16
# (GRPOConfig), OpenRLHF 0.11 and DeepSpeed's batch of micro-batches; SkyRL and NeMo RL ask for whole updates too.
WHOLE_UPDATES = ("verl", "openrlhf", "skyrl", "nemo-rl")


def refused_sizes(launch: Launch) -> Iterator[str]:
    """Yield what does not go with what, in the units of the trainer."""
    if launch.trainer == "trl":
        yield from _of_trl(launch)
    elif launch.trainer in WHOLE_UPDATES and not launch.traits.asynchronous:
        yield from _of_updates(launch)


def _of_trl(launch: Launch) -> Iterator[str]:
    n, gpus = launch.rollouts_per_prompt, launch.trainers
    rollouts = launch.batch_rollouts or n * launch.prompts_per_batch
    if rollouts % n:
        yield f"{rollouts:,} rollouts a batch are no multiple of n = {n}"
    if launch.device_batch and rollouts % (launch.device_batch * gpus):
        yield f"{rollouts:,} rollouts a batch are no multiple of {launch.device_batch} on each of {gpus} GPUs"
    if launch.validates and launch.device_validation:
        requested, answers = launch.device_validation * gpus, launch.workload.validation.samples
        samples = answers if "validation_samples" in launch.explicit else n
        if requested % samples:
            yield f"{requested:,} rollouts of a validation batch are no multiple of {samples} a problem"


def _of_updates(launch: Launch) -> Iterator[str]:
    n, B = launch.rollouts_per_prompt, launch.prompts_per_batch
    rollouts, update = n * B, launch.update_rollouts or launch.update.rollouts_per_step
    batch, part = (f"{rollouts:,} rollouts are", update) if update % n else (f"B = {B:,} is", update // n)
    if rollouts % update:
        yield f"{batch} {'less than' if rollouts < update else 'no multiple of'} the mini-batch of {part:,}"
    gpus = launch.trainers
    if launch.trainer == "verl" and rollouts % gpus:
        yield f"{n} × {B:,} = {rollouts:,} rollouts are not shared out evenly to {gpus} GPUs"
    ranks = max(1, gpus // (launch.model_parallel or 1 if launch.sharding == "megatron" else launch.width))
    micro = (launch.micro_batch_sequences or 1) if launch.trainer in ("verl", "openrlhf") else 1
    if update % (ranks * micro):
        passes = f" in passes of {micro}" if micro > 1 else ""
        yield f"{update:,} rollouts an update are not shared out evenly to {ranks} GPUs{passes}"


MOST_CUT, MOST_DEAD = 0.2, 0.4  # shares of responses and of groups above which a launch should wait
MOST_DAYS, MOST_DISK = 30, 20e12  # of a run, and bytes of its checkpoints, that somebody should have meant
UNPAYABLE: Final = 1e6  # dollars that no budget for one run has: a limit that is never reached, or read wrong
MOST_BESIDE: Final = 0.1  # share of the time that validations, or saves, may take
LEAST_GAIN: Final = 1 / 3  # of what the rule's learning rate gains
UNSAVED_HOURS: Final = 2.0  # that a crash may lose
USUAL_GROUPS: Final = (8, 16)  # rollouts per prompt that leave fewer groups dead
# Each GPU holds all weights, with zero1 gradients too, with ddp the optimizer as well.
UNSHARDED: Final = ("ddp", "zero1", "zero2")


@dataclass(frozen=True, slots=True)
class Memory:
    """What a GPU holds at most, in bytes: of training by part, and of an engine."""

    training: Mapping[str, float]  # with one longest sequence
    spared: float  # of these where as many GPUs share a sequence as can
    micro_batch: float  # what a micro-batch of more adds
    engine: float  # weights and one longest sequence, on each of the engine's GPUs
    usable: float
    fewest_gpus: int | None  # that would do, all states sharded; None: no number

    @property
    def used(self) -> float:
        """Bytes of training on each GPU."""
        return sum(self.training.values())

    @property
    def fits(self) -> bool:
        """Whether training and engine fit, GPUs sharing a sequence where it needs that."""
        return max(self.used - self.spared, self.engine) <= self.usable

    @property
    def tight(self) -> bool:
        """Whether they fit, and a whole micro-batch on each GPU may not."""
        return self.fits and self.used + self.micro_batch > self.usable


@dataclass(frozen=True, slots=True)
class Flag:
    """Something that should stop a launch; one that rests on a guess asks for what would settle it."""

    name: str  # memory, sizes, rate, cut, dead, schedule, resume, saves, saving, data or validation
    why: str
    asks: str | None = None  # the flag that replaces the guess


@dataclass(frozen=True)
class Verdict:
    """What a launch comes to; of a run whose length nobody says, only a step."""

    launch: Launch
    price: Price  # of an update
    memory: Memory

    @property
    def step_seconds(self) -> Interval:
        """Seconds of a batch; further passes over it train once more and generate nothing."""
        median, low, high = self.price.seconds
        share = self.price.cost.seconds_by_phase[Phase.TRAIN] / median
        times = self.launch.traits.updates_per_batch * (1 + (self.launch.passes - 1) * share)
        return times * median, times * low, times * high

    @property
    def gpu_hours_per_step(self) -> float:
        """GPU-hours of a batch."""
        return self.step_seconds[0] * self.price.cost.placement.gpus / SECONDS_PER_HOUR

    @property
    def hours(self) -> Interval | None:
        """Hours of the whole run, start-up included."""
        if self.launch.steps is None:
            return None
        start = self.price.cost.start_up_seconds / SECONDS_PER_HOUR
        median, low, high = (self.launch.steps * seconds / SECONDS_PER_HOUR for seconds in self.step_seconds)
        return median + start, low + start, high + start

    @property
    def gpu_hours(self) -> Interval | None:
        """GPU-hours of the whole run."""
        gpus, hours = self.price.cost.placement.gpus, self.hours
        return None if hours is None else (gpus * hours[0], gpus * hours[1], gpus * hours[2])

    @property
    def dollars(self) -> float | None:
        """What these cost at the catalogue's price of a GPU-hour."""
        price = self.launch.hardware.gpu.dollars_per_hour
        return None if self.gpu_hours is None or not price else price * self.gpu_hours[0]

    @property
    def cut_off(self) -> float:
        """Share of the responses that are cut off."""
        return self.launch.workload.under(self.launch.traits).responses.truncated_share

    @property
    def dead_groups(self) -> float:
        """Share of the groups whose rewards are all equal."""
        return 1 - signal_fraction(self.launch.workload.pass_rates, self.launch.rollouts_per_prompt)

    @property
    def surely_cut(self) -> float:
        """That share at the low end of the mean response's 90 % interval, where the mean is a guess."""
        if self.launch.length_known:
            return self.cut_off
        shorter = math.exp(-Z90 * self.launch.coefficients.length_log_sd)
        responses = self.launch.workload.responses
        return responses.with_mean(responses.mean * shorter).truncated_share

    @property
    def beside(self) -> dict[Phase, float]:
        """Share of the time that validations take, and checkpoints, each as if there were none of the other."""
        times = {phase: self.price.cost.seconds_by_phase.get(phase, 0.0) for phase in (Phase.EVALUATE, Phase.SAVE)}
        rest = self.price.cost.step_seconds - sum(times.values())
        return {phase: seconds / (rest + seconds) for phase, seconds in times.items()}

    @property
    def surely_dead(self) -> float:
        """That share at the pass rate with the fewest dead groups, where the pass rates are a guess."""
        n = self.launch.rollouts_per_prompt
        return self.dead_groups if self.launch.rates_known else 2 * 0.5**n

    @property
    def rate_factor(self) -> float | None:
        """The script's learning rate over the rule's for the rollouts of an update."""
        return None if self.launch.learning_rate is None else self.launch.learning_rate / self.launch.rule_rate

    @property
    def staleness(self) -> int:
        """Updates by which the weights that wrote a rollout may be behind those that train on it."""
        return self.launch.traits.staleness_bound + self.launch.updates - 1

    @property
    def epochs(self) -> float | None:
        """Passes over the prompts, where their number and the run's length are known."""
        launch = self.launch
        if launch.steps is None or not launch.prompts_known:
            return None
        return launch.prompts_per_batch * launch.steps / launch.workload.prompt_set_size

    @property
    def validation_share(self) -> float:
        """Share of the time that validations take."""
        cost = self.price.cost
        return cost.seconds_by_phase.get(Phase.EVALUATE, 0.0) / cost.step_seconds if self.launch.validates else 0.0

    @property
    def visible_difference(self) -> float | None:
        """The least difference between two validations that exceeds their 90 % error, by binomial noise."""
        if not self.launch.validates:
            return None
        rate = self.launch.workload.pass_rates.mean
        return Z90 * math.sqrt(2 * rate * (1 - rate) / self.launch.workload.validation.rollouts)

    @property
    def checkpoints(self) -> tuple[int, float] | None:
        """How many checkpoints are on the disk at the end, and the bytes of each."""
        launch = self.launch
        if launch.save_every is None or launch.steps is None:
            return None
        made = math.ceil(launch.steps / launch.save_every)
        checkpoint = checkpoint_bytes(launch.workload.model, launch.traits.execution.lora_rank)
        return min(made, launch.keep_checkpoints or made), checkpoint

    @cached_property
    def flags(self) -> tuple[Flag, ...]:
        """What should stop the launch, the worst first, and what may be such."""
        return (*_flags(self), *_flags_of_length(self))

    @property
    def stops(self) -> bool:
        """Whether something should stop the launch that is no guess."""
        return any(flag.asks is None for flag in self.flags)


def _flags_of_length(judged: Verdict) -> Iterator[Flag]:
    """Yield what a run that is much longer than anybody wants comes to: often its epochs are of a larger data set."""
    launch, hours, checkpoints = judged.launch, judged.hours, judged.checkpoints
    asks = "--prompts" if launch.prompts_by_name and "update_steps" not in launch.explicit else None
    if judged.dollars is not None and judged.dollars > UNPAYABLE:
        why = f"{launch.steps:,} steps would cost ${judged.dollars:,.0f}: a limit that is never reached, or misread."
        yield Flag("length", why, "--steps")
        return
    if hours is not None and hours[0] > MOST_DAYS * 24:
        dollars = "" if judged.dollars is None else f" and ${judged.dollars:,.0f}"
        why = f"The run takes {hours[0] / 24:,.0f} days{dollars}"
        size = f": {launch.workload.prompt_set_size:,} prompts, by the name of the data" if asks else ""
        yield Flag("length", f"{why}{size}.", asks)
    if checkpoints is not None and checkpoints[0] * checkpoints[1] > MOST_DISK:
        yield Flag(
            "disk",
            f"{checkpoints[0]:,} checkpoints take {checkpoints[0] * checkpoints[1] / 1e12:,.0f} TB: keep fewer.",
            asks,
        )


def verdict(launch: Launch) -> Verdict:
    """Say what a launch comes to."""
    step_price = launch.priced()
    return Verdict(launch, step_price, memory_of(launch, step_price.cost.placement.trainer_gpus))


def memory_of(launch: Launch, trainers: int) -> Memory:
    """Return what each GPU holds while it trains, by how the script shards, and what an engine needs."""
    workload, traits, gpu = launch.workload, launch.traits, launch.hardware.gpu
    longest = launch.longest_prompt + workload.responses.cap
    model, rank = workload.model, traits.execution.lora_rank
    static, optimizer = states(model, reference=traits.reference_pass, lora_rank=rank)
    weights = model.weight_bytes * (1 + (traits.reference_pass and rank is None))
    parts = {
        "weights": weights / trainers,
        "gradients": (static - weights) / trainers,
        "optimizer": optimizer / trainers,
    }
    match launch.sharding:
        case "ddp":
            parts = {name: trainers * size for name, size in parts.items()}
        case "zero1" | "zero2":
            parts["weights"] = weights
            parts["gradients"] *= trainers if launch.sharding == "zero1" else 1
        case "megatron" if launch.model_parallel:  # experts are on GPUs of their own; gradients are summed in float32
            width, spread = min(trainers, launch.model_parallel), model.expert_weights / model.parameters
            share = (1 - spread) / width + spread / trainers
            parts |= {"weights": weights * share, "gradients": 2 * (static - weights) * share}
    if launch.optimizer_offload:
        del parts["optimizer"]
    several = (launch.micro_batch_sequences or 1) * (workload.prompt_tokens + workload.responses.mean)
    beyond = max(longest, several, launch.micro_batch_tokens or 0) - longest
    of_token = token_bytes(model, CHUNKED, launch.width)
    parts["activations"] = of_token * longest
    sizes = engine_sizes(workload, gpu, launch.hardware.gpus_per_trial, traits.execution)
    size = traits.execution.engine_gpus or usual_engine(workload, gpu, sizes)
    engine = model.engine_bytes(fp8=traits.execution.fp8_rollouts) + model.cache_bytes(longest)
    shared = memory_share(workload, traits, gpu, trainers) * gpu.usable_bytes - (static + optimizer) / trainers
    spared = max(0.0, parts["activations"] - shared)
    return Memory(parts, spared, of_token * beyond, engine / size, gpu.usable_bytes, fewest_gpus(workload, traits, gpu))


def _flags(judged: Verdict) -> Iterator[Flag]:
    launch, memory = judged.launch, judged.memory
    gpu = f"{memory.usable / 1e9:,.0f} GB of a {launch.hardware.gpu.name}"
    if not memory.fits:
        least = memory.used - memory.spared
        place, needed = ("training", least) if least > memory.usable else ("an engine", memory.engine)
        why = f"Does not fit: {place} needs at least {needed / 1e9:,.0f} of {gpu}."
        yield Flag("memory", why, None if launch.gpu_known else "--gpu")
    if refused := list(refused_sizes(launch)):
        yield Flag("sizes", f"{launch.trainer} refuses these sizes: {'; '.join(refused)}.")
    if (factor := judged.rate_factor) is not None and (retained := retained_gain(factor)) < LEAST_GAIN:
        rates = f"{launch.learning_rate:.2g} is {float(f'{factor:.2g}'):g} × the rule's {launch.rule_rate:.2g}"
        why = f"The learning rate {rates}: it should lose {percent(1 - retained)} of the gain."
        yield Flag("rate", why.replace("e-0", "e-"))
    if judged.surely_cut > MOST_CUT:
        why = f"{percent(judged.cut_off)} of the responses are cut off at {launch.workload.responses.cap:,} tokens."
        yield Flag("cut", why, None if launch.length_known else "--mean-response-tokens")
    if judged.surely_dead > MOST_DEAD and not launch.traits.refills_groups:
        rate, n = launch.workload.pass_rates.mean, launch.rollouts_per_prompt
        why = f"{percent(judged.dead_groups)} of the groups are dead at n = {n}, pass rate {rate:.2g}"
        surely = f"At least {percent(judged.surely_dead)} of the groups are dead at n = {n}, whatever the pass rates"
        more = [(group, 1 - signal_fraction(launch.workload.pass_rates, group)) for group in USUAL_GROUPS if group > n]
        instead = ", ".join(f"{percent(dead)} at n = {group}" for group, dead in more)
        yield Flag("dead", f"{why if launch.rates_known else surely}{instead and f'; {instead}'}.")
    ends, schedule = launch.schedule_steps, launch.lr_schedule or "constant"
    if not schedule.startswith("constant") and ends and launch.steps and ends != launch.steps:
        yield Flag("schedule", f"The {schedule} schedule ends at step {ends:,}, the run at step {launch.steps:,}.")
    if launch.resume and launch.save_every is None and "resume" in launch.explicit:
        yield Flag("resume", "It asks to resume, but saves no checkpoint to resume from.")
    elif launch.save_every is None and judged.hours is not None and judged.hours[0] > UNSAVED_HOURS:
        yield Flag("saves", f"No checkpoint is saved: a crash loses up to {judged.hours[0]:,.0f} h.")
    if (share := judged.beside[Phase.SAVE]) > MOST_BESIDE:
        every = "step" if launch.save_every == 1 else f"{launch.save_every:,} steps"
        yield Flag("saving", f"Checkpoints take {percent(share)} of the time: one every {every}.")
    if launch.validates and not launch.validation_data:
        yield Flag("data", "It asks for validations, but gives no data to validate on.")
    elif launch.validates and (share := judged.beside[Phase.EVALUATE]) > MOST_BESIDE:
        asks = None if launch.problems_known else "--validation-problems"
        yield Flag("validation", f"Validations take {percent(share)} of the time.", asks)
