"""What `rlplan propose` does, callable from Python: price the grid of a configuration, and store the plan."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from budgets.errors import InputError
from planner.config import Resolved, build_request, resolved_values
from planner.config.cost import TokenPrices
from planner.config.layers import DEFAULT
from planner.experience.experience import Experience
from planner.pricing import PriceQuery
from planner.proposals import Proposal, propose
from planner.store import Store, open_store
from planner.store.schema import Plan
from rlplan.actions.calibrating import MEAN_RESPONSE, with_measured
from rlplan.actions.configuring import absent, flagged, load_configuration, with_log
from rlplan.actions.plan_sources import LEARNT, left_in, sources_of
from rlplan.reading.plan_data import new_candidates, new_plan
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


def asked_configuration(asked: Mapping[str, Any]) -> Resolved:
    """Return the configuration of what a plan is asked for: defaults, task, file, script and flags."""
    flags = with_log(flagged(asked), asked["from_log"])
    if asked["script"] is not None:
        if asked["task"] is not None:
            raise InputError("--from and --task both say what is trained: leave one out")
        from rlplan.actions.from_script import with_script  # noqa: PLC0415 (reads what no other plan needs)

        flags = with_script(flags, asked["script"])
    return load_configuration(asked["config"], asked["task"], flags)


def make_plan(
    resolved: Resolved, database: str, *, require: Require | None = None, learn_from: Sequence[str] | None = None
) -> StoredPlan:
    """Propose allocations with what the database knows about costs, store the plan, and return it with its name.

    A plan that is made for a sweep has pilots, two at least, and `require` refuses one before it
    is stored. What its sweep is to learn from is frozen in it: what is named, else what finished sweeps have left.
    """
    draft = None
    if absent(database):  # a refused proposal should leave no file behind
        draft = _draft(resolved, database, require, learn_from, None)
    with open_store(database) as store:
        return (draft or _draft(resolved, database, require, learn_from, store)).stored(store)


def draft_plan(
    resolved: Resolved, database: str, *, require: Require | None = None, learn_from: Sequence[str] | None = None
) -> Plan:
    """Return the plan that would be made; nothing is stored."""
    if absent(database):
        return _draft(resolved, database, require, learn_from, None).plan
    with open_store(database, read_only=True) as store:
        return _draft(resolved, database, require, learn_from, store).plan


def _draft(
    resolved: Resolved, database: str, require: Require | None, learn_from: Sequence[str] | None, store: Store | None
) -> "_Draft":
    """Propose; where there is no database yet, nothing is known of costs and nothing is left to learn from."""
    named = _named(learn_from, database)
    request = build_request(resolved)
    request = replace(request, requires_pilots=require is not None)
    if store is None:
        return _Draft(propose(request), resolved, require, named)
    request = with_measured(store, request, given_mean=resolved.source(MEAN_RESPONSE) != DEFAULT)
    return _Draft(propose(request), resolved, require, named, left_in(store))


class _Draft:
    """A plan before it is stored."""

    def __init__(
        self,
        proposal: Proposal,
        resolved: Resolved,
        require: Require | None,
        named: Sequence[Experience] | None,
        known: Sequence[Experience] = (),
    ) -> None:
        self._proposal, self._assumptions = proposal, assumptions(proposal, resolved)
        self._dollars = tuple(_dollars(proposal, resolved.config.cost.per_million))
        values = resolved_values(proposal.request, resolved)
        self.plan = new_plan(proposal, values, self._assumptions, version("rlplan"))
        self.plan.name, self.plan.candidates = "the plan", new_candidates(proposal)
        if (named or known) and (learnt := sources_of(self.plan, named, known)) is not None:
            self._assumptions.append(learnt.assumption)
            self.plan.assumptions = [*self.plan.assumptions, asdict(learnt.assumption)]
            self.plan.config = values | {LEARNT: learnt.plain()}
        if require is not None:
            require(self.plan)

    def stored(self, store: Store) -> StoredPlan:
        """Store it."""
        name = store.save_plan(self.plan, self.plan.candidates, created_at=datetime.now(UTC))
        return StoredPlan(name, self._proposal, self._assumptions, list(store.notices), self._dollars)


def _dollars(proposal: Proposal, prices: TokenPrices) -> Iterator[float]:
    """Yield what the tokens of a step of each candidate cost; nothing where none are charged."""
    for each in proposal.candidates:
        cell, request = each.cell, proposal.request
        asked = PriceQuery(cell.variant.workload, request.hardware, cell.variant.traits, *cell.key)
        if (dollars := prices.dollars(asked.tokens)) is not None:
            yield dollars


def _named(names: Sequence[str] | None, database: str) -> tuple[Experience, ...] | None:
    """Read the sources that are named; None where nothing is said of any."""
    if names is None:
        return None
    from rlplan.actions.learning import learnt_from  # noqa: PLC0415  (reads boards and tables of runs)

    return learnt_from(names, database=database)
