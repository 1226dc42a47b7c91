"""Learn the cost model's coefficients from measured steps, the closed form being the prior.

Measured seconds of a phase are y = (Σ_j e^{c_j} f_j) · e^ε with base seconds f_j, log coefficients c_j ~ N(m_j, s_j²)
and log noise ε ~ N(0, σ²). The posterior of c is a Gaussian around its mode (Laplace), found by Gauss–Newton; σ is
estimated with it, shrunk towards its prior. Lengths are measured beside the seconds and replace the assumed ones.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from budgets.coefficients import PRIOR_LENGTH_LOG_SD, PRIOR_LOG_SD, Coefficients, prior
from budgets.cost import phase_seconds
from budgets.errors import InputError
from budgets.hardware import Gpu
from budgets.memory import Placement
from budgets.work import Driver, Phase, StepLoad, evaluate_seconds
from budgets.workload import RecipeTraits, Workload

NOISE_PRIOR_SD = 0.10
NOISE_PRIOR_WEIGHT = 4.0  # the prior of σ counts as much as so many measured phases
LENGTH_FLOOR_LOG_SD = 0.10  # responses grow and shrink during training
LENGTH_STEP_LOG_SD = 0.30  # between steps of one run

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """One update as it was timed: how it was trained, what it generated, on which GPUs, the seconds of each phase.

    `generated_rollouts` counts refills too; `trained_rollouts` leaves out what a filter dropped.
    """

    rollouts_per_prompt: int
    placement: Placement
    traits: RecipeTraits
    generated_rollouts: float
    trained_rollouts: float
    mean_prompt_tokens: float
    mean_response_tokens: float
    seconds: Mapping[Phase, float]

    def __post_init__(self) -> None:
        counts = (self.rollouts_per_prompt, self.generated_rollouts, self.mean_prompt_tokens, self.mean_response_tokens)
        if min(counts) <= 0 or self.trained_rollouts < 0:
            raise InputError(f"a measured step needs positive rollouts and tokens; given was {self}")
        for phase, seconds in self.seconds.items():
            if not (math.isfinite(seconds) and seconds >= 0):
                raise InputError(
                    f"a measured step gives {seconds} seconds for {phase}: it must be finite and not negative"
                )

    @property
    def load(self) -> StepLoad:
        """The rollouts as the cost model counts them."""
        prompts = self.generated_rollouts / self.rollouts_per_prompt
        return StepLoad(prompts, self.generated_rollouts, self.trained_rollouts)


@dataclass(frozen=True, slots=True)
class Calibration:
    """What measured steps taught: coefficients, the mean response they saw, and the noise between steps."""

    coefficients: Coefficients
    mean_response: float | None
    noise_log_sd: float


def calibrate(
    workload: Workload, gpu: Gpu, measured: Sequence[MeasuredStep], before: Coefficients | None = None
) -> Calibration:
    """Return the posterior of the coefficients after so many measured steps; the prior when there are none.

    The prior is what published runs say of trainers at large, unless one is given.
    """
    before = before or prior(gpu, workload.model)
    if not measured:
        return Calibration(before, None, NOISE_PRIOR_SD)
    features, seconds = _design(workload, gpu, measured)
    prior_mean = np.array([before.log_mean[driver] for driver in Driver])
    # A machine of one's own may be unlike all that were published: its steps count against a wide prior.
    prior_precision = np.diag([1 / PRIOR_LOG_SD[driver] ** 2 for driver in Driver])
    mode, covariance, noise = _posterior(features, np.log(seconds), prior_mean, prior_precision)
    lengths = np.log([step.mean_response_tokens for step in measured])
    length_precision = 1 / PRIOR_LENGTH_LOG_SD**2 + len(measured) / LENGTH_STEP_LOG_SD**2
    return Calibration(
        Coefficients(
            log_mean={driver: float(mode[i]) for i, driver in enumerate(Driver)},
            log_covariance={
                (a, b): float(covariance[i, j]) for i, a in enumerate(Driver) for j, b in enumerate(Driver)
            },
            length_log_sd=math.hypot(1 / math.sqrt(length_precision), LENGTH_FLOOR_LOG_SD),
            records=len(measured),
            unmodelled_log_sd=before.unmodelled_log_sd,
        ),
        mean_response=float(np.exp(lengths.mean())),
        noise_log_sd=noise,
    )


def _design(workload: Workload, gpu: Gpu, measured: Sequence[MeasuredStep]) -> tuple[Vector, Vector]:
    """Lay out one row of base seconds per measured phase, and the seconds it took."""
    rows, seconds = [], []
    for step in measured:
        seen = replace(workload, prompt_tokens=step.mean_prompt_tokens).with_mean_response(step.mean_response_tokens)
        base = phase_seconds(seen, gpu, step.placement, step.traits.uninterrupted, step.load, Coefficients())
        base[Phase.EVALUATE] = evaluate_seconds(seen, gpu, step.placement.generator_gpus, step.placement.engine_gpus)
        for phase, took in step.seconds.items():
            row = [base[phase].get(driver, 0.0) for driver in Driver]
            if took > 0 and sum(row) > 0:
                rows.append(row)
                seconds.append(took)
    if not rows:
        raise InputError("none of the measured steps has a phase with positive seconds that the cost model knows")
    return np.array(rows), np.array(seconds)


def _posterior(
    features: Vector, log_seconds: Vector, prior_mean: Vector, prior_precision: Vector
) -> tuple[Vector, Vector, float]:
    """Return mode and covariance of the log coefficients and the noise, by damped Gauss–Newton from the prior mean."""
    mode, noise = prior_mean.copy(), NOISE_PRIOR_SD

    def objective(c: Vector, sigma: float) -> float:
        residual = log_seconds - np.log(features @ np.exp(c))
        return float(residual @ residual / sigma**2 + (c - prior_mean) @ prior_precision @ (c - prior_mean))

    for _ in range(50):
        parts = features * np.exp(mode)
        predicted = parts.sum(axis=1)
        jacobian = parts / predicted[:, None]
        residual = log_seconds - np.log(predicted)
        precision = jacobian.T @ jacobian / noise**2 + prior_precision
        step = np.linalg.solve(precision, jacobian.T @ residual / noise**2 - prior_precision @ (mode - prior_mean))
        size = 1.0
        while size > 1e-3 and objective(mode + size * step, noise) > objective(mode, noise):
            size /= 2
        mode = mode + size * step
        residual = log_seconds - np.log(features @ np.exp(mode))
        weight = NOISE_PRIOR_WEIGHT
        noise = math.sqrt((weight * NOISE_PRIOR_SD**2 + float(residual @ residual)) / (weight + len(residual)))
        if float(np.abs(size * step).max()) < 1e-9:
            break
    parts = features * np.exp(mode)
    jacobian = parts / parts.sum(axis=1)[:, None]
    covariance = np.linalg.inv(jacobian.T @ jacobian / noise**2 + prior_precision)
    return mode, covariance, noise
