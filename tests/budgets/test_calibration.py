import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from budgets import catalogue
from budgets.calibration import MeasuredStep, calibrate
from budgets.coefficient_fit import SETUP_LOG_SD
from budgets.coefficients import CONSTANTS, Coefficients, prior
from budgets.cost import Z90, StepCost, phase_seconds, step_cost
from budgets.errors import InputError
from budgets.generation import evaluate_seconds
from budgets.hardware import Hardware
from budgets.memory import Placement
from budgets.signal import signal_fraction
from budgets.work import Driver, Phase, StepLoad, total
from budgets.workload import Workload
from tests.budgets.traits import TRAITS
from tests.budgets.workloads import workload_of

GPU = catalogue.gpu("h100")
EIGHT = Hardware(GPU, 8, 8)
BEFORE = prior(GPU)
TOGETHER = Placement(8, 8, colocated=True)
DECODING = CONSTANTS["decode"]
SHAPES = [(n, prompts) for n in (4, 16, 64) for prompts in (8, 32, 128)]


def phases_of(
    workload: Workload, recipe: str, placement: Placement, n: int, prompts: int, truth: Coefficients
) -> dict[Phase, float]:
    traits = TRAITS[recipe]
    load = StepLoad.of(n, prompts, traits, signal_fraction(workload.pass_rates, n))
    phases = phase_seconds(workload, GPU, placement, traits, load, truth)
    phases[Phase.EVALUATE] = truth.apply(evaluate_seconds(workload, GPU, placement.generator_gpus))
    return {phase: total(seconds) for phase, seconds in phases.items() if seconds}


def measure(
    workload: Workload,
    recipe: str,
    truth: Coefficients,
    rng: np.random.Generator,
    shapes: list[tuple[int, int]],
    noise: float = 0.08,
    placement: Placement = TOGETHER,
) -> list[MeasuredStep]:
    """Time steps of a machine whose coefficients are known, with log-normal noise on each phase."""
    steps, traits = [], TRAITS[recipe]
    for n, prompts in shapes:
        load = StepLoad.of(n, prompts, traits, signal_fraction(workload.pass_rates, n))
        seen = workload.with_mean_response(workload.responses.mean * math.exp(rng.normal(0, 0.05)))
        exact = phases_of(seen, recipe, placement, n, prompts, truth)
        seconds = {phase: value * math.exp(rng.normal(0, noise)) for phase, value in exact.items()}
        tokens = (workload.prompt_tokens, seen.responses.mean)
        steps.append(MeasuredStep(n, placement, traits, load.generated, load.trained, *tokens, seconds))
    return steps


def drawn(rng: np.random.Generator) -> Coefficients:
    """Draw a machine as they are known to differ: as a whole, and in each part."""
    of_setup = rng.normal(0, SETUP_LOG_SD)
    variance = {driver: BEFORE.log_covariance[driver, driver] for driver in Driver}
    shared = min(variance[driver] for driver in DECODING) / 2
    of_decoding = rng.normal(0, math.sqrt(shared))
    log_mean = {}
    for driver, mean in BEFORE.log_mean.items():
        decoding = driver in DECODING
        own = rng.normal(0, math.sqrt(variance[driver] - (shared if decoding else 0)))
        log_mean[driver] = mean + of_setup + own + (of_decoding if decoding else 0)
    return Coefficients(log_mean=log_mean)


def priced(workload: Workload, recipe: str, known: Coefficients, n: int = 32, prompts: int = 64) -> StepCost:
    return step_cost(workload, EIGHT, TRAITS[recipe], n, prompts, known)


def test_without_records_the_prior_stands() -> None:
    calibration = calibrate(workload_of(), GPU, [])
    assert calibration.coefficients == BEFORE
    assert calibration.mean_response is None


@pytest.mark.parametrize("recipe", ["grpo", "scalerl", "dapo"])
def test_predictions_narrow_and_cover_the_true_cost(recipe: str) -> None:
    workload = workload_of(cap=4096)
    placement = Placement(6, 2, colocated=False) if recipe == "scalerl" else TOGETHER
    inside, widths = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        truth = drawn(rng)
        records = measure(workload, recipe, truth, rng, SHAPES * 2, placement=placement)
        widths.append([priced(workload, recipe, Coefficients()).log_sd])
        for count in (1, 4, 18):
            calibration = calibrate(workload, GPU, records[:count])
            assert calibration.mean_response == pytest.approx(workload.responses.mean, rel=0.2)
            seen = workload.with_mean_response(calibration.mean_response)
            cost = priced(seen, recipe, calibration.coefficients)
            widths[-1].append(cost.log_sd)
            inside.append(
                abs(math.log(true_seconds(workload, recipe, cost, truth) / cost.step_seconds)) < Z90 * cost.log_sd
            )
        assert widths[-1][-1] < 0.4 * widths[-1][0]
    assert list(np.mean(widths, axis=0)) == sorted(np.mean(widths, axis=0), reverse=True)
    assert np.mean(inside) >= 0.9


