"""Pilots on other GPUs than the final run: what a step costs there, and what points count for on the latter."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("candidates", sa.Column("pilot_gpu_hours_per_step", sa.Double(), nullable=True))
    op.add_column("points", sa.Column("compared_gpu_hours", sa.Double(), nullable=True))
