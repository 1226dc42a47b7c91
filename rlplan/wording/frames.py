"""Rows as a pandas, polars or pyarrow table with fixed columns and types, or as a list of dicts where there is none."""

import json
from collections.abc import Iterable, Mapping
from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Literal, TypeAlias

from budgets.errors import InputError, UnknownNameError

Library: TypeAlias = Literal["pandas", "polars", "pyarrow", "rows"]
# A pandas.DataFrame, a polars.DataFrame, a pyarrow.Table or a list of dicts: which one is known only where it runs.
Frame: TypeAlias = Any

LIBRARIES = ("pandas", "polars", "pyarrow", "rows")


class Kind(Enum):
    """What a column holds; the value is its dtype in pandas."""

    WHOLE = "int64"
    WHOLE_OR_MISSING = "Int64"
    NUMBER = "float64"
    TEXT = "string"
    TIME = "datetime64[us, UTC]"


Columns: TypeAlias = Mapping[str, Kind]


def make_frame(columns: Columns, rows: Iterable[object], library: Library | None) -> Frame:
    """Return rows as a frame of a library: of the one that is named, else of pandas or polars if there is one.

    Rows are objects or mappings; the further axes of each, `axes`, become columns behind the others.
    """
    columns, found = spread(columns, rows)
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


def spread(columns: Columns, rows: Iterable[object]) -> tuple[Columns, list[dict[str, Any]]]:
    """Return rows by columns; each further axis is a column `axis_…`, of numbers where all of its values are numbers.

    What is no plain value is JSON.
    """
    listed = list(rows)
    axes = [dict(_field(each, "axes") or ()) for each in listed]
    texts = {name: False for each in axes for name in each}
    texts |= {name: True for each in axes for name, value in each.items() if isinstance(value, str)}
    found = []
    for row, own in zip(listed, axes, strict=True):
        cells = {name: _cell(_field(row, name)) for name in columns}
        for name, is_text in texts.items():
            value = own.get(name)
            cells[f"axis_{name}"] = str(value) if is_text and value is not None else value
        found.append(cells)
    return {**columns, **{f"axis_{name}": Kind.TEXT if text else Kind.NUMBER for name, text in texts.items()}}, found


def _field(row: Any, name: str) -> Any:
    return row.get(name) if isinstance(row, Mapping) else getattr(row, name, None)


