"""A proposal as plain data: for the database, for JSON and for CSV."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from budgets.workload import Validation
from planner.axes import LEARNING_RATE, values_by_axis
from planner.metrics import Interval
from planner.proposals import Candidate, OtherBudget, PricedCell, PriceSensitivity, Proposal, Request, Variant
from planner.proposals.proposal import ChampionPlan, Layout
from planner.proposals.request import Gap, StudyWeight
from planner.store import schema
from planner.view import Configuration
from rlplan.wording.answers import AxisValues, Key, View, plain
from rlplan.wording.assumptions import Assumption


class WorkloadData(View[Request]):
    """What is trained, on what."""

    model = Key[str]("of.workload.model.name")
    models = Key[Sequence[str] | None](lambda workload: _several_models(workload.of), optional=True)
    parameters = Key[float]("of.workload.model.parameters")
    experts = Key[int | None]("of.workload.model.experts")
    prompt_tokens = Key[float]("of.workload.prompt_tokens")
    response_tokens = Key[int]("of.workload.responses.cap")
    mean_response_tokens = Key[float]("of.workload.responses.mean")
    response_spread = Key[float]("of.workload.responses.spread")
    prompt_set_size = Key[int | None]("of.workload.prompt_set_size")
    mean_pass_rate = Key[float]("of.workload.pass_rates.mean")
    validation = Key[Validation]("of.workload.validation")


class HardwareData(View[Request]):
    """What it runs on."""

    gpu = Key[str]("of.hardware.gpu.name")
    gpus = Key[int]("of.hardware.gpus")
    gpus_per_trial = Key[int]("of.hardware.gpus_per_trial")
    gpus_per_node = Key[int]("of.hardware.gpu.gpus_per_node")
    pilot_gpus = Key[int]("of.pilot_hardware.gpus_per_trial")
    pilots_at_once = Key[int]("of.pilot_hardware.parallel_trials")
    dollars_per_gpu_hour = Key[float]("of.hardware.gpu.dollars_per_hour")


@dataclass(frozen=True)
class ConfigurationData:
    """A configuration by its sizes."""

    rollouts_per_prompt: int
    prompts_per_batch: int
    axes: tuple[tuple[str, str | float], ...] = ()


class BaselineData(View[Candidate]):
    """The row that stands for a usual choice, and which that was."""

    rank = Key[int]("of.rank")
    rollouts_per_prompt = Key[int](lambda baseline: baseline.of.cell.key[0])
    prompts_per_batch = Key[int](lambda baseline: baseline.of.cell.key[1])
    asked = Key[ConfigurationData](lambda baseline: ConfigurationData(*baseline.of.standing.usual))


class CellData(View[PricedCell | None]):
    """The cell that other circumstances would put first, each key null where there is none."""

    rollouts_per_prompt = Key[int | None](lambda cell: cell.of and cell.of.allocation.rollouts_per_prompt)
    prompts_per_batch = Key[int | None](lambda cell: cell.of and cell.of.allocation.prompts_per_batch)
    update_steps = Key[int | None](lambda cell: cell.of and cell.of.allocation.update_steps)
    expected_score = Key[Interval | None](lambda cell: cell.of and cell.of.expected_score)


@dataclass(frozen=True)
class WhatIfData(CellData):
    """What another circumstance would put first."""

    what: str


@dataclass(frozen=True)
class OutlookData(CellData):
    """What another budget would put first."""

    outlook: OtherBudget = field(repr=False)

    axes = Key[AxisValues | None](
        lambda outlook: dict(outlook.of.variant.axes) or None if outlook.of else None, optional=True
    )
    budget_factor = Key[float]("outlook.factor")
    budget_gpu_hours = Key[float]("outlook.budget_gpu_hours")
    published_rollouts_per_prompt = Key[int | None](lambda answer: _whole(answer.outlook.published_rollouts_per_prompt))


class ChallengerData(View[Candidate]):
    """A row that is to challenge the champion: what a look at it costs, and what it may bring."""

    rank = Key[int]("of.rank")
    rollouts_per_prompt = Key[int](lambda challenger: challenger.of.cell.key[0])
    prompts_per_batch = Key[int](lambda challenger: challenger.of.cell.key[1])
    axes = Key[AxisValues | None](lambda challenger: dict(challenger.of.axes) or None, optional=True)
    look_gpu_hours = Key[float]("of.pilot.gpu_hours")
    chance_ahead = Key[float]("of.against_champion.chance", "of ending above the champion, by the studies")
    reason = Key[str]("of.pilot.reason")


class ChampionData(View[ChampionPlan]):
    """The row that is trained first, and what is tried beside it."""

    rank = Key[int]("of.row.rank")
    rollouts_per_prompt = Key[int](lambda champion: champion.of.row.cell.key[0])
    prompts_per_batch = Key[int](lambda champion: champion.of.row.cell.key[1])
    axes = Key[AxisValues | None](lambda champion: dict(champion.of.row.axes) or None, optional=True)
    source = Key[str]("of.source", "script, flag, usual or advised")
    look_gpu_hours = Key[float]("of.look_gpu_hours", "of its own run, before it is looked at")
    challengers = Key[Sequence[ChallengerData]](lambda champion: list(map(ChallengerData, champion.of.challengers)))
    usual_ahead = Key[Interval | None](
        lambda champion: champion.of.usual_ahead and _interval(champion.of.usual_ahead),
        "how far studies put the usual choice ahead, where they are sure of it",
    )


class DoubtData(View[PriceSensitivity]):
    """What the interval of the price means for the steps and for the ranking."""

    update_steps = Key[Mapping[str, int]](lambda doubt: {"low": doubt.of.fewest_steps, "high": doubt.of.most_steps})
    rows_that_do_not_depend_on_it = Key[int]("of.firm")
    score_lost_by_the_first = Key[float | None]("of.lost")
    first_if_dear = Key[ConfigurationData | None](lambda doubt: _named(doubt.of.first_if_dear))
    first_if_cheap = Key[ConfigurationData | None](lambda doubt: _named(doubt.of.first_if_cheap))


@dataclass(frozen=True)
class CandidateData(View[Candidate]):
    """One candidate as the contract names its fields, and what explains them."""

    dollars: float | None = field(default=None, repr=False)

    rank = Key[int]("of.rank")
    axes = Key[AxisValues | None](lambda candidate: dict(candidate.of.axes) or None, optional=True)
    rollouts_per_prompt = Key[int]("of.cell.allocation.rollouts_per_prompt")
    prompts_per_batch = Key[int]("of.cell.allocation.prompts_per_batch")
    update_steps = Key[int]("of.cell.allocation.update_steps", "of the final run")
    pilot_steps = Key[int]("of.pilot.steps", "0 for no pilot")
    gpu_hours_per_step = Key[float]("of.cell.cost.gpu_hours_per_step")
    pilot_gpu_hours = Key[float]("of.pilot.gpu_hours")
    pilot_gpu_hours_per_step = Key[float]("of.cell.pilot_cost.gpu_hours_per_step")
    learning_rate = Key[float]("of.learning_rate")
    epochs = Key[float]("of.epochs")
    signal_fraction = Key[float]("of.cell.signal_fraction", "share of groups whose rewards differ")
    expected_score = Key[Interval]("of.cell.expected_score")
    notes = Key[Sequence[str]]("of.notes")
    level_with_first = Key[bool]("of.standing.level")
    against_first = Key[Interval](
        lambda candidate: Interval(candidate.of.standing.median, candidate.of.standing.low, candidate.of.standing.high)
    )
    against_champion = Key[Interval | None](
        lambda candidate: candidate.of.against_champion and _interval(candidate.of.against_champion), optional=True
    )
    baseline = Key[bool](lambda candidate: candidate.of.standing.usual is not None, "whether it is a usual choice")
    gpu_hours_per_step_low = Key[float]("of.cell.cost.gpu_hours_per_step_low")
    gpu_hours_per_step_high = Key[float]("of.cell.cost.gpu_hours_per_step_high")
    rollouts = Key[int]("of.cell.allocation.rollouts")
    affordable_steps = Key[int]("of.cell.affordable_steps")
    segment_steps = Key[int]("of.pilot.segment_steps")
    pilot_reason = Key[str]("of.pilot.reason")
    seconds_per_step = Key[Mapping[str, float]](
        lambda candidate: {phase.value: seconds for phase, seconds in candidate.of.cell.cost.seconds_by_phase.items()}
    )
    generator_gpus = Key[int]("of.cell.cost.placement.generator_gpus")
    trainer_gpus = Key[int]("of.cell.cost.placement.trainer_gpus")
    dollars_by_tokens = Key[float | None]("dollars", optional=True)


@dataclass(frozen=True)
class PlanData(View[Proposal]):
    """A plan; `dollars` are those of a step's tokens."""

    plan: str
    assumptions: Sequence[Assumption]
    dollars: Sequence[float] = field(default=(), repr=False)

    budget_gpu_hours = Key[float]("of.request.budget_gpu_hours")
    pilot_gpu_hours = Key[float]("of.pilot_gpu_hours")
    final_gpu_hours = Key[float]("of.final_gpu_hours")
    spent_gpu_hours = Key[float]("of.spent_gpu_hours", "of these: less where more passes over the prompts do harm")
    workload = Key[WorkloadData](lambda plan: WorkloadData(plan.of.request))
    hardware = Key[HardwareData](lambda plan: _hardware(plan.of))
    recipe = Key[str](lambda plan: recipe_names(plan.of))
    updates_per_batch = Key[int]("of.request.traits.updates_per_batch", "B and steps of a plan are an update's")
    difficulty = Key[str]("of.request.difficulty")
    axes = Key[Mapping[str, Any] | None](lambda plan: _axes(plan.of) or None, optional=True)
    ranked_by = Key[str](lambda _: "expected score")
    baselines = Key[Sequence[BaselineData]](lambda plan: list(map(BaselineData, plan.of.usual)))
    rests_on = Key[Sequence[StudyWeight]]("of.grounds")
    elsewhere = Key[Sequence[WhatIfData]](lambda plan: [WhatIfData(one.best, one.what) for one in plan.of.elsewhere])
    champion = Key[ChampionData | None](lambda plan: plan.of.champion and ChampionData(plan.of.champion))
    pilots = Key[Mapping[str, Any] | None](
        lambda plan: None if plan.of.champion else {"fraction": plan.of.request.pilot_fraction}
    )
    candidates = Key[Sequence[CandidateData]](lambda plan: plan.rows)
    outlook = Key[Sequence[OutlookData]](lambda plan: [OutlookData(one.best, one) for one in plan.of.outlooks])
    layouts = Key[Sequence[Layout]]("of.layouts")
    price_of_doubt = Key[DoubtData](lambda plan: DoubtData(plan.of.doubt))
    deadline = Key[Mapping[str, Any] | None](
        lambda plan: plan.of.deadline and plain(plan.of.deadline) | {"cost": plan.of.deadline.cost}
    )

    @property
    def rows(self) -> list[CandidateData]:
        """The candidates, with what their tokens cost where that is known."""
        dollars: Sequence[float | None] = self.dollars or [None] * len(self.of.candidates)
        return list(map(CandidateData, self.of.candidates, dollars))


