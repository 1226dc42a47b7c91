"""Scores beside the mean, so that a sweep can compare by the best or the worst of several samples."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("points", sa.Column("further_scores", sa.JSON(none_as_null=True), nullable=True))
