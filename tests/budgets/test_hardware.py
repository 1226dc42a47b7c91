from dataclasses import replace

import pytest

from budgets import catalogue
from budgets.errors import InputError
from budgets.hardware import Hardware

H100 = catalogue.gpu("h100")


@pytest.mark.parametrize(
    ("gpus", "shares"),
    [(64, [1, 2, 4, 8, 16, 32, 64]), (24, [1, 2, 4, 8, 24]), (12, [1, 2, 4]), (7, [1]), (1, [1])],
)
def test_even_shares_stay_in_a_node_or_fill_whole_ones_and_leave_no_gpu_over(gpus: int, shares: list[int]) -> None:
    assert list(Hardware(H100, gpus, gpus).even_shares) == shares


@pytest.mark.parametrize(
    ("quantity", "value", "message"),
    [
        ("bandwidth_gb_per_s", -1.0, "it must be positive"),
        ("dense_tflops", float("nan"), "it must be positive"),
        ("decode_overhead_ms", -1.0, "it cannot be negative"),
        ("fp8_times", 0.5, "it must be at least 1"),
        ("gpus_per_node", 0, "a node has at least 1"),
    ],
)
def test_capabilities_are_positive_and_overheads_not_negative(quantity: str, value: float, message: str) -> None:
    with pytest.raises(InputError, match=rf"GPU 'h100': {quantity} is {value}, {message}"):
        replace(H100, **{quantity: value})


@pytest.mark.parametrize(
    ("gpus", "per_trial", "message"),
    [(0, 1, "0 GPUs: at least 1"), (8, 0, "0 GPUs per trial of 8"), (8, 9, "9 GPUs per trial of 8")],
)
def test_impossible_counts(gpus: int, per_trial: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Hardware(H100, gpus, per_trial)