def _cell(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    return json.dumps(value) if isinstance(value, dict | list | tuple) else value


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


def _by_narwhals(columns: Columns, rows: list[dict[str, Any]], library: Literal["polars", "pyarrow"]) -> Frame:
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


def columns(text: str) -> Columns:
    """Return the columns that a text lists, each a kind and a name, as docs/python.md writes them."""
    pairs = (each.split() for each in text.split(","))
    return {name: KINDS[kind] for kind, name in pairs}


KINDS: Final = {
    "whole": Kind.WHOLE,
    "whole?": Kind.WHOLE_OR_MISSING,
    "number": Kind.NUMBER,
    "text": Kind.TEXT,
    "time": Kind.TIME,
}
CANDIDATES: Final = columns("""
    whole rank, whole rollouts_per_prompt, whole prompts_per_batch, whole update_steps, whole pilot_steps,
    number gpu_hours_per_step, number pilot_gpu_hours, number learning_rate, number epochs, number signal_fraction,
    number expected_score, number score_low, number score_high, text pilot_reason, text notes
""")
PLANS: Final = columns("""
    text plan, time created_at, number budget_gpu_hours, number pilot_gpu_hours, number final_gpu_hours, text model,
    text gpu, whole gpus, text recipe, text difficulty, whole candidates
""")
SWEEPS: Final = columns("""
    text sweep, text plan, time created_at, time finished_at, text status, text policy, whole seed, whole trials,
    number gpu_hours_spent
""")
LISTED: Final = columns("""
    text sweep, text plan, text workload, text policy, whole seed, text state, time created_at, whole trials,
    number spent_gpu_hours, number pilot_gpu_hours, whole? rollouts_per_prompt, whole? prompts_per_batch,
    whole? update_steps, number expected_score, number score_low, number score_high
""")
TRIALS: Final = columns("""
    text trial, whole rollouts_per_prompt, whole prompts_per_batch, number learning_rate, whole seed, text state,
    whole attempt, whole step, whole? pilot_steps, number gpu_hours_spent, number score, number score_standard_error,
    number expected_score, number score_low, number score_high, number probability_best, text failure_class
""")
CURVES: Final = columns("""
    text trial, whole rollouts_per_prompt, whole prompts_per_batch, whole seed, text state, whole step,
    number gpu_hours, number score, number score_standard_error
""")
SCORES: Final = columns("whole step, number gpu_hours, number score, number score_standard_error")
POINTS: Final = columns("""
    text trial, whole attempt, whole step, whole rollouts, whole tokens, number seconds, number gpu_hours,
    number compared_gpu_hours, number score, number score_standard_error
""")
RANKED: Final = columns("""
    whole rank, whole rollouts_per_prompt, whole prompts_per_batch, whole update_steps, number learning_rate,
    text recipe, number expected_score, number score_low, number score_high, number probability_best,
    number gpu_hours_spent, number gpu_hours_to_target, text status
""")
DECISIONS: Final = columns("whole number, time at, text action, text trial, text reason, text seen, text alternatives")
SEGMENTS: Final = columns("""
    text worker, text trial, whole segment, whole attempt, whole from_step, whole to_step, time started_at,
    time ended_at, text outcome, number reserved_gpu_hours, number charged_gpu_hours
""")
CHOICES: Final = columns("""
    whole rank, whole rollouts_per_prompt, whole prompts_per_batch, whole update_steps, number learning_rate,
    text recipe, number gpu_hours, number expected_score, number score_low, number score_high, number probability_best,
    number probability_within_002, number expected_regret, number collapse_risk,
    text status, number gpu_hours_spent, number reached_gpu_hours, whole seeds_seen
""")
FITS: Final = columns("""
    text curve, text file, whole points, whole used_points, number last_used_x, number cut, text verdict, text evidence,
    number noise_sd, number fit_ms, text x_column, text y_column, number R0_median, number R0_low, number R0_high,
    number A_median, number A_low, number A_high, number B_median, number B_low, number B_high, number C_mid_median,
    number C_mid_low, number C_mid_high, number now, number now_low, number now_high, number observed, number x,
    number mean, number low, number high, number level, number expectation, text notes
""")
LAWS: Final = columns("""
    text law, text name, text identified, text what, number x, number median, number low, number high, number level
""")
COMPARED: Final = columns("""
    text name, whole rank, whole tie_group, whole runs, number probability_best, number probability_tied,
    number A_median, number A_low, number A_high, number B_median, number B_low, number B_high, number C_mid_median,
    number C_mid_low, number C_mid_high
""")
PHASES: Final = columns("text phase, number seconds, number low, number high, text limit")
MEASURED: Final = columns("text phase, number priced_seconds, number measured_seconds, number ratio")
RUNS: Final = columns("""
    text row_id, number predicted_seconds, number low, number high, number measured_seconds, number ratio, text notes
""")
CHECKED: Final = columns("text what, text value")
FORGOTTEN: Final = columns("text run, whole records")
PREVIEWED: Final = columns("""
    number pilot_fraction, number pilot_gpu_hours, number final_gpu_hours, number final_wall_hours,
    number gpu_hours_spent, number gpu_hours_spent_standard_error, number pilot_wall_hours,
    number pilot_wall_hours_standard_error, number score, number score_standard_error, number regret,
    number regret_standard_error, number probability_near_best, number probability_near_best_standard_error,
    number gain_over_first_ranked, number gain_over_first_ranked_standard_error
""")
REPLAYS: Final = columns("""
    text policy, whole seed, whole rollouts_per_prompt, whole prompts_per_batch, number gpu_hours_spent,
    number score_at_target, number best_at_target, number regret, whole decisions
""")
TRACE: Final = columns("number gpu_hours, whole rollouts_per_prompt, whole prompts_per_batch, number regret")
