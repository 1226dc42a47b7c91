import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from budgets.coefficients import UNMODELLED_FLOOR_LOG_SD, Coefficients
from budgets.cost import StepCost, step_cost
from budgets.execution import Execution
from budgets.hardware import Hardware
from budgets.memory import fewest_gpus
from budgets.signal import MeasuredPassRates
from budgets.work import Driver, Phase
from budgets.workload import Validation, Workload
from tests.budgets.traits import TRAITS
from tests.budgets.workloads import hardware_of, workload_of

GENERATING = (Phase.GENERATE, Phase.REWARD, Phase.SYNC, Phase.EVALUATE)
TRAINING = (Phase.REFERENCE, Phase.TRAIN)

RECIPES = st.sampled_from(list(TRAITS))
TAKES_TURNS = st.sampled_from([name for name, traits in TRAITS.items() if not traits.asynchronous])
SPLITS = st.sampled_from([name for name, traits in TRAITS.items() if traits.asynchronous])
MODELS = st.sampled_from(["qwen2.5-0.5b", "qwen3-8b", "qwen3-30b-a3b", "llama-3.1-70b"])
ROLLOUTS = st.integers(2, 256)
PROMPTS = st.integers(1, 1024)
SHARES = st.floats(0.05, 0.9)
SPREADS = st.floats(0, 1.5)


def priced(workload: Workload, hardware: Hardware, recipe: str, n: int, prompts: int) -> StepCost:
    return step_cost(workload, hardware, TRAITS[recipe], n, prompts)


def kept_whole(workload: Workload, hardware: Hardware, recipe: str, n: int, prompts: int) -> float:
    """Seconds where no weights travel between the GPUs that train, which more of them may be slower for."""
    traits = replace(TRAITS[recipe], execution=Execution(sharding="never"))
    return step_cost(workload, hardware, traits, n, prompts).step_seconds


def fits(workload: Workload, hardware: Hardware, recipe: str) -> bool:
    fewest = fewest_gpus(workload, TRAITS[recipe], hardware.gpu)
    return fewest is not None and fewest <= hardware.gpus_per_trial


def side(cost: StepCost, phases: tuple[Phase, ...]) -> float:
    return sum(cost.seconds_by_phase[phase] for phase in phases)


@given(model=MODELS, recipe=RECIPES, n=ROLLOUTS, prompts=PROMPTS, gpus=st.integers(1, 64), spread=SPREADS)
def test_a_step_is_the_sum_of_its_phases_or_the_slower_side_and_counts_all_gpus(
    model: str, recipe: str, n: int, prompts: int, gpus: int, spread: float
) -> None:
    workload = workload_of(model, spread=spread)
    assume(fits(workload, hardware_of(gpus=gpus), recipe))
    cost = priced(workload, hardware_of(gpus=gpus), recipe, n, prompts)
    generating, training = side(cost, GENERATING), side(cost, TRAINING)
    whole = max(generating, training) if TRAITS[recipe].asynchronous else generating + training
    assert cost.step_seconds == pytest.approx(whole, rel=1e-12)
    assert set(cost.seconds_by_phase) == set(Phase) - {Phase.SAVE}
    assert cost.placement.gpus == gpus
    assert cost.gpu_hours_per_step == pytest.approx(cost.step_seconds * gpus / 3600, rel=1e-12)
    assert cost.start_up_gpu_hours == pytest.approx(cost.start_up_seconds * gpus / 3600, rel=1e-12)
    assert 0 < cost.gpu_hours_per_step_low < cost.gpu_hours_per_step < cost.gpu_hours_per_step_high
    assert cost.gpu_hours_per_step_low * cost.gpu_hours_per_step_high == pytest.approx(cost.gpu_hours_per_step**2)


@given(
    recipe=RECIPES,
    n=ROLLOUTS,
    prompts=PROMPTS,
    more=st.tuples(st.integers(0, 64), st.integers(0, 256)),
    share=SHARES,
    longer=st.floats(1, 3),
)
def test_more_rollouts_prompts_or_tokens_never_cost_less(
    recipe: str, n: int, prompts: int, more: tuple[int, int], share: float, longer: float
) -> None:
    workload = workload_of(mean_share=share)
    base = priced(workload, hardware_of(), recipe, n, prompts).step_seconds
    wordy = workload.with_mean_response(workload.responses.mean * longer)
    assert priced(wordy, hardware_of(), recipe, n, prompts).step_seconds >= base * (1 - 1e-6)
    # A multiple is shared out to as many GPUs at least; other numbers may leave a split without its best number.
    larger = prompts * (1 + more[1]) if TRAITS[recipe].asynchronous else prompts + more[1]
    assert priced(workload, hardware_of(), recipe, n, larger).step_seconds >= base * (1 - 1e-9)
    # Dynamic sampling is the exception in n: larger groups carry signal more often, so that fewer are refilled.
    if not TRAITS[recipe].refills_groups:
        larger = n * (1 + more[0]) if TRAITS[recipe].asynchronous else n + more[0]
        assert priced(workload, hardware_of(), recipe, larger, prompts).step_seconds >= base * (1 - 1e-9)


