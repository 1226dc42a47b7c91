"""The axes beside n and B: which recipe, model or learning rate a candidate, trial or ranked allocation has."""

from collections.abc import Callable

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

CREATE_VIEW = """\
CREATE VIEW ranked_allocations AS
SELECT sweep, rank, rollouts_per_prompt, prompts_per_batch, update_steps, learning_rate, recipe,
    expected_score, score_low, score_high, probability_best, gpu_hours_spent, gpu_hours_to_target, status, plan, axes
FROM (
    SELECT plans.id AS plan_id, sweeps.id AS sweep_id, plans.name AS plan, sweeps.name AS sweep, rankings.rank,
        rankings.rollouts_per_prompt, rankings.prompts_per_batch, rankings.update_steps, rankings.learning_rate,
        rankings.recipe, rankings.expected_score, rankings.score_low, rankings.score_high, rankings.probability_best,
        rankings.gpu_hours_spent, rankings.gpu_hours_to_target, rankings.status, rankings.axes
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

OF_CANDIDATES = ("plan_id", "rollouts_per_prompt", "prompts_per_batch", "axes")
OF_TRIALS = ("sweep_id", "rollouts_per_prompt", "prompts_per_batch", "recipe", "learning_rate", "seed", "axes")


def upgrade() -> None:
    op.execute("DROP VIEW ranked_allocations")
    if op.get_bind().dialect.name == "sqlite":
        _rebuild("candidates", _candidates)
        _rebuild("trials", _trials)
    else:
        op.add_column("candidates", sa.Column("recipe", sa.String(), nullable=True))
        op.add_column("candidates", _axes())
        op.drop_constraint("uq_candidates_plan_id_rollouts_per_prompt_prompts_per_batch", "candidates")
        op.create_unique_constraint("uq_candidates_configuration", "candidates", OF_CANDIDATES)
        op.add_column("trials", _axes())
        op.drop_constraint("uq_trials_identity", "trials")
        op.create_unique_constraint("uq_trials_identity", "trials", OF_TRIALS)
    op.add_column("recommendations", _axes())
    op.add_column("rankings", _axes())
    op.execute(CREATE_VIEW)


def _axes() -> sa.Column[str]:
    return sa.Column("axes", sa.String(), server_default="{}", nullable=False)


def _rebuild(table: str, create: Callable[[], None]) -> None:
    """Make a table anew with its rows, for SQLite cannot change a constraint; what refers to it must not notice."""
    bind = op.get_bind()
    rows = bind.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar()
    if rows and bind.exec_driver_sql("PRAGMA foreign_keys").scalar():
        raise RuntimeError("foreign keys are on: dropping a table would take away what refers to its rows")
    columns = ", ".join(row[1] for row in bind.exec_driver_sql(f"PRAGMA table_info({table})"))
    op.execute(f"CREATE TABLE kept_{table} AS SELECT * FROM {table}")
    op.drop_table(table)
    create()
    op.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM kept_{table}")
    op.drop_table(f"kept_{table}")


def _candidates() -> None:
    op.create_table(
        "candidates",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("plan_id", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("rollouts_per_prompt", sa.Integer(), nullable=False),
        sa.Column("prompts_per_batch", sa.Integer(), nullable=False),
        sa.Column("update_steps", sa.Integer(), nullable=False),
        sa.Column("pilot_steps", sa.Integer(), nullable=False),
        sa.Column("gpu_hours_per_step", sa.Double(), nullable=False),
        sa.Column("gpu_hours_per_step_low", sa.Double(), nullable=False),
        sa.Column("gpu_hours_per_step_high", sa.Double(), nullable=False),
        sa.Column("segment_steps", sa.Integer(), nullable=False),
        sa.Column("pilot_gpu_hours", sa.Double(), nullable=False),
        sa.Column("learning_rate", sa.Double(), nullable=False),
        sa.Column("epochs", sa.Double(), nullable=False),
        sa.Column("signal_fraction", sa.Double(), nullable=False),
        sa.Column("expected_score", sa.Double(), nullable=True),
        sa.Column("score_low", sa.Double(), nullable=True),
        sa.Column("score_high", sa.Double(), nullable=True),
        sa.Column("pilot_reason", sa.Text(), nullable=False),
        sa.Column("notes", sa.JSON(), nullable=False),
        sa.Column("recipe", sa.String(), nullable=True),
        _axes(),
        sa.UniqueConstraint("plan_id", "rank", name=op.f("uq_candidates_plan_id_rank")),
        sa.UniqueConstraint(*OF_CANDIDATES, name=op.f("uq_candidates_configuration")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_candidates")),
        sa.ForeignKeyConstraint(["plan_id"], ["plans.id"], name=op.f("fk_candidates_plan_id"), ondelete="CASCADE"),
    )


def _trials() -> None:
    op.create_table(
        "trials",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("sweep_id", sa.Integer(), nullable=False),
        sa.Column("candidate_id", sa.Integer(), nullable=True),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("rollouts_per_prompt", sa.Integer(), nullable=False),
        sa.Column("prompts_per_batch", sa.Integer(), nullable=False),
        sa.Column("learning_rate", sa.Double(), nullable=False),
        sa.Column("recipe", sa.String(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("gpu_hours_spent", sa.Double(), nullable=False),
        sa.Column("checkpoint_path", sa.Text(), nullable=True),
        sa.Column("failure_class", sa.String(), nullable=True),
        sa.Column("failure_tail", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        _axes(),
        sa.UniqueConstraint(*OF_TRIALS, name=op.f("uq_trials_identity")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trials")),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_trials_sweep_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["candidate_id"], ["candidates.id"], name=op.f("fk_trials_candidate_id"), ondelete="SET NULL"
        ),
        sa.CheckConstraint(
            "state IN ('planned', 'running', 'paused', 'finished', 'pruned', 'failed', 'lost')",
            name=op.f("ck_trials_state"),
        ),
    )
    op.create_index(op.f("ix_trials_candidate_id"), "trials", ["candidate_id"])
