"""Reads learning curves made elsewhere: CSV, JSONL, TensorBoard, `trainer_state.json`, W&B exports."""

from planner.curves.reading.assembly import read_curves
from planner.curves.reading.sources import read_table
from planner.curves.reading.table import Table

__all__ = ["Table", "read_curves", "read_table"]
