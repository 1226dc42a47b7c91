"""`rlplan doctor`: what was found of this machine; and what a rehearsal found."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rlplan.doctor.machine import Finding, Health, check_gpus, list_gpus, verdict
from rlplan.doctor.storage import check_packages, check_storage, cuda_of_torch, lacking, versions
from rlplan.exits import ExitCode
from rlplan.requests.checking import DoctorRequest
from rlplan.wording.answers import Answer
from rlplan.wording.documents import Key
from rlplan.wording.draw import Canvas, Invocation, NextStep, Part, next_steps
from rlplan.wording.row_columns import columns
from rlplan.wording.terminal import live_console

if TYPE_CHECKING:
    from rich.text import Text

_STYLES = {Health.OK: "green", Health.MIND: "yellow", Health.BAD: "bold red"}
_VERDICTS = {
    Health.OK: "This machine can run sweeps.",
    Health.MIND: "This machine can run sweeps; mind what is marked.",
    Health.BAD: "No sweep runs here: mend what is marked bad first.",
}
_REHEARSED = {
    Health.OK: "It can be run as it is planned.",
    Health.MIND: "It can be run; mind what is marked.",
    Health.BAD: "It would fail: mend what is marked bad first.",
}


@dataclass(frozen=True, repr=False)
class Findings(Answer):
    """What was found of this machine, or by a rehearsal."""

    DRAWN = "rlplan.commands.doctor"
    COLUMNS = columns("health what found why do")
    ROWS = "found"

    found: tuple[Finding, ...] = field(repr=False)
    rehearsed: bool = field(default=False, repr=False)

    verdict = Key[Health](lambda each: verdict(each.found))
    findings = Key[Sequence[Finding]]("found")

    @property
    def code(self) -> ExitCode:
        """That of what is not there, or of bad input, where something is bad."""
        if self.verdict is not Health.BAD:
            return ExitCode.DONE
        return ExitCode.BAD_INPUT if self.rehearsed else ExitCode.NOT_FOUND


def answer(request: DoctorRequest) -> Findings:
    """Examine this machine."""
    return Findings(tuple(examine(request.db)))


def examine(database: str) -> Iterator[Finding]:
    """Say what this machine can run, without importing what takes time."""
    cuda = cuda_of_torch()
    yield from check_packages(tuple(lacking()), versions(), cuda)
    yield check_gpus(*list_gpus(), cuda)
    yield from check_storage(database)


def rehearsal(findings: Iterable[Finding]) -> Findings:
    """Return what a rehearsal finds; a terminal shows what was found last until the answer is there."""
    if (console := live_console()) is None:
        return Findings(tuple(findings), rehearsed=True)
    found: list[Finding] = []
    with console.status("rehearsing") as status:
        for each in findings:
            status.update(f"{each.what}: {each.found}")
            found.append(each)
    return Findings(tuple(found), rehearsed=True)


def parts(answered: Findings, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    """Draw the verdict and what it rests on; on the first screen of an examination what is well is named alone."""
    found, verdicts = answered.found, _REHEARSED if answered.rehearsed else _VERDICTS
    yield from canvas.lines(verdicts[verdict(found)], "bold")
    yield ""
    in_full = invocation.explain or answered.rehearsed
    well = [] if in_full else [each for each in found if each.health is Health.OK]
    if shown := [each for each in found if each not in well]:
        yield from lines(shown, canvas)
    if well:
        # What is absent, and not needed for a first sweep, is called so.
        absent = [(each.what, re.match(r"(none|not installed)[:;]", each.found)) for each in well]
        yield from canvas.lines(f"ok: {', '.join(f'{what} ({so[1]})' if so else what for what, so in absent)}.")
    if answered.rehearsed:
        bad = verdict(found) is Health.BAD
        again = invocation.with_flags("tries it again") if bad else invocation.without("runs it", "--rehearse")
        yield from next_steps([again], canvas)
        return
    steps = [NextStep("rlplan propose --task sum-easy --budget 0.3", "plans a first sweep")]
    steps = [] if verdict(found) is Health.BAD else steps
    steps += [] if invocation.explain else [invocation.explained("every finding")]
    if steps:
        yield from next_steps(steps, canvas)


def lines(found: Sequence[Finding], canvas: Canvas) -> "Iterator[Text]":
    """Write each finding under its name; a command is never broken, so that it can be copied."""
    from rich.text import Text  # noqa: PLC0415

    indent = 6 + max(len(each.what) for each in found) + 2
    for each in found:
        first = f"{each.health:<6}{each.what:<{indent - 6}}"
        yield from _hanging(first, each.found, indent, canvas, _STYLES[each.health])
        if each.why:
            yield from _hanging(" " * indent, each.why, indent, canvas)
        if each.do:
            yield Text(canvas.spelled(f"{' ' * 6}> {each.do}"), style="bold", overflow="fold")


def _hanging(first: str, text: str, indent: int, canvas: Canvas, style: str = "") -> "Iterator[Text]":
    """Write a text behind its beginning, and its further lines below itself."""
    from rich.text import Text  # noqa: PLC0415

    column = Canvas(max(20, canvas.width - indent), unicode=canvas.unicode)
    for number, line in enumerate(column.lines(text)):
        yield Text.assemble((" " * indent if number else first, style), line, no_wrap=True)
