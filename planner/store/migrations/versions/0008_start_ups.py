"""What a segment took beside its updates, where somebody else's trainer has to start for it."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("segments", sa.Column("start_up_gpu_hours", sa.Double(), nullable=True))