@pytest.mark.parametrize(("share", "cheaper"), [(0.4, (0.93, 0.99)), (0.8, (0.75, 0.93)), (0.05, (0.9999, 1.0001))])
@pytest.mark.parametrize("recipe", ["easy", "scalerl"])
def test_interruptions_cost_less_the_more_responses_they_end(
    recipe: str, share: float, cheaper: tuple[float, float]
) -> None:
    interrupting = replace(TRAITS[recipe], interrupted_from=0.7, interrupted_until=0.8)
    costs = [
        step_cost(workload_of(mean_share=share), hardware_of(), traits, 16, 512).step_seconds
        for traits in (interrupting, interrupting.uninterrupted)
    ]
    assert cheaper[0] < costs[0] / costs[1] < cheaper[1]


@given(model=MODELS, recipe=TAKES_TURNS, gpus=st.integers(1, 63), n=ROLLOUTS, prompts=PROMPTS, spread=SPREADS)
def test_more_gpus_never_take_longer(model: str, recipe: str, gpus: int, n: int, prompts: int, spread: float) -> None:
    workload = workload_of(model, spread=spread)
    assume(fits(workload, hardware_of(gpus=gpus), recipe))
    few = kept_whole(workload, hardware_of(gpus=gpus), recipe, n, prompts)
    assert kept_whole(workload, hardware_of(gpus=gpus + 1), recipe, n, prompts) <= few * (1 + 1e-9)


@given(model=MODELS, recipe=SPLITS, power=st.integers(1, 6), n=st.integers(4, 8), prompts=st.integers(4, 10))
def test_twice_the_gpus_split_never_take_longer(model: str, recipe: str, power: int, n: int, prompts: int) -> None:
    workload, gpus = workload_of(model), 2**power
    assume(fits(workload, hardware_of(gpus=gpus), recipe))
    few = kept_whole(workload, hardware_of(gpus=gpus), recipe, 2**n, 2**prompts)
    assert kept_whole(workload, hardware_of(gpus=2 * gpus), recipe, 2**n, 2**prompts) <= few * (1 + 1e-9)


@pytest.mark.parametrize(
    ("gpus", "parts", "cell", "trainers"),
    [
        (8, 1, (16, 64), {1, 2, 4}),  # not the 3 or 5 of a node, which share out no power of two
        (8, 1, (12, 64), {1, 2, 3, 4, 6}),
        (32, 1, (16, 64), {8, 16}),  # whole nodes, but not three of four
        (32, 1, (12, 64), {8, 16, 24}),
        (16, 2, (16, 64), {8}),  # each pilot four of eight, so that a node of the final run's two trains
        (64, 8, (16, 64), {8, 16, 32}),
    ],
)
@pytest.mark.parametrize("share", [0.05, 0.4, 0.9])
def test_a_split_has_whole_nodes_and_equal_shares(
    gpus: int, parts: int, cell: tuple[int, int], trainers: set[int], share: float
) -> None:
    for model in ("qwen2.5-0.5b", "qwen3-8b"):
        split = step_cost(
            workload_of(model, mean_share=share), hardware_of(gpus=gpus), TRAITS["scalerl"], *cell, parts=parts
        ).placement
        assert split.trainer_gpus in trainers
        assert split.gpus == gpus


def test_only_a_kl_term_has_a_reference_phase() -> None:
    with_kl, without = (priced(workload_of(), hardware_of(), recipe, 8, 64) for recipe in ("easy", "dr-grpo"))
    assert without.seconds_by_phase[Phase.REFERENCE] == 0
    reference = with_kl.seconds_by_phase[Phase.REFERENCE]
    assert reference > 0
    assert with_kl.step_seconds - without.step_seconds == pytest.approx(reference)


@given(n=ROLLOUTS, prompts=PROMPTS, rate=st.floats(0.02, 0.5))
def test_dynamic_sampling_pays_for_low_signal(n: int, prompts: int, rate: float) -> None:
    hard, easy = (workload_of(difficulty=MeasuredPassRates((value,))) for value in (rate / 2, rate))
    refilled = [priced(one, hardware_of(), "dapo", n, prompts).step_seconds for one in (hard, easy)]
    assert refilled[0] >= refilled[1]
    assert priced(hard, hardware_of(), "grpo", n, prompts).step_seconds == pytest.approx(
        priced(easy, hardware_of(), "grpo", n, prompts).step_seconds
    )


