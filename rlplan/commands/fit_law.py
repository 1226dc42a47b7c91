"""`rlplan fit --law`: a law's parameters, what it predicts, and why a table cannot tell."""

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from rich.text import Text

from planner.curves.laws import Law
from rlplan.actions.law_fitting import FittedLaws
from rlplan.commands.fit import compute
from rlplan.wording.draw import Canvas, Column, Invocation, Part, listed, next_steps, table_of

FORMS = {
    Law.SIGMOID: "R(C) = R0 + (A − R0) / (1 + (C_mid/C)^B)",
    Law.POWER: "R(C) = A − D / C^B",
    Law.GROUP_SIZE: "log2 n*(C) = L / (1 + exp(−k·(log10 C − c0))) + b",
}


def parts(fits: FittedLaws, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    """Draw the law's parameters and forecasts, and what a table cannot tell."""
    yield Text(f"The law '{fits.law}': {FORMS[fits.of]}", "bold")
    yield Text(f"Intervals hold {fits.level * 100:g} %, if the law holds.", "dim")
    columns: Sequence[Column[tuple[str, Any]]] = (
        Column("", itemgetter(0)),
        Column(fits.law, lambda row: f"{row[1].median:.4g}"),
        Column(f"{fits.level * 100:g} % interval", lambda row: f"{row[1].low:.4g} – {row[1].high:.4g}"),
    )
    for fit in fits.fits:
        yield ""
        yield Text(f"{fit.name}: {'' if fit.identified else 'this table cannot tell'}".rstrip(": "), "bold")
        rows: list[tuple[str, Any]] = list(fit.parameters.items())
        rows += [(f"{each.series or 'score'} at {compute(each.x)}", each) for each in fit.predictions]
        if rows:
            yield table_of(rows, columns, canvas)
        yield from listed("Why not", fit.evidence)
        yield from listed("Mind", fit.notes)
    steps = [] if fits.drawn else [invocation.with_flags("draws it", "--plot", "fit.html")]
    yield from next_steps([*steps, invocation.with_flags("every number", "--format", "csv")], canvas)
