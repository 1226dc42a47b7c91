"""What `rlplan fit` is asked, checked: the window, the cut, where to predict, which law."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budgets.errors import InputError, UnknownNameError
from planner.curves.curve import Curve
from planner.curves.laws import Law
from rlplan.requests.foreign import FitRequest
from rlplan.wording.typed_numbers import number_in

DEFAULT_MULTIPLES = (2.0, 4.0)  # of the last x used
PLOT_SUFFIX = ".html"


@dataclass(frozen=True)
class Target:
    """Where to predict: at an x, at a multiple of the last x used, or (neither) at the end of the file."""

    label: str
    x: float | None = None
    multiple: float | None = None

    def of(self, whole: Curve, used: Curve) -> float:
        """Return the x for one curve."""
        if self.x is not None:
            return self.x
        return self.multiple * float(used.x[-1]) if self.multiple is not None else whole.end[0]


def require_sound(asked: FitRequest) -> None:
    """Refuse what cannot be asked for, before anything is read."""
    fraction, until, plot = asked.fit_fraction, asked.fit_until, asked.plot
    if asked.law is not None and asked.law not in list(Law):
        raise UnknownNameError("law", asked.law, list(Law))
    if asked.law is not None and asked.answers is not None:
        raise InputError(f"--answers is not for --law {asked.law}, which weighs all points alike: leave it out")
    if fraction is not None and until is not None:
        raise InputError(
            "{fit_fraction} and {fit_until} both say where to stop: give one",
            fit_fraction=f"{fraction:g}",
            fit_until=f"{until:g}",
        )
    if plot is not None and Path(plot).suffix.casefold() != PLOT_SUFFIX:
        raise InputError("{plot}: a plot is a page, so give it a name that ends with .html", plot=plot)
    if plot is not None and not Path(plot).parent.is_dir():
        raise InputError(f"{{plot}}: there is no folder '{Path(plot).parent}'; make it first", plot=plot)
    targets_of(asked)


def targets_of(asked: FitRequest) -> tuple[Target, ...]:
    """Return where to predict."""
    given: Any = asked.predict_at
    several = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    texts = [str(each) for each in several if each is not None]
    if not texts:
        return tuple(Target(f"{multiple:g}×", multiple=multiple) for multiple in DEFAULT_MULTIPLES)
    targets = tuple(Target("end") if text == "end" else Target(text, x=number_in(text)) for text in texts)
    for target in targets:
        if target.x is not None and not (math.isfinite(target.x) and target.x > 0):
            raise InputError("{predict_at}: give an x above 0, or 'end'", predict_at=f"'{target.label}'")
    return targets
