"""Files as trainers and trackers write them, and the curves that were read of them in the terms tests compare."""

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from planner.curves.curve import Curve
from planner.curves.files import read_curves


def write(path: Path, text: str, *, encoding: str = "utf-8") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))
    return path


def csv_file(path: Path, header: str, rows: Iterable[Sequence[object]], *, mark: str = ",", end: str = "\n") -> Path:
    lines = [header, *(mark.join(map(str, row)) for row in rows)]
    return write(path, end.join(lines) + end)


def jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    return write(path, "".join(json.dumps(row) + "\n" for row in rows))


def trainer_state(path: Path, log: Sequence[Mapping[str, Any]]) -> Path:
    return write(path, json.dumps({"global_step": 0, "log_history": log, "is_world_process_zero": True}, indent=2))


def events(folder: Path, scalars: Iterable[tuple[float, int, str, float]], *, suffix: str = "") -> Path:
    """Write (wall time, step, tag, value) as TensorBoard does."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        writer = EventFileWriter(str(folder), filename_suffix=suffix)
        for time, step, tag, value in scalars:
            summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
            writer.add_event(Event(wall_time=time, step=step, summary=summary))
        writer.close()
        del writer
    return folder


def tensor_events(folder: Path, tag: str, values: Sequence[float]) -> Path:
    """Write scalars as TensorFlow 2 does: as tensors."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
    from tensorboard.util.tensor_util import make_tensor_proto

    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="scalars"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        writer = EventFileWriter(str(folder))
        for step, value in enumerate(values):
            tensor = make_tensor_proto(value, dtype=float)
            found = Summary.Value(tag=tag, metadata=metadata, tensor=tensor)
            writer.add_event(Event(wall_time=float(step), step=step, summary=Summary(value=[found])))
        writer.close()
        del writer
    return folder


def only(path: Path, **named: Any) -> Curve:
    (curve,) = read_curves(path, **named)
    return curve


def points(curve: Curve) -> list[tuple[float, float]]:
    return list(zip(curve.x.tolist(), curve.y.tolist(), strict=True))


def noted(curve: Curve, part: str) -> bool:
    return any(part in note for note in curve.notes)