@given(n=ROLLOUTS, prompts=PROMPTS, spread=st.floats(0, 1.2), wider=st.floats(0.05, 0.5))
def test_a_synchronous_step_waits_for_the_longest_response(n: int, prompts: int, spread: float, wider: float) -> None:
    narrow, wide = (
        priced(workload_of(mean_share=0.2, spread=one), hardware_of(), "dr-grpo", n, prompts)
        for one in (spread, spread + wider)
    )
    assert wide.step_seconds > narrow.step_seconds


def test_validations_are_spread_over_the_steps_between_them() -> None:
    often, rarely = (
        priced(workload_of(validation=Validation(500, 8, every)), hardware_of(), "grpo", 8, 64) for every in (10, 100)
    )
    assert often.seconds_by_phase[Phase.EVALUATE] == pytest.approx(10 * rarely.seconds_by_phase[Phase.EVALUATE])
    whole = 100 * rarely.seconds_by_phase[Phase.EVALUATE]
    assert rarely.start_up_seconds > whole  # the base model is scored before any update


@pytest.mark.parametrize(("rollouts_per_step", "steps"), [(32, 64), (1024, 2), (5000, 1)])
def test_validation_by_rollouts_scores_every_batch_alike(rollouts_per_step: int, steps: int) -> None:
    assert Validation(128, 4, 5, every_rollouts=2048).steps_between(rollouts_per_step, 1) == steps
    assert Validation(128, 4, 5).steps_between(rollouts_per_step, 1) == 5


@pytest.mark.parametrize("recipe", ["grpo", "scalerl"])
def test_saves_are_spread_over_the_updates_between_them_and_stop_both_sides(recipe: str) -> None:
    def saving(every: float | None) -> StepCost:
        traits = replace(TRAITS[recipe], execution=Execution(save_seconds=every))
        return step_cost(workload_of(), hardware_of(), traits, 8, 64)

    without, rarely, each_update = saving(None), saving(3600), saving(1)
    whole = each_update.seconds_by_phase[Phase.SAVE]  # never more than one an update
    assert each_update.step_seconds == pytest.approx(without.step_seconds + whole)
    assert rarely.step_seconds == pytest.approx(without.step_seconds * (1 + whole / 3600))


@pytest.mark.parametrize("model", ["qwen3-0.6b", "qwen3-8b", "qwen2.5-32b"])
@pytest.mark.parametrize("recipe", ["grpo", "scalerl"])
def test_saves_whose_cadence_nobody_gives_take_two_per_cent_at_most(model: str, recipe: str) -> None:
    traits = replace(TRAITS[recipe], execution=Execution(save_seconds=600, save_share=0.02))
    cost = step_cost(workload_of(model), hardware_of(), traits, 8, 64)
    assert 0 < cost.seconds_by_phase[Phase.SAVE] <= 0.02 * cost.step_seconds
    assert cost.save_every_seconds is not None
    assert cost.save_every_seconds >= 600


@given(driver=st.sampled_from(list(Driver)), factor=st.floats(1.0, 5.0), recipe=RECIPES)
def test_a_larger_coefficient_never_makes_a_step_cheaper(driver: Driver, factor: float, recipe: str) -> None:
    slow = Coefficients(log_mean={**dict.fromkeys(Driver, 0.0), driver: math.log(factor)})
    arguments = (workload_of(), hardware_of(), TRAITS[recipe], 16, 64)
    nominal, slowed = step_cost(*arguments, Coefficients()), step_cost(*arguments, slow)
    assert nominal.step_seconds * (1 - 1e-9) <= slowed.step_seconds <= nominal.step_seconds * factor * (1 + 1e-9)


def test_the_spread_of_a_sum_against_monte_carlo() -> None:
    import numpy as np

    seconds = {Driver.DECODE_BANDWIDTH: 6.0, Driver.TRAIN_COMPUTE: 3.0, Driver.FIXED: 1.0}
    known = Coefficients(
        log_covariance={(driver, driver): 0.05**2 for driver in Driver}, length_log_sd=0.0, unmodelled_log_sd=0.0
    )
    rng = np.random.default_rng(2)
    sums = sum(part * np.exp(rng.normal(0, 0.05, 200_000)) for part in seconds.values())
    expected = math.hypot(float(np.log(sums).std()), UNMODELLED_FLOOR_LOG_SD)
    assert known.log_sd(seconds) == pytest.approx(expected, rel=0.01)
