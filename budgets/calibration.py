"""Learn the cost model's coefficients from measured steps, what was known before being the prior.

Phases teach the coefficients, and so do whole steps: of these the phases are added up, or where training is
asynchronous the slower side counts, as in `budgets.cost`. What the form gets wrong of one shape of a step is the same
in all steps of that shape, so that together they count once. Lengths are measured beside the seconds and replace the
assumed ones.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from statistics import fmean

import numpy as np

from budgets.coefficient_fit import Timings, Vector, posterior
from budgets.coefficients import Coefficients, prior
from budgets.cost import GENERATOR_SIDE, TRAINER_SIDE, decisive_seconds, phase_seconds
from budgets.errors import InputError
from budgets.expected_lengths import GIVEN_LOG_SD
from budgets.generation import evaluate_seconds
from budgets.hardware import Gpu
from budgets.memory import Placement
from budgets.work import Driver, Phase, Seconds, StepLoad, save_seconds
from budgets.workload import RecipeTraits, Workload

PHASE_NOISE = 4.0  # times σ: each trainer cuts phases in its own way, which the seconds of a whole step do not show
OUTSIDE = (Phase.EVALUATE, Phase.SAVE)  # of a whole step, as it is timed
LENGTH_STEP_LOG_SD = 0.30  # between steps of one run
FEWEST_TO_DRIFT, DRIFT = 4, 0.10  # stretches of a run that tell a trend, and how much of one (as a logarithm) counts


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """One update as it was timed: how it was trained, what it generated, on which GPUs, the seconds of each phase.

    `generated_rollouts` counts refills too; `trained_rollouts` leaves out what a filter dropped. `whole` is the step
    from one update to the next without validations and saving, where that was timed; it may be all there is.
    """

    rollouts_per_prompt: int
    placement: Placement
    traits: RecipeTraits
    generated_rollouts: float
    trained_rollouts: float
    mean_prompt_tokens: float
    mean_response_tokens: float
    seconds: Mapping[Phase, float]
    together: Mapping[tuple[Phase, ...], float] = field(default_factory=dict)  # phases that were timed as one
    whole: float | None = None
    run: str = ""  # whose steps are given in their order
    response_known: bool = True  # whether its mean response was measured, and is not what was expected of it

    def __post_init__(self) -> None:
        counts = (self.rollouts_per_prompt, self.generated_rollouts, self.mean_prompt_tokens, self.mean_response_tokens)
        if min(counts) <= 0 or self.trained_rollouts < 0:
            raise InputError(f"a measured step needs positive rollouts and tokens; given was {self}")
        for phase, took in (*self.seconds.items(), *self.together.items()):
            if not (math.isfinite(took) and took >= 0):
                raise InputError(
                    f"a measured step gives {took} seconds for {phase}: it must be finite and not negative"
                )
        if self.whole is not None and not (math.isfinite(self.whole) and self.whole > 0):
            raise InputError(f"a measured step took {self.whole} seconds: it must be finite and positive")

    @property
    def load(self) -> StepLoad:
        """The rollouts as the cost model counts them."""
        prompts = self.generated_rollouts / self.rollouts_per_prompt
        return StepLoad(prompts, self.generated_rollouts, self.trained_rollouts)

    @property
    def shape(self) -> tuple[object, ...]:
        """What a price depends on beside the lengths: steps that share it share what the form gets wrong."""
        return self.rollouts_per_prompt, self.placement, self.traits, round(10 * math.log(self.generated_rollouts))


@dataclass(frozen=True, slots=True)
class Calibration:
    """What measured steps taught: coefficients, and the mean response they saw."""

    coefficients: Coefficients
    mean_response: float | None


def calibrate(
    workload: Workload, gpu: Gpu, measured: Sequence[MeasuredStep], before: Coefficients | None = None
) -> Calibration:
    """Return the posterior of the coefficients after so many measured steps; the prior when there are none.

    The prior is what published runs say of trainers at large, unless one is given.
    """
    before = before or prior(gpu)
    if not measured:
        return Calibration(before, None)
    timings = _timings(workload, gpu, measured)
    log_mean, log_covariance, noise = posterior(timings, before)
    heard = sum(step.response_known for step in measured)
    shrinkage = math.sqrt(1 + heard * (before.length_log_sd / LENGTH_STEP_LOG_SD) ** 2)
    return Calibration(
        Coefficients(
            log_mean=dict(zip(Driver, log_mean.tolist(), strict=True)),
            log_covariance=dict(zip(product(Driver, Driver), log_covariance.ravel().tolist(), strict=True)),
            length_log_sd=math.hypot(before.length_log_sd / shrinkage, GIVEN_LOG_SD) if heard else before.length_log_sd,
            unmodelled_log_sd=noise,
        ),
        mean_response=mean_response(measured),
    )


def mean_response(measured: Sequence[MeasuredStep]) -> float | None:
    """Return the mean response to expect of further steps: of several runs the geometric mean, each as it ended.

    None where none of them was measured.
    """
    runs: dict[str, list[float]] = {}
    for step in measured:
        if step.response_known:
            runs.setdefault(step.run, []).append(step.mean_response_tokens)
    if not runs:
        return None
    return math.exp(fmean(math.log(latest_mean(lengths)) for lengths in runs.values()))


def latest_mean(lengths: Sequence[float]) -> float:
    """Return the geometric mean of a run's mean responses: of its later half, where they have grown or shrunk by then.

    They have if the halves differ by a tenth, and by more than twice the error that their scatter leaves.
    """
    logs = np.log(lengths)
    if len(logs) >= FEWEST_TO_DRIFT:
        early, late = logs[: len(logs) // 2], logs[len(logs) // 2 :]
        drift = abs(float(late.mean() - early.mean()))
        error = math.sqrt(early.var(ddof=1) / len(early) + late.var(ddof=1) / len(late))
        if drift > max(DRIFT, 2 * error):
            logs = late
    return float(np.exp(logs.mean()))


def priced_phases(workload: Workload, gpu: Gpu, step: MeasuredStep, coefficients: Coefficients) -> dict[Phase, Seconds]:
    """Return what each phase of a measured step, a whole validation and a save are priced at, at its lengths."""
    return {phase: coefficients.apply(seconds) for phase, seconds in _base_seconds(workload, gpu, step).items()}


def priced_whole(phases: Mapping[Phase, Seconds], traits: RecipeTraits) -> Seconds:
    """Return what a whole step is priced at without validations and saves: all phases, or a split's slower side."""
    return decisive_seconds({phase: seconds for phase, seconds in phases.items() if phase not in OUTSIDE}, traits)


