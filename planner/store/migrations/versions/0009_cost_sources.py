"""Where a measured cost came from, and what else tells the step that it stands for."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("cost_records", sa.Column("source", sa.Text(), nullable=True))
    op.add_column("cost_records", sa.Column("trainer", sa.String(), nullable=True))
    op.add_column("cost_records", sa.Column("steps", sa.Integer(), nullable=True))
    op.add_column("cost_records", sa.Column("asynchronous", sa.Boolean(), nullable=True))
    op.add_column("cost_records", sa.Column("updates_per_step", sa.Integer(), nullable=True))
    op.add_column("cost_records", sa.Column("engine_gpus", sa.Integer(), nullable=True))
    op.add_column("cost_records", sa.Column("response_assumed", sa.Boolean(), nullable=True))
