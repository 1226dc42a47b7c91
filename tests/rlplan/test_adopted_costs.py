"""What the logs of runs elsewhere teach about prices."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from budgets.calibration import priced_phases
from budgets.work import Phase, total
from planner.config import build_request, resolve
from planner.config.layers import flag_layer
from planner.proposals import Request
from planner.scripts.differences import Entry
from planner.scripts.records import LoggedRun, Step
from planner.scripts.settings import GpuSplit, Settings
from planner.store.schema import CostRecord
from rlplan.actions.calibration import calibration_of, measured_steps
from rlplan.actions.runs_plan import cost_rows, times_their_price

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TIMED = {"generate": 60.0, "logprob": 5.0, "update": 25.0, "sync": 2.0, "step": 100.0}
TAKING_TURNS = GpuSplit()


@pytest.fixture
def request_() -> Request:
    flags = {"budget.gpu_hours": 5000.0, "workload.model": "qwen3-8b", "hardware.gpu": "h100", "hardware.gpus": 8}
    return build_request(resolve(flag_layer({key: ("", value) for key, value in flags.items()})))


def entry(
    steps: int = 60,
    seconds: Mapping[str, float] = TIMED,
    *,
    lengths: tuple[float, float] = (1000.0, 1000.0),
    split: GpuSplit = TAKING_TURNS,
    trainer: str = "verl",
    name: str = "verl.log",
) -> Entry:
    """A run whose responses go from one mean length to another; every tenth step has a validation of 40 s."""
    made = []
    for step in range(1, steps + 1):
        mean = lengths[0] + (lengths[1] - lengths[0]) * step / steps
        own = dict(seconds) | ({"validation": 40.0} if step % 10 == 0 else {})
        took = seconds.get("step", sum(seconds.values())) + own.get("validation", 0.0)
        made.append(Step(step, None, own, took, {"response_tokens": mean, "prompt_tokens": 150.0}))
    run = LoggedRun(name, Path(f"/runs/{name}"), trainer, None, "", (), tuple(made), ())
    settings = Settings(8, 64, 1e-6, "qwen3-8b", "easy", 8)  # with a KL term
    return Entry(run, settings, split=split)


def rows(request: Request, each: Entry, **more: Any) -> list[CostRecord]:
    return cost_rows(each, request, NOW, **({"validations": False} | more))


def test_a_step_is_stored_whole_and_by_phase_and_validations_only_where_their_size_is_known(request_: Request) -> None:
    found = rows(request_, entry())
    expected = {"generate": 60.0, "old_log_probs": 5.0, "train": 25.0, "sync": 2.0, "step": 100.0}
    assert [row.seconds for row in found] == [expected] * 10
    assert {(row.steps, row.source, row.trainer, row.colocated) for row in found} == {
        (6, "/runs/verl.log", "verl", True)
    }
    known = rows(request_, entry(), validations=True)
    assert any(row.seconds == expected | {"evaluate": 40.0} for row in known)


def test_a_log_that_has_nothing_but_the_time_of_steps_has_a_price(request_: Request) -> None:
    bare = entry(20)
    run = replace(bare.run, steps=tuple(replace(step, seconds={}, took=100.0) for step in bare.run.steps))
    found = rows(request_, replace(bare, run=run))
    assert [row.seconds for row in found] == [{"step": 100.0}] * 4
    before = request_.coefficients
    after = calibrated(found, request_)
    assert after.log_mean != before.log_mean
    untimed = replace(run, steps=tuple(replace(step, took=None) for step in run.steps))
    assert rows(request_, replace(bare, run=untimed)) == []


def calibrated(found: list[CostRecord], request: Request) -> Any:
    return calibration_of(
        found, request.workload, request.hardware.gpu, request.traits, request.coefficients
    ).coefficients


def test_waiting_for_rollouts_is_no_phase_and_the_slower_side_counts(request_: Request) -> None:
    apart = GpuSplit(4, engine_gpus=2, asynchronous=True, updates=2)
    (row, *_) = rows(request_, entry(split=apart))
    assert Phase.GENERATE.value not in row.seconds
    assert (row.generator_gpus, row.trainer_gpus, row.colocated, row.asynchronous) == (4, 4, False, True)
    (step,) = measured_steps([row], request_.traits)
    assert step.traits.asynchronous
    assert step.traits.updates_per_batch == 2
    assert step.placement.engine_gpus == 2
    assert step.whole == 50.0  # of an update; a batch has two
    assert step.generated_rollouts == 256


@pytest.mark.parametrize(
    ("trainer", "seconds", "reference", "together"),
    [
        ("verl", TIMED, False, False),  # a pass that it makes it times
        ("verl", TIMED | {"reference": 6.0}, True, False),
        ("nemo-rl", TIMED, True, True),
        ("trl", {"step": 100.0}, True, False),
    ],
)
def test_the_passes_of_a_run_are_those_that_it_timed(
    request_: Request, trainer: str, seconds: dict[str, float], reference: bool, together: bool
) -> None:
    (row, *_) = rows(request_, entry(seconds=seconds, trainer=trainer))
    (step,) = measured_steps([row], request_.traits)
    assert step.traits.reference_pass == reference
    assert bool(step.together) == together


@pytest.mark.parametrize(
    ("lengths", "expected"), [((1000.0, 1000.0), 1000.0), ((500.0, 2000.0), 1600.0), ((2000.0, 500.0), 850.0)]
)
def test_the_mean_response_is_that_of_the_later_steps(
    request_: Request, lengths: tuple[float, float], expected: float
) -> None:
    records = rows(request_, entry(lengths=lengths))
    found = calibration_of(records, request_.workload, request_.hardware.gpu, request_.traits)
    assert found.mean_response == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("times", [1.0, 0.5, 30.0])
def test_it_is_said_how_many_times_their_price_steps_took(request_: Request, times: float) -> None:
    known = replace(request_.coefficients, length_log_sd=0.0)
    (record,) = rows(request_, entry(1, seconds=TIMED))
    (step,) = measured_steps([record], request_.traits)
    phases = priced_phases(request_.workload, request_.hardware.gpu, step, known)
    names = {"generate": Phase.GENERATE, "logprob": Phase.OLD_LOG_PROBS, "update": Phase.TRAIN, "sync": Phase.SYNC}
    seconds = {name: total(phases[phase]) for name, phase in names.items()}
    records = rows(request_, entry(seconds=seconds | {"step": times * sum(seconds.values())}))
    assert times_their_price(records, request_, known) == pytest.approx(times, rel=0.05)
