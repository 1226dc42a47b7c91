"""What a deadline costs, or what would have to be otherwise where nothing can be done in time."""

import math
from dataclasses import replace
from itertools import accumulate, repeat

from planner.proposals.final_layout import offered_gpus, on_gpus, split_on, with_final_layout
from planner.proposals.grid import price_cells
from planner.proposals.layouts import with_layout
from planner.proposals.pilots import FEWEST_FINAL_UPDATES, carries_signal
from planner.proposals.proposal import Deadline
from planner.proposals.request import Request
from planner.proposals.sharing import Split

LONGER = 1.1  # times as long as what is too short, as the next to try
MORE_GPUS = (2, 4, 8)  # times the machine, as what would meet a deadline


def deadline_of(request: Request, split: Split) -> Deadline | None:
    """Compare the split with the one that the same budget would have without the deadline; None where there is none."""
    if request.within_hours is None:
        return None
    free = with_final_layout(replace(request, within_hours=None))
    without = split_on(free)[2] or split
    final = split.ranked[0].gpu_hours
    return Deadline(
        within_hours=request.within_hours,
        takes_hours=split.wall_hours,
        unspent_gpu_hours=max(0.0, (1 - split.fraction) * request.budget_gpu_hours - final),
        expected_score=split.score,
        score_without=without.score,
        gpus_without=free.hardware.gpus_per_trial,
        hours_without=without.wall_hours,
    )


def too_late(request: Request) -> str | None:
    """Say why no plan ends in time and what would; None where the deadline is not what is in the way."""
    within = request.within_hours
    if within is None or split_on(with_final_layout(replace(request, within_hours=None)))[2] is None:
        return None
    hardware = request.hardware
    hours = accumulate(repeat(LONGER), lambda each, times: math.ceil(each * times), initial=_at_least(request))
    enough = next(each for each in hours if _does(request, each))  # without a deadline there is a plan
    machines = (times * hardware.gpus for times in MORE_GPUS)
    more = next((gpus for gpus in machines if _does(_with_gpus(request, gpus), within)), None)
    offers = f", or {more} {hardware.gpu.name}" if more is not None else ""
    return (
        f"{hardware.gpus} {hardware.gpu.name} cannot do pilots and a run of {FEWEST_FINAL_UPDATES} updates in "
        f"{within:.4g} h. Give --within {enough}h or more{offers}"
    )


def _does(request: Request, within: float) -> bool:
    return split_on(with_final_layout(replace(request, within_hours=within)))[2] is not None


def _with_gpus(request: Request, gpus: int) -> Request:
    return replace(request, hardware=replace(request.hardware, gpus=gpus, gpus_per_trial=gpus), chooses_gpus=True)


def _at_least(request: Request) -> int:
    """Return hours below which nothing ends: those of two pilots, unless there are to be none, and a shortest run."""
    hours = []
    offered = offered_gpus(request) if request.chooses_gpus else []
    for gpus in offered or [request.hardware.gpus_per_trial]:
        laid = with_layout(on_gpus(request, gpus))
        useful = [cell for cell in price_cells(laid) if carries_signal(cell.signal_fraction)]
        pilot = 0.0
        if request.pilots.fraction != 0:
            pilots = sorted(cell.pilot_gpu_hours(request.pilots.fewest_steps) for cell in useful)[:2]
            pilot = sum(pilots) / min(2, laid.pilot_hardware.parallel_trials) / laid.pilot_hardware.gpus_per_trial
        hours.append(pilot + min(cell.gpu_hours(FEWEST_FINAL_UPDATES) for cell in useful) / gpus)
    return math.ceil(min(hours))
