"""What is asked of `rlplan fit`: columns, the window, the cut, where to predict, which law."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, Self

from budgets.errors import InputError, UnknownNameError
from planner.curves.curve import Curve
from planner.curves.families import Law
from planner.metrics import INTERVAL_LEVEL
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


@dataclass(frozen=True)
class FitRequest:
    """What is asked of `rlplan fit`; None stands for what is guessed or left alone."""

    x: str | None = None
    y: str | None = None
    by: str | None = None
    percent: bool = False
    answers: int | None = None
    fit_fraction: float | None = None
    fit_until: float | None = None
    cut: str | None = None
    predict_at: tuple[str, ...] = ()
    level: float = INTERVAL_LEVEL
    plot: Path | None = None
    law: str | None = None

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> Self:
        """Return the request among named values, as the command and the API have them."""
        given = {each.name: asked[each.name] for each in fields(cls) if each.name in asked}
        cut, predict_at = given["cut"], given["predict_at"] or ()
        return cls(**given | {"cut": None if cut is None else str(cut), "predict_at": tuple(map(str, predict_at))})

    def __post_init__(self) -> None:
        self._check_law()
        if self.fit_fraction is not None and self.fit_until is not None:
            raise InputError(
                f"--fit-fraction {self.fit_fraction:g} and --fit-until {self.fit_until:g} both say where to stop: "
                "give one"
            )
        if self.fit_fraction is not None and not 0 < self.fit_fraction <= 1:
            raise InputError(
                f"--fit-fraction {self.fit_fraction:g}: it must lie above 0 and be at most 1, such as 0.25 for the "
                "first quarter of the x range"
            )
        if self.fit_until is not None and not (self.fit_until > 0 and math.isfinite(self.fit_until)):
            raise InputError(f"--fit-until {self.fit_until:g}: it must be an x above 0")
        if self.answers is not None and self.answers < 1:
            raise InputError(f"--answers {self.answers}: it must be at least 1, the answers behind each score")
        if not 0 < self.level < 1:
            raise InputError(f"--level {self.level:g}: it must lie between 0 and 1, such as 0.9")
        if self.plot is not None and self.plot.suffix.casefold() != PLOT_SUFFIX:
            raise InputError(f"--plot {self.plot}: a plot is a page, so give it a name that ends with .html")
        if self.plot is not None and not self.plot.parent.is_dir():
            raise InputError(f"--plot {self.plot}: there is no folder '{self.plot.parent}'; make it first")

    def _check_law(self) -> None:
        """Refuse a law that is not known, and what cannot be asked of one."""
        if self.law is None:
            return
        if self.law not in list(Law):
            raise UnknownNameError("law", self.law, list(Law))
        refused = [("--answers", self.answers is not None, "weighs all points alike")]
        if self.law == Law.VALUE_BASED:
            flags = {
                "--x": self.x,
                "--y": self.y,
                "--by": self.by,
                "--percent": self.percent or None,
                "--fit-fraction": self.fit_fraction,
                "--fit-until": self.fit_until,
                "--cut": self.cut,
                "--predict-at": self.predict_at or None,
            }
            refused += [(flag, given is not None, "reads rows and no curves") for flag, given in flags.items()]
        for flag, given, why in refused:
            if given:
                raise InputError(f"{flag} is not for --law {self.law}, which {why}: leave it out")

    def cut_point(self) -> float | Literal["auto", "published"]:
        """Return where to cut: an x, 0 for nowhere, or the rule that says where."""
        match self.cut:
            case "auto":
                return "auto"
            case "published":
                return "published"
            case None | "0":
                return 0.0
            case text:
                return _positive(text, "--cut", "'auto' or 'published'")

    def targets(self) -> tuple[Target, ...]:
        """Return where to predict."""
        if not self.predict_at:
            return tuple(Target(f"{multiple:g}×", multiple=multiple) for multiple in DEFAULT_MULTIPLES)
        return tuple(
            Target("end") if text == "end" else Target(text, x=_positive(text, "--predict-at", "'end'"))
            for text in self.predict_at
        )


def _positive(text: str, flag: str, otherwise: str) -> float:
    number = number_in(text)
    if not (math.isfinite(number) and number > 0):
        raise InputError(f"{flag} '{text}': give an x above 0, or {otherwise}")
    return number
