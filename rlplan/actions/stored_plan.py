"""What `rlplan propose` does, callable from Python: price the grid of a configuration, and store the plan."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version

from budgets.errors import InputError
from planner.config import Resolved, build_request, resolved_values
from planner.config.cost import TokenPrices
from planner.config.layers import DEFAULT
from planner.policy.champion import KEY, champion_data
from planner.price import PriceQuery
from planner.price.open_facts import MEAN_RESPONSE
from planner.proposals import Proposal, propose
from planner.store import Store, open_store
from planner.store.schema import Plan
from rlplan.actions.calibration import cost_sources, with_adopted_rate, with_measured
from rlplan.actions.configuration import absent, flagged, load_configuration
from rlplan.reading.plan_data import new_candidates, new_plan
from rlplan.requests.plan import ProposeRequest
from rlplan.wording.assumptions import Assumption, assumptions

Require = Callable[[Plan], object]  # raises where a plan will not do


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A proposal with the name it is stored under and what it takes for granted."""

    name: str
    proposal: Proposal
    assumptions: list[Assumption]
    notices: list[str]
    dollars: tuple[float, ...] = ()  # of a step's tokens, of each candidate, where the file says what they cost


def asked_configuration(request: ProposeRequest) -> Resolved:
    """Return the configuration of what a plan is asked for: defaults, task, file, script and flags."""
    flags = flagged(request)
    if request.script is not None:
        from rlplan.actions.from_script import with_script  # noqa: PLC0415 (reads what no other plan needs)

        flags = dict(with_script(flags, request.script, task=request.task))
    return load_configuration(request.config, request.task, flags, request.from_log)


def make_plan(
    resolved: Resolved, database: str, *, require: Require | None = None, learn_from: Sequence[str] | None = None
) -> StoredPlan:
    """Propose allocations with what the database knows about costs, store the plan, and return it with its name.

    A plan that is made for a sweep has pilots, two at least, and `require` refuses one before it is stored. Where
    `learn_from` names databases and sweeps, their measured costs count instead.
    """
    # A refused proposal should leave no file behind.
    draft = _draft(resolved, require, learn_from, None) if absent(database) else None
    with open_store(database) as store:
        plan, proposal, assumed, dollars = draft or _draft(resolved, require, learn_from, store)
        name = store.save_plan(plan, plan.candidates, created_at=datetime.now(UTC))
        return StoredPlan(name, proposal, assumed, list(store.notices), dollars)


def draft_plan(resolved: Resolved, database: str, *, require: Require | None = None) -> Plan:
    """Return the plan that would be made; nothing is stored."""
    if absent(database):
        return _draft(resolved, require, None, None)[0]
    with open_store(database, read_only=True) as store:
        return _draft(resolved, require, None, store)[0]


def _draft(
    resolved: Resolved, require: Require | None, learn_from: Sequence[str] | None, store: Store | None
) -> tuple[Plan, Proposal, list[Assumption], tuple[float, ...]]:
    """Return a plan that is not stored yet, its proposal, what it takes for granted, and what a step's tokens cost."""
    with ExitStack() as opened:
        sources = cost_sources(learn_from, store, opened)
        resolved = with_adopted_rate(sources, resolved)
        request = build_request(resolved)
        if sources:
            request = with_measured(sources, request, given_mean=resolved.source(MEAN_RESPONSE) != DEFAULT)
    if sources and learn_from and not any(variant.coefficients.evidence for variant in request.all_variants):
        raise InputError(
            f"--learn-from {', '.join(map(str, learn_from))}: no step of {request.workload.model.name} on "
            f"{request.hardware.gpu.name} was measured there; leave it out"
        )
    proposal = propose(request)
    assumed, values = assumptions(proposal, resolved), resolved_values(request, resolved)
    if proposal.champion is not None:
        values[KEY] = champion_data(proposal.champion.terms, proposal.champion.source)
    plan = new_plan(proposal, values, assumed, version("rlplan"))
    plan.name, plan.candidates = "the plan", new_candidates(proposal)
    if require is not None:
        require(plan)
    return plan, proposal, assumed, tuple(_dollars(proposal, resolved.config.cost.per_million))


def _dollars(proposal: Proposal, prices: TokenPrices) -> Iterator[float]:
    """Yield what the tokens of a step of each candidate cost; nothing where none are charged."""
    for candidate in proposal.candidates:
        cell, request = candidate.cell, proposal.request
        query = PriceQuery(cell.variant.workload, request.hardware, cell.variant.traits, *cell.key)
        if (dollars := prices.dollars(query.tokens)) is not None:
            yield dollars
