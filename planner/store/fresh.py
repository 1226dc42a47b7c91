"""The view `ranked_allocations` for any SQL browser, the versions of the schema, and how a fresh database gets it."""

from sqlalchemy import Connection, column, table

from planner.store import finals  # noqa: F401 (its tables are made with the others)
from planner.store.base import NAME, Base
from planner.store.schema import Ranking

_RANKED = [each for each in Ranking.__table__.columns if each.name not in ("recommendation_id", "axes")]
RANKED_ALLOCATIONS = table(
    "ranked_allocations",
    column("sweep", NAME),
    *(column(each.name, each.type) for each in _RANKED),
    column("plan", NAME),
    column("axes", NAME),  # as text, unlike those of a ranking
)

# First half: sweeps that have a recommendation show the ranking under the latest one.
# Second half: all others but final runs show their plan's candidates; the sweep is NULL where none ran the plan. Where
# seeds of one allocation differ in state, the status is the first of running, paused, finished, planned, failed, lost,
# pruned.
CREATE_VIEW = f"""\
CREATE VIEW ranked_allocations AS
SELECT {", ".join(each.name for each in RANKED_ALLOCATIONS.columns)}
FROM (
    SELECT plans.id AS plan_id, sweeps.id AS sweep_id, plans.name AS plan, sweeps.name AS sweep,
        {", ".join(f"rankings.{each.name}" for each in _RANKED)}, rankings.axes
    FROM sweeps
    JOIN plans ON plans.id = sweeps.plan_id
    JOIN rankings ON rankings.recommendation_id = (
        SELECT max(recommendations.id) FROM recommendations WHERE recommendations.sweep_id = sweeps.id
    )
    UNION ALL
    SELECT plans.id, sweeps.id, plans.name, sweeps.name, candidates.rank,
        candidates.rollouts_per_prompt, candidates.prompts_per_batch, candidates.update_steps, candidates.learning_rate,
        coalesce(candidates.recipe, plans.recipe), candidates.expected_score, candidates.score_low,
        candidates.score_high, NULL,
        coalesce(progress.gpu_hours_spent, 0.0), candidates.update_steps * candidates.gpu_hours_per_step,
        CASE progress.stage WHEN 1 THEN 'running' WHEN 2 THEN 'paused' WHEN 3 THEN 'finished' WHEN 4 THEN 'planned'
            WHEN 5 THEN 'failed' WHEN 6 THEN 'lost' WHEN 7 THEN 'pruned' ELSE 'proposed' END, candidates.axes
    FROM plans
    JOIN candidates ON candidates.plan_id = plans.id
    LEFT JOIN sweeps ON sweeps.plan_id = plans.id
        AND NOT EXISTS (SELECT 1 FROM finals WHERE finals.sweep_id = sweeps.id)
    LEFT JOIN (
        SELECT sweep_id, rollouts_per_prompt, prompts_per_batch, axes, sum(gpu_hours_spent) AS gpu_hours_spent,
            min(CASE state WHEN 'running' THEN 1 WHEN 'paused' THEN 2 WHEN 'finished' THEN 3 WHEN 'planned' THEN 4
                WHEN 'failed' THEN 5 WHEN 'lost' THEN 6 ELSE 7 END) AS stage
        FROM trials
        GROUP BY sweep_id, rollouts_per_prompt, prompts_per_batch, axes
    ) AS progress ON progress.sweep_id = sweeps.id
        AND progress.rollouts_per_prompt = candidates.rollouts_per_prompt
        AND progress.prompts_per_batch = candidates.prompts_per_batch
        AND progress.axes = candidates.axes
    WHERE NOT EXISTS (SELECT 1 FROM recommendations WHERE recommendations.sweep_id = sweeps.id)
) AS allocations
ORDER BY plan_id DESC, sweep_id DESC, rank"""

VERSION = "0012"  # of the schema
OLDER = frozenset(f"{number:04}" for number in range(1, 12))
LAST_WITH_MIGRATIONS = "07ecd4c"  # the commit of rlplan that still brings those before 0011 to it
LAST_WITH_UPGRADES = "bdcf9219"  # the commit of rlplan that still brings a database from version 0011 to 0012

# Exactly as alembic makes it, so that it can take over from here.
_VERSION_TABLE = """\
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
)"""


def create_schema(connection: Connection) -> None:
    """Make the current version's tables and view in an empty database."""
    Base.metadata.create_all(connection, checkfirst=False)
    connection.exec_driver_sql(CREATE_VIEW)
    connection.exec_driver_sql(_VERSION_TABLE)
    connection.exec_driver_sql(f"INSERT INTO alembic_version (version_num) VALUES ('{VERSION}')")
