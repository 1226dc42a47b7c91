"""What `rlplan preview` does, callable from Python: plays a policy on a stored plan in worlds drawn from the prior."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from budgets.errors import BudgetError, InputError
from planner.pooling.pool import Pool
from planner.replaying.choosing import open_chooser
from planner.replaying.play import play
from planner.store import open_store
from planner.sweeping.policies import open_policy
from planner.view import Configuration
from rlplan.actions.preview_plan import Split, assumptions_of, further_axes, request_of, setting_of, splits_of
from rlplan.actions.preview_results import Outcome, Preview, Without
from rlplan.wording.progress import progress_shown
from runner.simulation.drawn import DrawnWorld

FRACTIONS: Final = (0.05, 0.1, 0.2, 0.4)
FEWEST_DRAWS, MOST_DRAWS = 3, 40  # where their number is not given
PATIENCE_SECONDS: Final = 12.0  # after which no further world is begun then


@dataclass(frozen=True, slots=True)
class PreviewRequest:
    """What is asked of `rlplan preview`; without a number of draws there are as many as time allows."""

    plan: str | None = None
    policy: str = "rlplan"
    draws: int | None = None
    fractions: tuple[float, ...] = FRACTIONS
    seed: int = 0

    def __post_init__(self) -> None:
        if self.draws is not None and self.draws < 1:
            raise InputError(f"--draws {self.draws}: at least one world must be drawn, and 20 or more tell something")
        if self.seed < 0:
            raise InputError(f"--seed {self.seed}: it must be at least 0")
        if not self.fractions or not all(0 < fraction < 1 for fraction in self.fractions):
            given = ",".join(f"{fraction:g}" for fraction in self.fractions)
            raise InputError(
                f"--pilot-fractions {given}: give shares of the budget between 0 and 1, such as 0.05,0.1,0.2"
            )
        open_policy(self.policy, search=None)  # refuses what is not known


def preview(request: PreviewRequest, database: str, clock: Callable[[], float] = time.monotonic) -> Preview:
    """Play the policy in world after world at each pilot fraction; BudgetError when none of them pays for pilots."""
    with open_store(database, read_only=True) as store:
        plan = store.plan(request.plan)
        asked, several = request_of(plan, store), further_axes(plan)
    splits, refused = splits_of(asked, request.fractions)
    if not splits:
        raise BudgetError(f"{plan.name}: {'; '.join(refused)}")
    setting = setting_of(splits)
    first_ranked = splits[0].first_ranked
    workers = max(1, asked.hardware.gpus // asked.hardware.gpus_per_trial)
    outcomes: dict[float, list[Outcome]] = {split.fraction: [] for split in splits}
    without: list[Without] = []
    began, most = clock(), request.draws or MOST_DRAWS
    with progress_shown(f"playing {request.policy} in drawn worlds", most * len(splits)) as progress:
        for number in range(most):
            world = DrawnWorld(setting, request.seed, number)
            without.append(_without(world, asked.budget_gpu_hours, first_ranked))
            for done, split in enumerate(splits, start=1):
                outcomes[split.fraction].append(_outcome(world, split, request, number, workers))
                progress(number * len(splits) + done)
            if request.draws is None and number + 1 >= FEWEST_DRAWS and clock() - began > PATIENCE_SECONDS:
                break
    return Preview(
        plan=plan.name,
        policy=request.policy,
        seed=request.seed,
        budget_gpu_hours=asked.budget_gpu_hours,
        workers=workers,
        gpus_per_trial=asked.hardware.gpus_per_trial,
        pilot_gpu_hours={split.fraction: split.proposal.pilot_gpu_hours for split in splits},
        outcomes={fraction: tuple(each) for fraction, each in outcomes.items()},
        without=tuple(without),
        first_ranked=first_ranked,
        assumptions=(*assumptions_of(asked, setting, one_of_several=several), *refused),
    )


def _outcome(world: DrawnWorld, split: Split, request: PreviewRequest, number: int, workers: int) -> Outcome:
    pool, proposal = Pool(), split.proposal
    played = play(
        world.recorded,
        open_policy(request.policy, search=None, pool=pool),
        budget=proposal.pilot_gpu_hours,
        target=proposal.final_gpu_hours,
        seed=request.seed + number,
        workers=workers,
        chooser=open_chooser(request.policy, pool),
        trace=False,
        pilots=split.pilots(),
        idle_gpu_hours=split.idle_gpu_hours(workers),
    )
    truth = world.truth(proposal.final_gpu_hours)
    return Outcome(
        chosen=played.chosen,
        score=truth[played.chosen],
        best=max(truth.values()),
        gpu_hours_spent=played.gpu_hours_spent,
        wall_hours=played.wall_hours / proposal.request.hardware.gpus_per_trial,
    )


def _without(world: DrawnWorld, gpu_hours: float, first_ranked: Configuration) -> Without:
    truth = world.truth(gpu_hours)
    return Without(truth[first_ranked], fmean(truth.values()), max(truth.values()))
