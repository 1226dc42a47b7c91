"""Reads the story of a sweep: a fixed number of queries in one transaction, whatever the number of trials."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from budgets.errors import RlplanError, StoreError
from planner.store import Store
from planner.store.schema import Plan, Sweep
from planner.store.sweeps import sweep_named
from rlplan.reading.damage import UNREADABLE, Damage, said
from rlplan.reading.health import flags
from rlplan.reading.rows import assumptions, candidates, charges, decisions, stretches
from rlplan.reading.sound import sound_picture
from rlplan.reading.story import Story
from rlplan.reading.sweep_reading import read_picture
from rlplan.reading.sweep_trials import Memory


def story(
    store: Store, sweep: str | None = None, *, now: datetime | None = None, memory: Memory | None = None
) -> Story:
    """Return the story of a sweep, by default the newest; NotFoundError when there is none of that name.

    Who asks again and again about one sweep keeps a `memory`, an empty dict at first: what it holds is not read again.
    """
    with store.read() as session:
        try:
            return read_story(session, sweep_named(session, sweep), now or datetime.now(UTC), memory)
        except RlplanError:
            raise
        except (*UNREADABLE, AttributeError) as error:  # JSON of another shape has none of what is asked of it
            which = f"the sweep {sweep}" if sweep else "the newest sweep"
            raise StoreError(
                f"{store.location}: {which} cannot be read, because a value in a row that its story needs is damaged "
                f"({said(error)}); go back to a copy of the database, or see where with --debug"
            ) from error


def read_story(session: Session, sweep: Sweep, now: datetime, memory: Memory | None) -> Story:
    """Read the story of a sweep in a transaction that is open already.

    A row that is damaged is left out and named by a flag.
    """
    damage, memory = Damage(), {} if memory is None else memory
    plan = session.execute(
        select(Plan.budget_gpu_hours, Plan.final_gpu_hours, Plan.hardware).where(Plan.id == sweep.plan_id)
    ).one()
    ran = stretches(session, sweep.id, damage, memory)
    charged = charges(session, sweep.id, damage)
    seen = sound_picture(read_picture(session, sweep, now, memory, damage), ran, charged, damage, memory)
    planned = candidates(session, sweep.plan_id, damage)
    target = _target(sweep, plan.final_gpu_hours)
    return Story(
        picture=seen,
        stretches=ran,
        charges=charged,
        decisions=decisions(session, sweep.id, damage, memory),
        cells=tuple(each.cell for each in planned.values()),
        assumptions=assumptions(session, sweep.plan_id, damage),
        flags=flags(seen, ran, charged, planned, target, _slots(sweep, plan.hardware), damage.found),
        created_at=sweep.created_at,
        read_at=now,
        budget_gpu_hours=plan.budget_gpu_hours,
        final_gpu_hours=plan.final_gpu_hours,
        target_gpu_hours=target,
    )


def _target(sweep: Sweep, final_gpu_hours: float) -> float:
    """Return the compute at which the sweep compares; sweeps of older versions compare at the plan's final run."""
    given = sweep.config.get("target_gpu_hours")
    return float(given) if isinstance(given, int | float) and math.isfinite(given) else final_gpu_hours


def _slots(sweep: Sweep, hardware: Mapping[str, Any]) -> float:
    """Return the GPUs that each second of a worker counts for."""
    counted: Any = sweep.config.get("resources", {}).get("slots") or hardware.get("gpus_per_trial")
    return float(counted or 1)
