"""What `rlplan price` does, callable from Python: one configuration, or the rows of a table, priced."""

import csv
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from budgets.errors import InputError, NotFoundError
from budgets.expected_lengths import kind_of
from planner.config import Resolved, build_step
from planner.config.layers import DEFAULT
from planner.config.request import length_name, stated_facts
from planner.config.schema import named_sizes
from planner.price import Change, Price, PriceQuery, changes, price
from planner.price.measured_runs import PricedRun, priced_runs
from planner.price.open_facts import MEAN_RESPONSE, OpenFact, facts_of
from rlplan.actions.configuration import absent
from rlplan.wording.assumptions import Assumption, asked_for_lengths, lengths_text, measured_lengths, width_and_evidence
from rlplan.wording.numbers import count

NEEDED = ("model_shape", "gpu_kind", "gpu_count", "rollouts_per_prompt")  # columns that nothing can be assumed for


@dataclass(frozen=True, slots=True)
class Priced:
    """A price with what one change would do, and what it takes for granted."""

    price: Price
    changes: list[Change]
    assumptions: list[Assumption]
    open_facts: list[OpenFact]  # what would narrow it, most first; nothing where steps were measured
    dollars: float | None  # of a step's tokens, where the file says what they cost


def price_one(resolved: Resolved, n: int | None, B: int | None, database: str) -> Priced:
    """Price a step with what the database knows about costs; B is the prompts of a batch, of all of its updates.

    n and B are by default the first usual choice's.
    """
    usual_n, usual_B = named_sizes(resolved.config.proposal.baseline)[0]
    with measured_in(database, resolved) as (known_here, measured):
        workload, hardware, traits, coefficients = build_step(known_here)
        prompts = usual_B if B is None else traits.prompts_of_update(B)
        query = PriceQuery(workload, hardware, traits, usual_n if n is None else n, prompts, coefficients)
        query = measured(query)
    found = price(query)
    dollars = resolved.config.cost.per_million.dollars(query.tokens)
    trainer = resolved.config.trainer.name
    facts = [] if query.coefficients.evidence else facts_of(query, trainer, stated_facts(resolved))
    return Priced(found, changes(found), assumptions_of(found, resolved, facts), facts, dollars)


@contextmanager
def measured_in(database: str, resolved: Resolved) -> Iterator[tuple[Resolved, Callable[[PriceQuery], PriceQuery]]]:
    """Yield the configuration and what returns a query, each with what a database knows; none is made."""
    if ("://" not in database and not os.path.exists(os.path.expanduser(database))) or absent(database):
        yield resolved, lambda asked: asked  # without the store, which takes longer to import than all else
        return
    from planner.store import open_store  # noqa: PLC0415
    from rlplan.actions.calibration import CostSource, known_of, with_adopted_rate  # noqa: PLC0415

    with open_store(database, read_only=True) as store:
        sources, given_mean = [CostSource(store)], resolved.source(MEAN_RESPONSE) != DEFAULT

        def measured(query: PriceQuery) -> PriceQuery:
            terms = (query.workload, query.hardware.gpu, query.traits, query.coefficients)
            coefficients, workload = known_of(sources, *terms, given_mean=given_mean)
            return replace(query, coefficients=coefficients, workload=workload)

        yield with_adopted_rate(sources, resolved), measured


def price_table(path: Path) -> list[PricedRun]:
    """Price every row of a table of runs; docs/costs-table.md describes its columns."""
    if not path.is_file():
        raise NotFoundError(f"there is no file {path}: give a table of runs, or price one configuration by flags alone")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader(file)
            columns = table.fieldnames or []
            rows = [{name: (value or "").strip() for name, value in row.items() if name} for row in table]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as a table: {error}. A CSV file with a header is needed") from error
    if lacking := [name for name in NEEDED if name not in columns]:
        raise InputError(
            f"{path} has no column {', '.join(lacking)}: a table of runs needs {', '.join(NEEDED)}, and takes the "
            "others of docs/costs-table.md"
        )
    if not rows:
        raise InputError(f"{path} has a header and no row: each run is a row below it")
    return priced_runs(rows)


def assumptions_of(step: Price, resolved: Resolved, facts: Sequence[OpenFact] = ()) -> list[Assumption]:
    """List what a price rests on."""
    query = step.asked
    model, hardware = query.workload.model, query.hardware
    source = resolved.source("workload.mean_response_tokens")
    coefficients = query.coefficients
    if coefficients.measured_lengths:
        source = measured_lengths(coefficients)
    elif source == DEFAULT:
        named, thinking = resolved.config.workload.model, not resolved.config.workload.no_thinking
        kind = kind_of(length_name(named, model.name), thinking=thinking)
        source = asked_for_lengths(kind, coefficients.length_log_sd, partial(_seconds, query))
    return [
        Assumption("responses", lengths_text(query.workload, query.traits), source),
        Assumption("cost of a step", *width_and_evidence(step.factor, coefficients.evidence, hardware.gpu, facts)),
        Assumption("model", f"{model.name}, {count(model.parameters)} parameters", resolved.source("workload.model")),
        Assumption(
            "hardware",
            f"{hardware.gpus_per_trial} {hardware.gpu.name}, {hardware.gpu.gpus_per_node} a node",
            resolved.source("hardware.gpu"),
        ),
        Assumption(
            "recipe",
            ", ".join([query.traits.name, *query.traits.execution.deviations()]),
            resolved.source("recipe.name"),
        ),
        Assumption("prompts", f"{query.workload.prompt_tokens:,.0f} tokens", resolved.source("workload.prompt_tokens")),
    ]


def _seconds(query: PriceQuery, times: float) -> float:
    """Return the price of a step whose responses are so many times as long."""
    mean = query.workload.responses.mean
    return price(replace(query, workload=query.workload.with_mean_response(times * mean))).seconds[0]
