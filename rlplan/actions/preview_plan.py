"""A stored plan as it would be with other shares for the pilots, and the worlds that it may meet."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from budgets.errors import BudgetError
from planner.config import Config, Resolved, build_request
from planner.proposals import Candidate, Proposal, Request, propose
from planner.proposals.prior import is_near
from planner.replaying.game import PilotTerms
from planner.store import Store
from planner.store.schema import Plan
from planner.sweeping.grants import idle_gpu_hours
from planner.view import Configuration
from rlplan.actions.calibrating import coefficients_of
from runner.simulation.drawn import INTERESTING, DrawnCell, Setting

DIFFICULTIES: Final[dict[str, tuple[Literal["easy", "hard"], ...]]] = {"easy": ("easy",), "hard": ("hard",)}


@dataclass(frozen=True)
class Split:
    """The plan with one share of its budget for the pilots."""

    proposal: Proposal

    @property
    def fraction(self) -> float:
        """The share."""
        return self.proposal.request.pilots.fraction

    def pilots(self) -> dict[Configuration, PilotTerms]:
        """Return what each configuration is granted; one without a pilot may be proposed during the sweep."""
        fewest = min(each.pilot.steps for each in self.proposal.candidates if each.pilot.steps)
        return {each.cell.configuration: _pilot(each, fewest) for each in _candidates(self.proposal)}

    def idle_gpu_hours(self, workers: int) -> float:
        """Return what a sweep of so many workers sets aside for those that wait."""
        start_up = max(each.start_up_gpu_hours for each in self.pilots().values())
        return idle_gpu_hours(workers, start_up, self.proposal.request.hardware.gpus_per_trial)


def request_of(plan: Plan, store: Store) -> Request:
    """Return what a plan was made for, at the costs that are known by now."""
    given = {name: plan.config[name] for name in Config.model_fields if name in plan.config}
    resolved = Resolved(Config.model_validate(given), plan.config.get("sources", {}))
    request = build_request(resolved)
    # Nothing is drawn for further axes, so that those of the first variant stand for all.
    alone = replace(request.of(request.all_variants[0]), learning_rate_range=None)
    return replace(alone, coefficients=coefficients_of(store, alone))


def first_of(request: Request) -> Configuration:
    """Return what would be run with the whole budget, without any pilot."""
    return propose(replace(request, pilots=replace(request.pilots, fraction=0.0))).candidates[0].cell.configuration


def splits_of(request: Request, fractions: Sequence[float]) -> tuple[list[Split], list[str]]:
    """Return the plan at each fraction that pays for a comparison, and why the others do not."""
    splits, refused = [], []
    for fraction in sorted(set(fractions)):
        try:
            splits.append(Split(propose(replace(request, pilots=replace(request.pilots, fraction=fraction)))))
        except BudgetError as error:
            refused.append(f"a pilot fraction of {fraction:g} is left out: {error}")
    return splits, refused


def setting_of(splits: Sequence[Split]) -> Setting:
    """Return what all worlds of the plan have in common."""
    widest = splits[-1].proposal
    request = widest.request
    return Setting(
        cells=tuple(_cell(each, request) for each in _candidates(widest)),
        difficulties=DIFFICULTIES.get(request.difficulty, ("easy", "hard")),
        answers=request.workload.validation.rollouts,
        longest_pilot=widest.pilot_gpu_hours,
        longest_final=request.budget_gpu_hours,
        studied=is_near(request.workload),
    )


def assumptions_of(request: Request, setting: Setting, *, one_of_several: bool) -> Iterator[str]:
    """Say what the worlds take for granted; `one_of_several` when the plan has further axes, which they have not."""
    rates = setting.pathologies
    yield (
        f"scores follow sigmoids drawn around published constants (ScaleRL, IsoCompute) for "
        f"{' and '.join(setting.difficulties)} problems; {rates.crossing:.0%} of the cells rise late and end higher, "
        f"{rates.late_start:.0%} start late, {rates.second_rise:.0%} rise twice, {rates.slide:.0%} slide after a peak, "
        f"and {rates.collapse:.0%} of the runs collapse"
    )
    if not setting.studied:
        low, high = INTERESTING
        yield (
            f"no published study covers {request.workload.model.name}: its grid is moved to the middle of the studied "
            f"one, and its final run to somewhere between {low:,.0f} and {high:,.0f} rollouts there"
        )
    if setting.studied:
        yield (
            "the worlds keep the law by which the plan ranks, give or take its spread: that favours the plan's first, "
            "and says nothing of how well the law holds for this workload"
        )
    if one_of_several:
        yield (
            f"of the plan's recipes, models and learning rates one is simulated: {request.traits.name} on "
            f"{request.workload.model.name}"
        )
    yield "a cell is compared by its mean over seeds; the pilots' GPU-hours are not continued by the final run"


def _candidates(proposal: Proposal) -> Iterator[Candidate]:
    """Return the candidates that the final run can afford."""
    return (each for each in proposal.candidates if each.cell.allocation.update_steps > 0)


def _pilot(candidate: Candidate, fewest_steps: int) -> PilotTerms:
    """Return what a sweep grants a trial of the candidate; as much as the shortest pilot where the plan has none."""
    granted, cost, most = candidate.pilot, candidate.cell.cost, candidate.cell.allocation.update_steps
    steps = granted.steps or min(fewest_steps, most)
    return PilotTerms(
        gpu_hours_per_step=cost.gpu_hours_per_step,
        start_up_gpu_hours=cost.start_up_gpu_hours,
        steps=steps,
        segment_steps=granted.segment_steps or max(1, steps // 4),
        most_steps=max(steps, most),
        planned=granted.steps > 0,
    )


def _cell(candidate: Candidate, request: Request) -> DrawnCell:
    allocation, cost = candidate.cell.allocation, candidate.cell.cost
    return DrawnCell(
        allocation.rollouts_per_prompt,
        allocation.prompts_per_batch,
        cost.gpu_hours_per_step,
        cost.start_up_gpu_hours,
        request.workload.validation.steps_between(allocation.rollouts_per_step),
    )
