"""Rows as a pandas, polars or pyarrow table with fixed columns and types, or as a list of dicts where there is none."""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Literal, TypeAlias

from budgets.errors import InputError, UnknownNameError
from planner.view import Axes

Library: TypeAlias = Literal["pandas", "polars", "pyarrow", "rows"]
# A pandas.DataFrame, a polars.DataFrame, a pyarrow.Table or a list of dicts: which one is known only where it runs.
Frame: TypeAlias = Any
Row: TypeAlias = Mapping[str, Any]

LIBRARIES = ("pandas", "polars", "pyarrow", "rows")


class Kind(Enum):
    """What a column holds; the value is its dtype in pandas."""

    WHOLE = "int64"
    WHOLE_OR_MISSING = "Int64"
    NUMBER = "float64"
    TEXT = "string"
    TIME = "datetime64[us, UTC]"


Columns: TypeAlias = Mapping[str, Kind]


def make_frame(columns: Columns, rows: Iterable[Row], library: Library | None) -> Frame:
    """Return rows as a frame of a library: of the one that is named, else of pandas or polars if there is one."""
    found = list(rows)
    match _chosen(library):
        case "pandas":
            pandas: Any = import_module("pandas")  # by itself: only its own dtypes know whole numbers that are missing
            series = {
                name: pandas.Series([row[name] for row in found], dtype=kind.value) for name, kind in columns.items()
            }
            return pandas.DataFrame(series)
        case "polars" | "pyarrow" as other:
            return _by_narwhals(columns, found, other)
        case _:
            return [{name: row[name] for name in columns} for row in found]


def spread_axes(columns: Columns, rows: Sequence[Row], of: Iterable[Axes]) -> tuple[Columns, list[dict[str, Any]]]:
    """Give each further axis a column `axis_…` behind the others; numbers where all of its values are numbers."""
    axes = [dict(each) for each in of]
    names = dict.fromkeys(name for each in axes for name in each)
    texts = {name for each in axes for name, value in each.items() if isinstance(value, str)}
    more = {f"axis_{name}": Kind.TEXT if name in texts else Kind.NUMBER for name in names}

    def cell(own: Mapping[str, str | float], name: str) -> str | float | None:
        value = own.get(name)
        return str(value) if name in texts and value is not None else value

    spread = [
        {**row, **{f"axis_{name}": cell(own, name) for name in names}} for row, own in zip(rows, axes, strict=True)
    ]
    return {**columns, **more}, spread


def _chosen(library: str | None) -> str:
    if library is None:
        return next((name for name in ("pandas", "polars") if find_spec(name)), "rows")
    if library not in LIBRARIES:
        raise UnknownNameError("kind of frame", str(library), LIBRARIES)
    if library != "rows" and not find_spec(library):
        raise InputError(
            f"frame='{library}': {library} is not installed. Install it (pip install {library}), take frame='rows' for "
            "a list of dicts, or leave frame out for what there is"
        )
    return library


def _by_narwhals(columns: Columns, rows: Sequence[Row], library: Literal["polars", "pyarrow"]) -> Frame:
    import narwhals  # noqa: PLC0415

    types = {
        Kind.WHOLE: narwhals.Int64(),
        Kind.WHOLE_OR_MISSING: narwhals.Int64(),
        Kind.NUMBER: narwhals.Float64(),
        Kind.TEXT: narwhals.String(),
        Kind.TIME: narwhals.Datetime("us", "UTC"),
    }
    values = {name: [row[name] for row in rows] for name in columns}
    return narwhals.from_dict(
        values, {name: types[kind] for name, kind in columns.items()}, backend=library
    ).to_native()


_CONFIGURATION: Final[Columns] = {"rollouts_per_prompt": Kind.WHOLE, "prompts_per_batch": Kind.WHOLE}
_EXPECTATION: Final[Columns] = {
    "expected_score": Kind.NUMBER,
    "score_low": Kind.NUMBER,
    "score_high": Kind.NUMBER,
}

