"""The final runs of sweeps: what was promised of each at its launch, and what was believed at each validation."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


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
