"""All tables and the view together, and how a fresh database gets them."""

from sqlalchemy import Connection

from planner.store.base import Base
from planner.store.plan_tables import Candidate, CostRecord, Plan
from planner.store.result_tables import Decision, Fit, Ranking, Recommendation
from planner.store.sweep_tables import (
    Charge,
    Point,
    Request,
    RequestKind,
    Segment,
    SegmentOutcome,
    Sweep,
    SweepStatus,
    Transition,
    Trial,
)
from planner.store.view import COLUMNS, CREATE_VIEW, RANKED_ALLOCATIONS

__all__ = [
    "COLUMNS",
    "HEAD",
    "RANKED_ALLOCATIONS",
    "REVISIONS",
    "Base",
    "Candidate",
    "Charge",
    "CostRecord",
    "Decision",
    "Fit",
    "Plan",
    "Point",
    "Ranking",
    "Recommendation",
    "Request",
    "RequestKind",
    "Segment",
    "SegmentOutcome",
    "Sweep",
    "SweepStatus",
    "Transition",
    "Trial",
    "create_schema",
]

# Every version of the schema, oldest first. Written here too, beside the migrations, so that opening a current database
# does not import alembic; a test holds the two together.
REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006")
HEAD = REVISIONS[-1]

# The table by which alembic knows a database's version, exactly as alembic makes it.
_VERSION_TABLE = """\
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
)"""


def create_schema(connection: Connection) -> None:
    """Make the current version's tables and view in an empty database, without alembic, which is slow to import."""
    Base.metadata.create_all(connection, checkfirst=False)
    connection.exec_driver_sql(CREATE_VIEW)
    connection.exec_driver_sql(_VERSION_TABLE)
    connection.exec_driver_sql(f"INSERT INTO alembic_version (version_num) VALUES ('{HEAD}')")