CANDIDATES: Final[Columns] = {
    "rank": Kind.WHOLE,
    **_CONFIGURATION,
    "update_steps": Kind.WHOLE,
    "pilot_steps": Kind.WHOLE,
    "gpu_hours_per_step": Kind.NUMBER,
    "pilot_gpu_hours": Kind.NUMBER,
    "learning_rate": Kind.NUMBER,
    "epochs": Kind.NUMBER,
    "signal_fraction": Kind.NUMBER,
    **_EXPECTATION,
    "pilot_reason": Kind.TEXT,
    "notes": Kind.TEXT,
}
PLANS: Final[Columns] = {
    "plan": Kind.TEXT,
    "created_at": Kind.TIME,
    "budget_gpu_hours": Kind.NUMBER,
    "pilot_gpu_hours": Kind.NUMBER,
    "final_gpu_hours": Kind.NUMBER,
    "model": Kind.TEXT,
    "gpu": Kind.TEXT,
    "gpus": Kind.WHOLE,
    "recipe": Kind.TEXT,
    "difficulty": Kind.TEXT,
    "candidates": Kind.WHOLE,
}
SWEEPS: Final[Columns] = {
    "sweep": Kind.TEXT,
    "plan": Kind.TEXT,
    "created_at": Kind.TIME,
    "finished_at": Kind.TIME,
    "status": Kind.TEXT,
    "policy": Kind.TEXT,
    "seed": Kind.WHOLE,
    "trials": Kind.WHOLE,
    "gpu_hours_spent": Kind.NUMBER,
}
TRIALS: Final[Columns] = {
    "trial": Kind.TEXT,
    **_CONFIGURATION,
    "learning_rate": Kind.NUMBER,
    "seed": Kind.WHOLE,
    "state": Kind.TEXT,
    "attempt": Kind.WHOLE,
    "step": Kind.WHOLE,
    "pilot_steps": Kind.WHOLE_OR_MISSING,
    "gpu_hours_spent": Kind.NUMBER,
    "score": Kind.NUMBER,
    "score_standard_error": Kind.NUMBER,
    **_EXPECTATION,
    "probability_best": Kind.NUMBER,
    "failure_class": Kind.TEXT,
}
CURVES: Final[Columns] = {
    "trial": Kind.TEXT,
    **_CONFIGURATION,
    "seed": Kind.WHOLE,
    "state": Kind.TEXT,
    "step": Kind.WHOLE,
    "gpu_hours": Kind.NUMBER,
    "score": Kind.NUMBER,
    "score_standard_error": Kind.NUMBER,
}
POINTS: Final[Columns] = {
    "trial": Kind.TEXT,
    "attempt": Kind.WHOLE,
    "step": Kind.WHOLE,
    "rollouts": Kind.WHOLE,
    "tokens": Kind.WHOLE,
    "seconds": Kind.NUMBER,
    "gpu_hours": Kind.NUMBER,
    "score": Kind.NUMBER,
    "score_standard_error": Kind.NUMBER,
}
RANKED: Final[Columns] = {
    "rank": Kind.WHOLE,
    **_CONFIGURATION,
    "update_steps": Kind.WHOLE,
    "learning_rate": Kind.NUMBER,
    "recipe": Kind.TEXT,
    **_EXPECTATION,
    "probability_best": Kind.NUMBER,
    "gpu_hours_spent": Kind.NUMBER,
    "gpu_hours_to_target": Kind.NUMBER,
    "status": Kind.TEXT,
}
DECISIONS: Final[Columns] = {
    "number": Kind.WHOLE,
    "at": Kind.TIME,
    "action": Kind.TEXT,
    "trial": Kind.TEXT,
    "reason": Kind.TEXT,
    "seen": Kind.TEXT,
    "alternatives": Kind.TEXT,
}
SEGMENTS: Final[Columns] = {
    "worker": Kind.TEXT,
    "trial": Kind.TEXT,
    "segment": Kind.WHOLE,
    "attempt": Kind.WHOLE,
    "from_step": Kind.WHOLE,
    "to_step": Kind.WHOLE,
    "started_at": Kind.TIME,
    "ended_at": Kind.TIME,
    "outcome": Kind.TEXT,
    "reserved_gpu_hours": Kind.NUMBER,
    "charged_gpu_hours": Kind.NUMBER,
}
CHOICES: Final[Columns] = {
    "rank": Kind.WHOLE,
    **_CONFIGURATION,
    "update_steps": Kind.WHOLE,
    "learning_rate": Kind.NUMBER,
    "recipe": Kind.TEXT,
    "gpu_hours": Kind.NUMBER,
    **_EXPECTATION,
    "probability_best": Kind.NUMBER,
    "probability_within_001": Kind.NUMBER,
    "probability_within_002": Kind.NUMBER,
    "expected_regret": Kind.NUMBER,
    "collapse_risk": Kind.NUMBER,
    "status": Kind.TEXT,
    "gpu_hours_spent": Kind.NUMBER,
    "reached_gpu_hours": Kind.NUMBER,
    "seeds_seen": Kind.WHOLE,
}
FITS: Final[Columns] = {
    "curve": Kind.TEXT,
    "points": Kind.WHOLE,
    "used_points": Kind.WHOLE,
    "verdict": Kind.TEXT,
    "noise_sd": Kind.NUMBER,
    "x": Kind.NUMBER,
    "mean": Kind.NUMBER,
    "low": Kind.NUMBER,
    "high": Kind.NUMBER,
    "level": Kind.NUMBER,
    "observed": Kind.NUMBER,
    "notes": Kind.TEXT,
}
LAWS: Final[Columns] = {
    "law": Kind.TEXT,
    "name": Kind.TEXT,
    "identified": Kind.TEXT,
    "what": Kind.TEXT,
    **dict.fromkeys(("x", "median", "low", "high", "level"), Kind.NUMBER),
}
COMPARED: Final[Columns] = {
    "name": Kind.TEXT,
    **dict.fromkeys(("rank", "tie_group", "runs"), Kind.WHOLE),
    "probability_best": Kind.NUMBER,
    "probability_tied": Kind.NUMBER,
    **{f"{name}_{part}": Kind.NUMBER for name in ("A", "B", "C_mid") for part in ("median", "low", "high")},
}
TRACE: Final[Columns] = {"gpu_hours": Kind.NUMBER, **_CONFIGURATION, "regret": Kind.NUMBER}
