"""`rlplan fits`: whether a model fits some GPUs, by part, and how many of each kind would do."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from planner.scripts.launch import Launch
from planner.scripts.verdict import Memory
from rlplan.actions.script_check import PartsData, room_for
from rlplan.commands.check_screen import ROWS, fit_line, part_line
from rlplan.exits import ExitCode
from rlplan.requests.plan import FitsRequest
from rlplan.wording.answers import Answer, Columns, Key
from rlplan.wording.numbers import some_of
from rlplan.wording.screen import Canvas, Invocation, Part, next_steps, table_of

MOST_KINDS = 8  # of GPUs, on the screen


@dataclass(frozen=True, repr=False)
class ModelRoom(Answer):
    """Whether a model fits; a row of a table has a column for each kind of GPU."""

    launch: Launch = field(repr=False)
    room: Memory = field(repr=False)
    fewest: Mapping[str, int] = field(repr=False)  # GPUs of each kind that would do

    model = Key[str]("launch.workload.model.name")
    fits = Key[bool]("room.fits")
    memory = Key[PartsData](lambda room: PartsData(room.room))
    fewest_by_gpu = Key[Mapping[str, int]]("fewest", "GPUs of each kind that would do")

    @property
    def code(self) -> ExitCode:
        """That of warnings where it does not fit."""
        return ExitCode.DONE if self.room.fits else ExitCode.FINISHED_WITH_FAILURES

    def table(self) -> tuple[Columns, list[dict[str, Any]]]:
        """Return how many of each kind would do."""
        return tuple(self.fewest), [dict(self.fewest)]

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Draw it."""
        launch, memory = self.launch, self.room
        model, machine = launch.workload.model.name, f"{launch.hardware.gpus} {launch.hardware.gpu.name}"
        fits = "fits" if memory.fits else "does not fit"
        longest = f"responses of up to {launch.workload.responses.cap:,} tokens"
        others = some_of([f"{count} {name}" for name, count in self.fewest.items()], MOST_KINDS)
        yield from canvas.lines(f"{model} {fits} {machine}, {longest}.", "bold")
        rows = [("Memory", fit_line(memory)), ("By part", part_line(memory))]
        yield table_of([*rows, ("Fewest", others or "none of the catalogue")], ROWS, canvas, headed=False)
        yield from next_steps([invocation.step("price", f"--model {model}", "prices a step")], canvas)


def answer(request: FitsRequest) -> ModelRoom:
    """Look for room."""
    return ModelRoom(*room_for(request))