def true_seconds(workload: Workload, recipe: str, cost: StepCost, truth: Coefficients) -> float:
    phases = phases_of(workload, recipe, cost.placement, 32, 64, truth)
    phases[Phase.EVALUATE] /= workload.validation.every_steps
    training = sum(phases.pop(phase, 0.0) for phase in (Phase.TRAIN, Phase.REFERENCE))
    generating = sum(phases.values())
    return max(training, generating) if TRAITS[recipe].asynchronous else training + generating


@pytest.mark.parametrize("factor", [1e-6, 0.1, 10, 1e6])
def test_one_odd_record_does_not_carry_the_rest_away(factor: float) -> None:
    workload, rng = workload_of(cap=4096), np.random.default_rng(0)
    records = measure(workload, "grpo", BEFORE, rng, [(8, 32)] * 8, noise=0.05)
    odd = {phase: seconds * factor for phase, seconds in records[0].seconds.items()}
    odd_step = replace(records[0], seconds=odd)
    calm, upset = (calibrate(workload, GPU, steps) for steps in (records, [*records, odd_step]))
    before, after = (priced(workload, "grpo", one.coefficients, 8, 32) for one in (calm, upset))
    assert after.step_seconds / before.step_seconds == pytest.approx(1, abs=0.45)
    assert after.log_sd > before.log_sd
    assert upset.coefficients.unmodelled_log_sd > 3 * calm.coefficients.unmodelled_log_sd
    assert before.gpu_hours_per_step < after.gpu_hours_per_step_high
    assert before.gpu_hours_per_step > after.gpu_hours_per_step_low


def test_longer_responses_are_learned() -> None:
    workload, rng = workload_of(cap=4096, mean_share=0.2), np.random.default_rng(0)
    longer = workload.with_mean_response(2500)
    records = measure(longer, "grpo", BEFORE, rng, SHAPES)
    calibration = calibrate(workload, GPU, records)
    assert calibration.mean_response == pytest.approx(2500, rel=0.06)
    assert calibration.coefficients.length_log_sd < Coefficients().length_log_sd
    # The longer responses explain the longer seconds; the coefficients stay where they were, parts of decoding nearly.
    assert all(abs(calibration.coefficients.log_mean[driver] - BEFORE.log_mean[driver]) < 0.3 for driver in Driver)


def test_phases_that_the_recipe_lacks_or_that_took_no_time_are_left_out() -> None:
    workload, rng = workload_of(cap=4096), np.random.default_rng(0)
    (record,) = measure(workload, "dr-grpo", Coefficients(), rng, [(8, 32)])
    more = {**record.seconds, Phase.REFERENCE: 5.0, Phase.EVALUATE: 0.0}
    fewer = {phase: seconds for phase, seconds in record.seconds.items() if phase is not Phase.EVALUATE}
    results = [calibrate(workload, GPU, [replace(record, seconds=seconds)]) for seconds in (more, fewer)]
    assert results[0] == results[1]
    with pytest.raises(InputError, match="none of the measured steps has a phase with positive seconds"):
        calibrate(workload, GPU, [replace(record, seconds={Phase.TRAIN: 0.0, Phase.REFERENCE: 1.0})])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rollouts_per_prompt": 0}, "needs positive rollouts and tokens"),
        ({"seconds": {Phase.TRAIN: -1.0}}, "gives -1.0 seconds for train: it must be finite and not negative"),
        ({"together": {(Phase.TRAIN,): math.nan}}, "gives nan seconds for .* it must be finite and not negative"),
        ({"whole": math.inf}, "must be finite and positive"),
    ],
)
def test_a_measured_step_has_rollouts_tokens_and_finite_seconds(change: dict[str, Any], message: str) -> None:
    (step,) = measure(workload_of(), "grpo", BEFORE, np.random.default_rng(0), [(8, 4)])
    assert step.load == StepLoad(prompts=4, generated=32, trained=32)
    with pytest.raises(InputError, match=message):
        replace(step, **change)


# Whole steps


def whole_of(step: MeasuredStep, noise: float = 0.0) -> MeasuredStep:
    """Return a step of which only the whole is known: validations are no part of it, and waiting is none of a phase."""
    generating = math.fsum(step.seconds.get(phase, 0.0) for phase in (Phase.GENERATE, Phase.REWARD, Phase.SYNC))
    training = math.fsum(step.seconds.get(phase, 0.0) for phase in (Phase.OLD_LOG_PROBS, Phase.REFERENCE, Phase.TRAIN))
    took = max(generating, training) if step.traits.asynchronous else generating + training
    return replace(step, seconds={}, whole=took * math.exp(noise))


@pytest.mark.parametrize("recipe", ["grpo", "scalerl"])
@pytest.mark.parametrize("factor", [0.6, 1.7, 4.0])
def test_the_seconds_of_whole_steps_alone_teach_what_such_a_step_costs(recipe: str, factor: float) -> None:
    workload, placement = workload_of(cap=4096), Placement(6, 2, colocated=False) if recipe == "scalerl" else TOGETHER
    slower = replace(BEFORE, log_mean={driver: mean + math.log(factor) for driver, mean in BEFORE.log_mean.items()})
    timed = measure(workload, recipe, slower, np.random.default_rng(0), [(16, 64)] * 10, 0.0, placement)

    known = calibrate(workload, GPU, [whole_of(step) for step in timed]).coefficients

    def seconds(coefficients: Coefficients) -> float:
        price = step_cost(workload, EIGHT, TRAITS[recipe], 16, 64, coefficients, placement=placement)
        return price.step_seconds - price.seconds_by_phase[Phase.EVALUATE]

    assert seconds(known) / seconds(BEFORE) == pytest.approx(factor, rel=0.12)