def new_plan(
    proposal: Proposal, config: dict[str, Any], taken_for_granted: list[Assumption], rlplan_version: str
) -> schema.Plan:
    """Return the row of a plan."""
    document = plain(PlanData(proposal, "", taken_for_granted))
    names = [name for name in schema.Plan.__table__.columns.keys() if name in document]  # noqa: SIM118 (no mapping)
    return schema.Plan(config=config, rlplan_version=rlplan_version, **{name: document[name] for name in names})


def _hardware(proposal: Proposal) -> dict[str, Any]:
    """Return the hardware with the seconds between saves, and how the GPUs of rows are split, where one splits them."""
    cells = [candidate.cell for candidate in proposal.candidates]
    shares = [cell.cost.placement.training_share for cell in cells]
    saves = [cost.save_every_seconds or 0.0 for cell in cells for cost in (cell.cost, cell.pilot_cost)]
    return {
        **plain(HardwareData(proposal.request)),
        "save_every_seconds": max(saves) or None,
        **({"training_shares": shares} if any(shares) else {}),
    }


def new_candidates(proposal: Proposal) -> list[schema.Candidate]:
    """Return the rows of a plan's candidates."""
    columns = schema.Candidate.__table__.columns.keys()
    rows = []
    for candidate in proposal.candidates:
        document = plain(CandidateData(candidate))
        score = document.pop("expected_score")
        row = {name: document[name] for name in columns if name in document and name != "axes"}
        row |= {"expected_score": score["median"], "score_low": score["low"], "score_high": score["high"]}
        rows.append(schema.Candidate(axes=candidate.axes, recipe=candidate.cell.variant.traits.name, **row))
    return rows


