"""Plans, sweeps, trials and what they bring."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _plans()
    _candidates()
    _sweeps()
    _trials()
    _segments()
    _points()
    _transitions()
    _fits()
    _decisions()
    _recommendations()
    _cost_records()


def _plans() -> None:
    op.create_table(
        "plans",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("budget_gpu_hours", sa.Double(), nullable=False),
        sa.Column("pilot_gpu_hours", sa.Double(), nullable=False),
        sa.Column("final_gpu_hours", sa.Double(), nullable=False),
        sa.Column("recipe", sa.String(), nullable=False),
        sa.Column("difficulty", sa.String(), nullable=False),
        sa.Column("workload", sa.JSON(), nullable=False),
        sa.Column("hardware", sa.JSON(), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("assumptions", sa.JSON(), nullable=False),
        sa.Column("outlook", sa.JSON(), nullable=False),
        sa.Column("rlplan_version", sa.String(), nullable=False),
        sa.CheckConstraint("budget_gpu_hours > 0", name=op.f("ck_plans_budget")),
        sa.CheckConstraint("pilot_gpu_hours >= 0", name=op.f("ck_plans_pilot")),
        sa.CheckConstraint("final_gpu_hours >= 0", name=op.f("ck_plans_final")),
        sa.CheckConstraint(
            "pilot_gpu_hours + final_gpu_hours <= budget_gpu_hours * (1 + 1e-9)", name=op.f("ck_plans_split")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plans")),
        sa.UniqueConstraint("name", name=op.f("uq_plans_name")),
    )


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
        sa.UniqueConstraint("plan_id", "rank", name=op.f("uq_candidates_plan_id_rank")),
        sa.UniqueConstraint(
            "plan_id",
            "rollouts_per_prompt",
            "prompts_per_batch",
            name=op.f("uq_candidates_plan_id_rollouts_per_prompt_prompts_per_batch"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_candidates")),
        sa.ForeignKeyConstraint(["plan_id"], ["plans.id"], name=op.f("fk_candidates_plan_id"), ondelete="CASCADE"),
    )


def _sweeps() -> None:
    op.create_table(
        "sweeps",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("plan_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("policy", sa.String(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("config_hash", sa.String(), nullable=False),
        sa.Column("code_hash", sa.String(), nullable=True),
        sa.Column("driver_id", sa.String(), nullable=True),
        sa.Column("driver_host", sa.String(), nullable=True),
        sa.Column("driver_pid", sa.Integer(), nullable=True),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sweeps")),
        sa.ForeignKeyConstraint(["plan_id"], ["plans.id"], name=op.f("fk_sweeps_plan_id"), ondelete="CASCADE"),
        sa.UniqueConstraint("name", name=op.f("uq_sweeps_name")),
        sa.CheckConstraint(
            "status IN ('created', 'running', 'interrupted', 'finished', 'failed')", name=op.f("ck_sweeps_status")
        ),
    )
    op.create_index(op.f("ix_sweeps_plan_id"), "sweeps", ["plan_id"])


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
        sa.UniqueConstraint(
            "sweep_id",
            "rollouts_per_prompt",
            "prompts_per_batch",
            "recipe",
            "learning_rate",
            "seed",
            name=op.f("uq_trials_identity"),
        ),
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


def _segments() -> None:
    op.create_table(
        "segments",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("trial_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("from_step", sa.Integer(), nullable=False),
        sa.Column("to_step", sa.Integer(), nullable=False),
        sa.Column("reserved_gpu_hours", sa.Double(), nullable=False),
        sa.Column("charged_gpu_hours", sa.Double(), nullable=True),
        sa.Column("worker", sa.String(), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.UniqueConstraint("trial_id", "number", "attempt", name=op.f("uq_segments_trial_id_number_attempt")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_segments")),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name=op.f("fk_segments_trial_id"), ondelete="CASCADE"),
        sa.CheckConstraint(
            "outcome IN ('reserved', 'committed', 'failed', 'lost', 'released')", name=op.f("ck_segments_outcome")
        ),
    )


def _points() -> None:
    op.create_table(
        "points",
        sa.Column("trial_id", sa.Integer(), nullable=False),
        sa.Column("optimizer_step", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("segment_id", sa.Integer(), nullable=True),
        sa.Column("rollouts", sa.BigInteger(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("gpu_hours", sa.Double(), nullable=False),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("score_standard_error", sa.Double(), nullable=True),
        sa.Column("metrics", sa.JSON(), nullable=True),
        sa.PrimaryKeyConstraint("trial_id", "optimizer_step", "attempt", name=op.f("pk_points")),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name=op.f("fk_points_trial_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["segment_id"], ["segments.id"], name=op.f("fk_points_segment_id"), ondelete="SET NULL"
        ),
    )


def _transitions() -> None:
    op.create_table(
        "transitions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("trial_id", sa.Integer(), nullable=False),
        sa.Column("from_state", sa.String(16), nullable=True),
        sa.Column("to_state", sa.String(16), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_transitions")),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name=op.f("fk_transitions_trial_id"), ondelete="CASCADE"),
        sa.CheckConstraint(
            "from_state IN ('planned', 'running', 'paused', 'finished', 'pruned', 'failed', 'lost')",
            name=op.f("ck_transitions_from_state"),
        ),
        sa.CheckConstraint(
            "to_state IN ('planned', 'running', 'paused', 'finished', 'pruned', 'failed', 'lost')",
            name=op.f("ck_transitions_to_state"),
        ),
    )
    op.create_index(op.f("ix_transitions_trial_id"), "transitions", ["trial_id"])


def _fits() -> None:
    op.create_table(
        "fits",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("trial_id", sa.Integer(), nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("verdict", sa.String(), nullable=False),
        sa.Column("upto_gpu_hours", sa.Double(), nullable=False),
        sa.Column("target_gpu_hours", sa.Double(), nullable=False),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("predicted_mean", sa.Double(), nullable=False),
        sa.Column("predicted_low", sa.Double(), nullable=False),
        sa.Column("predicted_high", sa.Double(), nullable=False),
        sa.Column("level", sa.Double(), nullable=False),
        sa.Column("fit_milliseconds", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_fits")),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name=op.f("fk_fits_trial_id"), ondelete="CASCADE"),
    )
    op.create_index(op.f("ix_fits_trial_id"), "fits", ["trial_id"])


def _decisions() -> None:
    op.create_table(
        "decisions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("sweep_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("trial_id", sa.Integer(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("seen", sa.JSON(), nullable=False),
        sa.Column("alternatives", sa.JSON(), nullable=False),
        sa.UniqueConstraint("sweep_id", "number", name=op.f("uq_decisions_sweep_id_number")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_decisions")),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_decisions_sweep_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name=op.f("fk_decisions_trial_id"), ondelete="SET NULL"),
    )


def _recommendations() -> None:
    op.create_table(
        "recommendations",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("sweep_id", sa.Integer(), nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("rollouts_per_prompt", sa.Integer(), nullable=False),
        sa.Column("prompts_per_batch", sa.Integer(), nullable=False),
        sa.Column("update_steps", sa.Integer(), nullable=False),
        sa.Column("learning_rate", sa.Double(), nullable=False),
        sa.Column("recipe", sa.String(), nullable=False),
        sa.Column("expected_score", sa.Double(), nullable=False),
        sa.Column("score_low", sa.Double(), nullable=False),
        sa.Column("score_high", sa.Double(), nullable=False),
        sa.Column("probability_best", sa.Double(), nullable=False),
        sa.Column("expected_regret", sa.Double(), nullable=False),
        sa.Column("gpu_hours_to_target", sa.Double(), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_recommendations")),
        sa.ForeignKeyConstraint(
            ["sweep_id"], ["sweeps.id"], name=op.f("fk_recommendations_sweep_id"), ondelete="CASCADE"
        ),
    )
    op.create_index(op.f("ix_recommendations_sweep_id"), "recommendations", ["sweep_id"])


def _cost_records() -> None:
    op.create_table(
        "cost_records",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("gpu", sa.String(), nullable=False),
        sa.Column("generator_gpus", sa.Integer(), nullable=False),
        sa.Column("trainer_gpus", sa.Integer(), nullable=False),
        sa.Column("colocated", sa.Boolean(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("recipe", sa.String(), nullable=False),
        sa.Column("rollouts_per_prompt", sa.Integer(), nullable=False),
        sa.Column("prompts_per_batch", sa.Integer(), nullable=False),
        sa.Column("generated_rollouts", sa.Integer(), nullable=False),
        sa.Column("trained_rollouts", sa.Integer(), nullable=False),
        sa.Column("mean_prompt_tokens", sa.Double(), nullable=False),
        sa.Column("mean_response_tokens", sa.Double(), nullable=False),
        sa.Column("longest_response_tokens", sa.Double(), nullable=False),
        sa.Column("seconds", sa.JSON(), nullable=False),
        sa.Column("trial_id", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cost_records")),
        sa.ForeignKeyConstraint(
            ["trial_id"], ["trials.id"], name=op.f("fk_cost_records_trial_id"), ondelete="SET NULL"
        ),
    )
    op.create_index(op.f("ix_cost_records_gpu"), "cost_records", ["gpu"])