def _timings(workload: Workload, gpu: Gpu, measured: Sequence[MeasuredStep]) -> Timings:
    """Lay out the base seconds of all that was timed, each shape of a step with the weight of one."""
    shapes = Counter(step.shape for step in measured)
    rows: list[tuple[Vector, Vector, float, float, float]] = []
    nothing = np.zeros(len(Driver))
    for step in measured:
        share, noise = 1 / shapes[step.shape], 1.0 if step.whole is None else PHASE_NOISE
        base = _base_seconds(workload, gpu, step)
        for timed, took in (*(((phase,), took) for phase, took in step.seconds.items()), *step.together.items()):
            side = _by_driver(base, timed)
            if took > 0 and side.sum() > 0:
                rows.append((side, nothing, math.log(took), share / noise**2, share))
        if step.whole is not None:
            generating = _by_driver(base, (phase for phase in GENERATOR_SIDE if phase not in OUTSIDE))
            training = _by_driver(base, TRAINER_SIDE)
            sides = (generating, training) if step.traits.asynchronous else (generating + training, nothing)
            rows.append((*sides, math.log(step.whole), share, share))
    if not rows:
        raise InputError("none of the measured steps has a phase with positive seconds that the cost model knows")
    first, second, log_seconds, weight, shares = (np.array(column) for column in zip(*rows, strict=True))
    return Timings(first, second, log_seconds, weight, float(shares.sum()))


def _base_seconds(workload: Workload, gpu: Gpu, step: MeasuredStep) -> dict[Phase, Seconds]:
    """Return the nominal seconds of each phase at the lengths that were measured, of a whole validation and a save."""
    actual = replace(workload, prompt_tokens=step.mean_prompt_tokens).with_mean_response(step.mean_response_tokens)
    base = phase_seconds(actual, gpu, step.placement, step.traits.uninterrupted, step.load, Coefficients())
    generators, engine = step.placement.generator_gpus, step.placement.engine_gpus
    base[Phase.EVALUATE] = evaluate_seconds(actual, gpu, generators, engine, step.traits.execution)
    base[Phase.SAVE] = save_seconds(actual, gpu, step.placement.trainer_gpus, step.traits.execution)
    return base


def _by_driver(base: Mapping[Phase, Seconds], phases: Iterable[Phase]) -> Vector:
    together = [base[phase] for phase in phases]
    return np.array([math.fsum(seconds.get(driver, 0.0) for seconds in together) for driver in Driver])
