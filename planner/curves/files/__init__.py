"""Reads learning curves made elsewhere: CSV, JSONL, TensorBoard, `trainer_state.json`, W&B exports."""

from planner.curves.files.assembly import read_curves
from planner.curves.files.sources import read_table
from planner.curves.files.table import Table

__all__ = ["Table", "read_curves", "read_table"]
