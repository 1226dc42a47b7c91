"""What a running sweep adds: GPU-hours that belong to no segment, and how likely each curve was the best."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "charges",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("sweep_id", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("worker", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("gpu_hours", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_charges")),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_charges_sweep_id"), ondelete="CASCADE"),
    )
    op.create_index(op.f("ix_charges_sweep_id"), "charges", ["sweep_id"])
    op.add_column("fits", sa.Column("probability_best", sa.Double(), nullable=True))
