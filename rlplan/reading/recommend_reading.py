"""What `rlplan recommend` says, callable from Python: the answer for a stored sweep, and how to run it."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from budgets.errors import BudgetError, InputError
from planner.axes import said
from planner.pooling.draws import Worlds
from planner.recommending.answer import FinalAnswer, answer_data, restored
from planner.recommending.choosing import Choice
from planner.recommending.facts import ConfigurationFacts
from planner.store import Store, open_store
from planner.store.finals import ENDED, pilots_of
from planner.store.records import RankedRow
from planner.store.schema import Plan, Sweep, SweepStatus
from planner.store.sweeps import sweep_named
from planner.trials import TrialState
from planner.view import Configuration
from rlplan.reading.launching import Final, Launch, launch
from rlplan.reading.sweep_picture import Source, StoredAnswer
from rlplan.reading.sweep_reading import stored_answer
from rlplan.wording.numbers import moment
from runner.sweep.answering import answer_of, stored_board
from runner.sweep.board import Board
from runner.sweep.home import AstrayError, home_of

COLUMNS = ("rank", *Choice.__dataclass_fields__)


@dataclass(frozen=True, slots=True)
class Recommended:
    """A sweep's answer: the one that it has stored, unless another is asked for or none can be read."""

    sweep: str
    status: SweepStatus
    policy: str
    pilot_gpu_hours: float
    spent_gpu_hours: float
    answer: FinalAnswer
    launch: Launch = field(repr=False)
    kept: StoredAnswer | None = field(repr=False)  # that it is; None where it was worked out now
    asked_for: bool = False  # a final run other than the sweep's own

    @property
    def source(self) -> Source:
        """Where it comes from."""
        return Source.NOW if self.kept is None else Source.STORED

    @property
    def origin(self) -> str:
        """Of when it is, in words."""
        if self.kept is not None:
            state = "so far, as of" if self.kept.so_far else "stored at its end,"
            return f"the answer {state} {moment(self.kept.made_at)}"
        why = "another final run than the sweep's own" if self.asked_for else "no answer is stored that can be read"
        return f"worked out now: {why}"


def recommended(
    database: str, sweep: str | None, *, budget: float | None = None, target: float | None = None
) -> Recommended:
    """Return the answer of a sweep, by default the newest, as it has stored it last; of a final run its sweep's.

    `target` asks for another final run; `budget` for what a whole budget leaves to it after what the pilots spent.
    """
    with open_store(database, read_only=True) as store:
        with store.read() as session:
            pilots = pilots_of(session, sweep_named(session, sweep)).name
        known = stored(store, pilots)
    return recommended_for(known, _final(known.board, budget, target))


@dataclass(frozen=True, slots=True)
class Stored:
    """What an answer is worked out from, as the rows have it."""

    database: str  # where it is stored, without a password
    sweep: Sweep
    plan: Plan
    board: Board
    astray: str | None  # why the sweep's folder is not there, or not its own
    answer: StoredAnswer | None


def stored(store: Store, sweep: str | None) -> Stored:
    """Read a sweep, by default the newest."""
    with store.read() as session:
        row = sweep_named(session, sweep)
        plan = session.scalars(select(Plan).where(Plan.id == row.plan_id)).one()
        folder, astray = None, None
        try:
            folder = home_of(row, store.location).folder
        except AstrayError as error:
            astray = error.fact
        return Stored(
            store.location, row, plan, _board(session, row.name, folder), astray, stored_answer(session, row.id)
        )


def recommended_for(known: Stored, target_gpu_hours: float | None = None, joint: Worlds | None = None) -> Recommended:
    """Return the answer that is stored, or that of another final run; who has fitted the curves gives the `joint`."""
    board, plan = known.board, known.plan
    kept = known.answer if target_gpu_hours is None else None
    answer = None if kept is None else restored(kept.details, left_out_of(kept.ranking))
    if answer is None:
        kept, answer = None, answer_of(board, plan.workload.get("prompt_set_size"), target_gpu_hours, joint)
    chosen = answer.chosen
    ended = kept is not None and not kept.so_far and known.sweep.status in ENDED
    final = Final(chosen.configuration, chosen.update_steps, chosen.gpu_hours, by_name=not ended)
    return Recommended(
        sweep=known.sweep.name,
        status=known.sweep.status,
        policy=known.sweep.policy,
        pilot_gpu_hours=board.spec.pilot_gpu_hours,
        spent_gpu_hours=board.ledger.charged,
        answer=answer,
        launch=launch(board, known.sweep.name, known.database, final, known.astray),
        kept=kept,
        asked_for=target_gpu_hours is not None,
    )


def left_out_of(ranking: Iterable[RankedRow]) -> dict[Configuration, ConfigurationFacts]:
    """Return the facts of what a stored ranking lists without a score, since it cannot be run."""
    return {
        Configuration(row.rollouts_per_prompt, row.prompts_per_batch, row.axes): ConfigurationFacts(
            learning_rate=row.learning_rate,
            recipe=row.recipe,
            gpu_hours_per_step=row.gpu_hours_to_target / max(1, row.update_steps),
            status=row.status,
            gpu_hours_spent=row.gpu_hours_spent,
            failed=row.status == TrialState.FAILED,
        )
        for row in ranking
        if row.expected_score is None
    }


def _board(session: Session, sweep: str, folder: Path | None) -> Board:
    try:
        return stored_board(session, sweep, folder)
    except ValidationError as error:
        mistake = error.errors()[0]
        raise InputError(
            f"the settings of {sweep} are none that this version of rlplan can read "
            f"({'.'.join(map(str, mistake['loc']))}: {mistake['msg']}): ask the version that it was run with"
        ) from error


def _final(board: Board, budget: float | None, target: float | None) -> float | None:
    """Return the GPU-hours of the final run that is asked for, None for the plan's."""
    if budget is None:
        return target
    if target is not None:
        raise InputError(
            "--budget and --target are both given: --target is the final run alone, --budget is all GPU-hours with the "
            "pilots'; leave one of them out"
        )
    left = budget - board.ledger.charged
    if left <= 0:
        raise BudgetError(
            f"a budget of {budget:.4g} GPU-hours leaves nothing for a final run: the pilots have spent "
            f"{board.ledger.charged:.4g}"
        )
    return left


def recommended_data(found: Recommended) -> dict[str, Any]:
    """Return the document that `recommend --format json` prints."""
    started = found.launch
    return {
        "sweep": found.sweep,
        "status": found.status.value,
        "policy": found.policy,
        "pilot_gpu_hours": found.pilot_gpu_hours,
        "spent_gpu_hours": found.spent_gpu_hours,
        "source": found.source.value,
        "made_at": None if found.kept is None else found.kept.made_at.isoformat(),
        "so_far": found.kept is not None and found.kept.so_far,
        **answer_data(found.answer),
        "launch": {
            "command": started.line,
            "arguments": None if started.command is None else list(started.command),
            "gpu_hours": started.gpu_hours,
            "continues": None if started.continues is None else asdict(started.continues),
            "note": started.note,
            **({"gpus": started.machine.gpus, "nodes": started.machine.nodes} if started.machine else {}),
        },
    }


def csv_rows(found: Recommended) -> Iterator[dict[str, Any]]:
    """Return a flat row for each configuration that can be run, the chosen one first."""
    for rank, choice in enumerate(found.answer.ranked, start=1):
        yield {"rank": rank, **asdict(choice), "axes": said(choice.axes)}
