"""What `rlplan propose` does, callable from Python: price the grid of a configuration, and store the plan."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version

from budgets.errors import InputError
from planner.config import Resolved, build_request, resolved_values
from planner.config.cost import TokenPrices
from planner.config.layers import DEFAULT
from planner.experience.experience import Experience
from planner.pricing import PriceQuery
from planner.proposals import Proposal, propose
from planner.store import Store, open_store
from planner.store.schema import Plan
from rlplan.actions.calibrating import with_measured
from rlplan.actions.configuring import MEAN_RESPONSE, absent, flagged, load_configuration, with_log
from rlplan.actions.plan_sources import LEARNT, left_in, sources_of
from rlplan.reading.plan_data import new_candidates, new_plan
from rlplan.requests.planning import ProposeRequest
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


def asked_configuration(asked: ProposeRequest) -> Resolved:
    """Return the configuration of what a plan is asked for: defaults, task, file, script and flags."""
    flags = with_log(flagged(asked), asked.from_log)
    if asked.script is not None:
        if asked.task is not None:
            raise InputError("--from and --task both say what is trained: leave one out")
        from rlplan.actions.from_script import with_script  # noqa: PLC0415 (reads what no other plan needs)

        flags = with_script(flags, asked.script)
    return load_configuration(asked.config, asked.task, flags)


def make_plan(
    resolved: Resolved, database: str, *, require: Require | None = None, learn_from: Sequence[str] | None = None
) -> StoredPlan:
    """Propose allocations with what the database knows about costs, store the plan, and return it with its name.

    A plan that is made for a sweep has pilots, two at least, and `require` refuses one before it
    is stored. What its sweep is to learn from is frozen in it: what is named, else what finished sweeps have left.
    """
    # A refused proposal should leave no file behind.
    draft = _draft(resolved, database, require, learn_from, None) if absent(database) else None
    with open_store(database) as store:
        plan, proposal, assumed, dollars = draft or _draft(resolved, database, require, learn_from, store)
        name = store.save_plan(plan, plan.candidates, created_at=datetime.now(UTC))
        return StoredPlan(name, proposal, assumed, list(store.notices), dollars)


def draft_plan(
    resolved: Resolved, database: str, *, require: Require | None = None, learn_from: Sequence[str] | None = None
) -> Plan:
    """Return the plan that would be made; nothing is stored."""
    if absent(database):
        return _draft(resolved, database, require, learn_from, None)[0]
    with open_store(database, read_only=True) as store:
        return _draft(resolved, database, require, learn_from, store)[0]


def _draft(
    resolved: Resolved, database: str, require: Require | None, learn_from: Sequence[str] | None, store: Store | None
) -> tuple[Plan, Proposal, list[Assumption], tuple[float, ...]]:
    """Return a plan that is not stored yet, its proposal, what it takes for granted, and what a step's tokens cost.

    Where there is no database yet, nothing is known of costs and nothing is left to learn from.
    """
    named, known = None, list[Experience]()
    if learn_from is not None:
        from rlplan.actions.learning import learnt_from  # noqa: PLC0415  (reads boards and tables of runs)

        named = learnt_from(learn_from, database=database)
    request = build_request(resolved)
    request = replace(request, requires_pilots=require is not None)
    if store is not None:
        request = with_measured(store, request, given_mean=resolved.source(MEAN_RESPONSE) != DEFAULT)
        known = left_in(store)
    proposal = propose(request)
    assumed, values = assumptions(proposal, resolved), resolved_values(request, resolved)
    plan = new_plan(proposal, values, assumed, version("rlplan"))
    plan.name, plan.candidates = "the plan", new_candidates(proposal)
    if (named or known) and (learnt := sources_of(plan, named, known)) is not None:
        sources, assumption = learnt
        assumed.append(assumption)
        plan.assumptions = [*plan.assumptions, asdict(assumption)]
        plan.config = values | {LEARNT: sources}
    if require is not None:
        require(plan)
    return plan, proposal, assumed, tuple(_dollars(proposal, resolved.config.cost.per_million))


def _dollars(proposal: Proposal, prices: TokenPrices) -> Iterator[float]:
    """Yield what the tokens of a step of each candidate cost; nothing where none are charged."""
    for each in proposal.candidates:
        cell, request = each.cell, proposal.request
        asked = PriceQuery(cell.variant.workload, request.hardware, cell.variant.traits, *cell.key)
        if (dollars := prices.dollars(asked.tokens)) is not None:
            yield dollars
