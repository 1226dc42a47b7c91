"""What the driver, its child and the workers say to each other: lines of JSON."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from runner.ports.executor import Began, Ended, Event, Failed, Progress
from runner.training.trial import point_from

Message = dict[str, Any]

_EVENTS: dict[str, type[Event]] = {"began": Began, "progress": Progress, "ended": Ended, "failed": Failed}
_NAMES = {kind: name for name, kind in _EVENTS.items()}


def encoded(message: Mapping[str, Any]) -> bytes:
    """Return a message as a line."""
    return json.dumps(message).encode("ascii") + b"\n"


def decoded(line: bytes) -> Message:
    """Return the message of a line."""
    message: Message = json.loads(line)
    return message


def message_of(event: Event) -> Message:
    """Return an event of a worker as a message, with its name under `event`."""
    return {"event": _NAMES[type(event)], **asdict(event)}


def event_of(message: Message) -> Began | Progress | Ended | Failed:
    """Return the worker's event in a message."""
    kind: Any = _EVENTS[message["event"]]
    values = {name: message[name] for name in kind.__dataclass_fields__}
    if kind is Progress:
        values["points"] = tuple(point_from(point) for point in values["points"])
    if kind is Ended:
        values["notes"] = tuple(values["notes"])
    event: Began | Progress | Ended | Failed = kind(**values)
    return event
