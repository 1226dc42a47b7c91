"""Prints what `rlplan doctor` found, and what a rehearsal did."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from planner.store import open_store
from rlplan.actions.configuring import absent
from rlplan.doctor.examination import examine
from rlplan.doctor.finding import Finding, Health, verdict
from rlplan.exits import ExitCode
from rlplan.wording.console import Part, print_csv, print_drawn, print_json
from rlplan.wording.formats import Format
from rlplan.wording.next_steps import Invocation, NextStep, next_steps
from rlplan.wording.terminal import Canvas, tell

if TYPE_CHECKING:
    from rich.text import Text

COLUMNS = ("health", "what", "found", "why", "do")
_STYLES = {Health.OK: "green", Health.MIND: "yellow", Health.BAD: "bold red"}
_SAID = {
    Health.OK: "This machine can run sweeps.",
    Health.MIND: "This machine can run sweeps; mind what is marked.",
    Health.BAD: "No sweep runs here: mend what is marked bad first.",
}
_REHEARSED = {
    Health.OK: "It can be run as it is planned.",
    Health.MIND: "It can be run; mind what is marked.",
    Health.BAD: "It would fail: mend what is marked bad first.",
}


def upgrade_database(database: str) -> None:
    """Bring a database that is there to the current version, and say what was done."""
    if absent(database) is not None:
        return  # opened for writing, it would be made
    with open_store(database) as store:
        for notice in store.notices or ("the database is up to date already",):
            tell(notice)


def print_examination(format: Format, invocation: Invocation, *, deep: bool) -> int:
    """Examine this machine, print what was found, and return the exit code."""
    found = list(examine(invocation.database, deep=deep))
    bad = verdict(found) is Health.BAD
    steps = [NextStep("rlplan propose --task sum-easy --budget 0.3", "plans a first sweep")] if not bad else []
    steps += [] if invocation.explain else [invocation.explained("every finding")]
    _printed(found, format, _SAID, steps, in_full=invocation.explain)
    return ExitCode.NOT_FOUND if bad else ExitCode.DONE


def print_rehearsal(findings: Iterable[Finding], format: Format) -> int:
    """Print what a rehearsal finds, saying each thing once it is known, and return the exit code."""
    found = []
    for each in findings:
        tell(f"{each.health}: {each.what}: {each.found}")
        found.append(each)
    _printed(found, format, _REHEARSED, [], in_full=True)
    return ExitCode.BAD_INPUT if verdict(found) is Health.BAD else ExitCode.DONE


def _printed(
    found: Sequence[Finding],
    format: Format,
    verdicts: Mapping[Health, str],
    steps: Sequence[NextStep],
    *,
    in_full: bool,
) -> None:
    rows = [{**asdict(each), "health": each.health.value} for each in found]
    if format is Format.JSON:
        print_json({"verdict": verdict(found).value, "findings": rows})
    elif format is Format.CSV:
        print_csv(COLUMNS, rows)
    else:
        print_drawn(lambda canvas: _drawn(found, canvas, verdicts, steps, in_full=in_full))


def _drawn(
    found: Sequence[Finding],
    canvas: Canvas,
    verdicts: Mapping[Health, str],
    steps: Sequence[NextStep],
    *,
    in_full: bool,
) -> Iterator[Part]:
    """Return the verdict and what it rests on; on the first screen what is well is named alone."""
    yield from canvas.lines(verdicts[verdict(found)], "bold")
    yield ""
    well = [] if in_full else [each for each in found if each.health is Health.OK]
    if shown := [each for each in found if each not in well]:
        yield from lines(shown, canvas)
    if well:
        yield from canvas.lines(f"ok: {', '.join(map(_named, well))}.")
    if steps:
        yield from next_steps(steps, canvas)


def _named(well: Finding) -> str:
    """Name what is well; what is absent, and not needed for a first sweep, is called so."""
    absent = re.match(r"(none|not installed)[:;]", well.found)
    return f"{well.what} ({absent[1]})" if absent else well.what


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
