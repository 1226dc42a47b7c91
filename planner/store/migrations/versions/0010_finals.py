"""The final runs of sweeps: what was promised of each at its launch, and what was believed at each validation."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

# As before, but a final run is no sweep that ranks anything.
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


def upgrade() -> None:
    op.create_table(
        "finals",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("sweep_id", sa.Integer(), nullable=False),
        sa.Column("of_sweep_id", sa.Integer(), nullable=False),
        sa.Column("launched_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("update_steps", sa.Integer(), nullable=False),
        sa.Column("segment_steps", sa.Integer(), nullable=False),
        sa.Column("gpu_hours_per_step", sa.Double(), nullable=False),
        sa.Column("start_up_gpu_hours", sa.Double(), nullable=False),
        sa.Column("from_trial_id", sa.Integer(), nullable=True),
        sa.Column("from_step", sa.Integer(), nullable=False),
        sa.Column("stop_when_won", sa.Boolean(), nullable=False),
        sa.Column("promised_score", sa.Double(), nullable=False),
        sa.Column("promised_low", sa.Double(), nullable=False),
        sa.Column("promised_high", sa.Double(), nullable=False),
        sa.Column("promised_gpu_hours", sa.Double(), nullable=False),
        sa.Column("promised_band", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_finals")),
        sa.UniqueConstraint("sweep_id", name=op.f("uq_finals_sweep_id")),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_finals_sweep_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["of_sweep_id"], ["sweeps.id"], name=op.f("fk_finals_of_sweep_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["from_trial_id"], ["trials.id"], name=op.f("fk_finals_from_trial_id"), ondelete="SET NULL"
        ),
    )
    op.create_index(op.f("ix_finals_of_sweep_id"), "finals", ["of_sweep_id"])
    op.create_table(
        "forecasts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("final_id", sa.Integer(), nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("gpu_hours", sa.Double(), nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("end_score", sa.Double(), nullable=False),
        sa.Column("end_low", sa.Double(), nullable=False),
        sa.Column("end_high", sa.Double(), nullable=False),
        sa.Column("probability_below", sa.Double(), nullable=False),
        sa.Column("expected_gain", sa.Double(), nullable=True),
        sa.Column("probability_more", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_forecasts")),
        sa.ForeignKeyConstraint(["final_id"], ["finals.id"], name=op.f("fk_forecasts_final_id"), ondelete="CASCADE"),
    )
    op.create_index(op.f("ix_forecasts_final_id"), "forecasts", ["final_id"])
    op.execute("DROP VIEW ranked_allocations")
    op.execute(CREATE_VIEW)
