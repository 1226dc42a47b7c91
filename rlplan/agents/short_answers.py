"""Answers that fit into an agent's context: the start of each list, numbers to three digits, and what is left out."""

import json
from typing import Any

DIGITS = 3
ROWS = (24, 12, 8, 5, 3, 2, 1, 0)  # that are tried, of every list
NESTED = 3  # rows at most of a list within a row


def short_answer(answer: Any, most: int, *, newest: bool = False) -> tuple[Any, dict[str, str]]:
    """Return as much of a document as `most` characters hold, and how much of each list that is.

    Of `newest` lists the end is kept, else the start.
    """
    if len(json.dumps(answer)) <= most:
        return answer, {}
    for rows in ROWS:
        left_out: dict[str, str] = {}
        short = _cut(answer, rows, newest, "answer", left_out)
        if len(json.dumps(short)) <= most:
            return short, left_out
    while isinstance(short, dict) and len(json.dumps(short)) > most:  # the bulkiest, as far as needed
        key = max(short, key=lambda name: len(json.dumps(short[name])))
        left_out[key] = "nothing"
        del short[key]
    return short, left_out


def _cut(value: Any, rows: int, newest: bool, name: str, left_out: dict[str, str]) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if abs(value) < 10**DIGITS else round(value)
    if isinstance(value, dict):
        return {key: _cut(inner, rows, newest, key, left_out) for key, inner in value.items()}
    if not isinstance(value, list):
        return value
    kept = value if len(value) <= rows else value[-rows:] if newest and rows else value[:rows]
    if len(kept) < len(value):
        left_out.setdefault(name, f"{len(kept)} of {len(value)}")
    return [_cut(row, min(rows, NESTED), newest, name, left_out) for row in kept]
