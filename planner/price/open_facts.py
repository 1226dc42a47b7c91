"""Facts that nobody gave of a set-up, and what each leaves open of its price: what to say first to know it better."""

import math
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter

from budgets.catalogue import table
from budgets.coefficients import PADDING, Coefficients
from budgets.cost import Z90
from budgets.execution import Execution
from budgets.workload import Workload
from planner.price.step import PriceQuery

# By the key of the configuration: how a fact is called, and how it is given.
MEAN_RESPONSE, TURNS = "workload.mean_response_tokens", "workload.turns"
FACTS = {
    MEAN_RESPONSE: ("the mean response", "--mean-response-tokens"),
    TURNS: ("the turns", "--turns"),
    "cost.micro_batch": ("the micro-batch", "[cost] micro_batch"),
    "cost.node_link": ("the link between nodes", "[cost] node_link"),
    "cost.inference_engine": ("whether an engine generates", "[cost] inference_engine"),
}
SLOW_LINK, FAST_LINK = 1 / 4, 4.0  # times the usual one: 25 Gb/s for a GPU to the 400 of large clusters
LARGE_MICRO_BATCH = 16
LEAST_WORTH = math.log(1.02) / (2 * Z90)


@dataclass(frozen=True, slots=True)
class OpenFact:
    """A fact that is not known, and the log standard deviation of a price that it alone leaves open."""

    key: str
    log_sd: float

    @property
    def named(self) -> str:
        """How it is called, and how it is given."""
        name, flag = FACTS[self.key]
        return f"{name} ({flag})"

    @property
    def factor(self) -> float:
        """The 90 % interval that it leaves, as a factor either way."""
        return math.exp(Z90 * self.log_sd)


def open_facts(
    price: Callable[[Workload, Execution], float],
    workload: Workload,
    execution: Execution,
    trainer: str,
    stated: Container[str],
    length_log_sd: float,
) -> list[OpenFact]:
    """List the facts that are not stated, what leaves most open first; `price` is what a step takes."""
    facts = []
    for key, ends in _ends(workload, execution, trainer, stated, length_log_sd):
        if key not in stated:
            prices = [price(*end) for end in ends]
            log_sd = math.log(max(prices) / min(prices)) / (2 * Z90)
            facts += [OpenFact(key, log_sd)] if log_sd > LEAST_WORTH else []
    return sorted(facts, key=attrgetter("log_sd"), reverse=True)


def facts_of(query: PriceQuery, trainer: str, stated: Container[str]) -> list[OpenFact]:
    """List what is not stated of a set-up, at one configuration; nothing where one process does all."""
    if query.hardware.gpu.one_process:
        return []
    placed = replace(query, placement=query.cost().placement)

    def seconds(workload: Workload, execution: Execution) -> float:
        traits = replace(query.traits, execution=execution)
        return replace(placed, workload=workload, traits=traits).cost().step_seconds

    length_log_sd = query.coefficients.length_log_sd
    return open_facts(seconds, query.workload, query.traits.execution, trainer, stated, length_log_sd)


def opened(query: PriceQuery, trainer: str, stated: Container[str]) -> Coefficients:
    """Return a set-up's coefficients as unsure as the facts make them that are not stated of it."""
    coefficients = query.coefficients
    facts = left_open(facts_of(query, trainer, stated))
    return (
        replace(coefficients, unmodelled_log_sd=math.hypot(coefficients.unmodelled_log_sd, facts))
        if facts
        else coefficients
    )


def _ends(
    workload: Workload, execution: Execution, trainer: str, stated: Container[str], length_log_sd: float
) -> Iterator[tuple[str, list[tuple[Workload, Execution]]]]:
    """Yield each fact with what it may be at either end."""
    mean, factor = workload.responses.mean, math.exp(Z90 * length_log_sd)
    lengths = [workload.with_mean_response(mean * times) for times in (1 / factor, factor)]
    yield MEAN_RESPONSE, [(other, execution) for other in lengths]
    if (turns := workload.turns).most > 1:
        within = math.exp(Z90 * table("lengths")["turns"]["width"])
        counts = (max(1.0, turns.count / within), min(turns.most, turns.count * within))
        written = turns.most_tokens is not None and MEAN_RESPONSE not in stated
        yield TURNS, [(_with_turns(workload, count, written=written), execution) for count in counts]
    sizes = (1, LARGE_MICRO_BATCH)
    yield "cost.micro_batch", [(workload, replace(execution, micro_batch=size)) for size in sizes]
    speeds = (execution.node_link_gb_per_s * times for times in (SLOW_LINK, FAST_LINK))
    yield "cost.node_link", [(workload, replace(execution, node_link_gb_per_s=speed)) for speed in speeds]
    if trainer in PADDING:  # others have no other way
        yield "cost.inference_engine", [(workload, replace(execution, engines=engines)) for engines in (True, False)]


def _with_turns(workload: Workload, count: float, *, written: bool) -> Workload:
    """Return the workload with other turns, whose responses are as many times as long where each turn's are known."""
    turns, mean = workload.turns, workload.responses.mean
    longer = workload.with_mean_response(mean * count / turns.count if written else mean)
    return replace(longer, turns=replace(turns, count=count))


def left_open(facts: list[OpenFact]) -> float:
    """Return what facts leave open together beside the length, which a price's coefficients count themselves."""
    return math.hypot(*(fact.log_sd for fact in facts if fact.key != MEAN_RESPONSE))
