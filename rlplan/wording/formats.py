"""Names that flags and what prints agree on: how data is printed, what a decision can be, where the database is."""

from enum import StrEnum

DEFAULT_DATABASE = "rlplan.db"
ACTIONS = ("start", "continue", "prune", "finish", "propose", "stop", "retry", "recovered")  # of decisions


class Format(StrEnum):
    """How data is printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class FileFormat(StrEnum):
    """How a table is written into a file."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"