def test_intervals_cover_other_shapes_of_a_set_up_of_which_whole_steps_of_one_are_known() -> None:
    workload = workload_of(cap=4096)
    inside, widths = [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        truth = drawn(rng)
        own_shape = rng.normal(0, 0.05)  # what the form gets wrong of it
        timed = [
            whole_of(step, own_shape) for step in measure(workload, "grpo", truth, rng, [(16, 64)] * 10, noise=0.05)
        ]
        known = replace(calibrate(workload, GPU, timed).coefficients, length_log_sd=0.0)
        for n, prompts, gpus in ((8, 32, 8), (16, 64, 16), (32, 128, 32)):
            terms = (workload, Hardware(GPU, gpus, gpus), TRAITS["grpo"], n, prompts)
            price, true = step_cost(*terms, known), step_cost(*terms, truth)
            inside.append(abs(math.log(true.step_seconds / price.step_seconds)) < Z90 * price.log_sd)
            widths.append(math.exp(Z90 * price.log_sd))
    assert np.mean(inside) >= 0.85
    assert np.median(widths) < 1.45


@pytest.mark.parametrize("with_whole", [False, True])
@pytest.mark.parametrize(
    ("odd", "times", "drivers"),
    [
        (Phase.SYNC, 30, [Driver.WEIGHT_SYNC]),
        (Phase.GENERATE, 5, DECODING),
        (Phase.TRAIN, 0.3, [Driver.TRAIN_COMPUTE, Driver.FIXED]),
    ],
)
def test_a_machine_unlike_all_that_were_published_is_believed(
    odd: Phase, times: float, drivers: Sequence[Driver], with_whole: bool
) -> None:
    workload = workload_of(cap=4096)
    truth = replace(BEFORE, log_mean={**BEFORE.log_mean, **{d: BEFORE.log_mean[d] + math.log(times) for d in drivers}})
    (unlike,) = measure(workload, "grpo", truth, np.random.default_rng(0), [(16, 64)], noise=0.0)
    if with_whole:
        unlike = replace(unlike, whole=whole_of(unlike).whole)

    known = calibrate(workload, GPU, [unlike] * 10).coefficients

    priced_at = phases_of(workload.with_mean_response(unlike.mean_response_tokens), "grpo", TOGETHER, 16, 64, known)
    # Beside whole steps phases count for less, since each trainer cuts them in its own way.
    assert priced_at[odd] / unlike.seconds[odd] == pytest.approx(1, abs=0.5 if with_whole else 0.2)
    del priced_at[Phase.EVALUATE]
    assert sum(priced_at.values()) == pytest.approx(whole_of(unlike).whole, rel=0.1)


def test_phases_that_were_timed_together_are_added_up() -> None:
    workload = workload_of(cap=4096)
    (step,) = measure(workload, "easy", BEFORE, np.random.default_rng(0), [(16, 64)], noise=0.0)
    both = (Phase.REFERENCE, Phase.TRAIN)
    rest = {phase: seconds for phase, seconds in step.seconds.items() if phase not in both}
    together = replace(step, seconds=rest, together={both: 1.5 * sum(step.seconds[phase] for phase in both)})

    known = calibrate(workload, GPU, [together] * 10).coefficients

    assert known.log_mean[Driver.TRAIN_COMPUTE] > BEFORE.log_mean[Driver.TRAIN_COMPUTE] + 0.2


def test_many_steps_of_one_shape_leave_the_doubt_about_others() -> None:
    workload = workload_of(cap=4096)
    timed = [whole_of(step) for step in measure(workload, "grpo", BEFORE, np.random.default_rng(0), SHAPES, noise=0.05)]
    one = calibrate(workload, GPU, timed[4:5]).coefficients
    often = calibrate(workload, GPU, timed[4:5] * 100).coefficients
    others = calibrate(workload, GPU, timed * 11).coefficients
    widths = [priced(workload, "grpo", replace(each, length_log_sd=0.0)).log_sd for each in (one, often, others)]
    assert widths[1] == pytest.approx(widths[0], rel=0.02)
    assert widths[2] < 0.8 * widths[1]


def test_steps_whose_responses_nobody_measured_leave_the_length_as_uncertain_as_it_was() -> None:
    base = workload_of()
    measured = measure(base, "grpo", BEFORE, np.random.default_rng(3), SHAPES)
    silent = calibrate(base, GPU, [replace(step, response_known=False) for step in measured], BEFORE)
    told = calibrate(base, GPU, measured, BEFORE)

    assert silent.mean_response is None
    assert silent.coefficients.length_log_sd == BEFORE.length_log_sd > told.coefficients.length_log_sd
    assert told.mean_response is not None
