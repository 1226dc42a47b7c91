"""What refers to a trial or a segment is found by it: to delete a sweep looked through all points for each segment."""

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

REFERENCES = {
    "points": "segment_id",
    "decisions": "trial_id",
    "cost_records": "trial_id",
    "finals": "from_trial_id",
}


def upgrade() -> None:
    """Make an index of each reference."""
    for table, column in REFERENCES.items():
        op.create_index(op.f(f"ix_{table}_{column}"), table, [column])