def csv_rows(proposal: Proposal, dollars: Sequence[float] = ()) -> list[dict[str, Any]]:
    """Return one flat row per candidate."""
    rows = []
    for row in plain(PlanData(proposal, "", (), dollars).rows):
        score, against = row.pop("expected_score"), row.pop("against_first")
        row.pop("seconds_per_step")
        row |= {"against_first": against["median"], "against_low": against["low"], "against_high": against["high"]}
        row |= {f"axis_{name}": value for name, value in row.pop("axes", {}).items()}
        row["notes"] = "; ".join(row["notes"])
        rows.append(row | {"expected_score": score["median"], "score_low": score["low"], "score_high": score["high"]})
    return rows


def recipe_names(proposal: Proposal) -> str:
    """Return the recipe's name, or those of all that are compared."""
    return ", ".join(dict.fromkeys(variant.traits.name for variant in proposal.request.all_variants))


def _axes(proposal: Proposal) -> dict[str, Any]:
    """Return the values on each axis beside n and B; nothing without such axes."""
    compared: Sequence[Variant | Candidate] = (*proposal.request.all_variants, *proposal.candidates)
    axes: dict[str, Any] = values_by_axis(row.axes for row in compared)
    between = proposal.request.learning_rate_range
    return axes | ({LEARNING_RATE: {"low": between[0], "high": between[1]}} if between else {})


def _several_models(request: Request) -> list[str] | None:
    models = list(dict.fromkeys(variant.workload.model.name for variant in request.all_variants))
    return models if len(models) > 1 else None


def _interval(gap: Gap) -> Interval:
    return Interval(gap.median, gap.low, gap.high)


def _named(configuration: Configuration | None) -> ConfigurationData | None:
    return None if configuration is None else ConfigurationData(*configuration)


def _whole(law: float | None) -> int | None:
    return round(law) if law is not None and math.isfinite(law) else None
