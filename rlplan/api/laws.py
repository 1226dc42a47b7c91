"""Laws and compared recipes as Python sees them: what `rlplan.fit(…, law=…)` and `rlplan.compare` return."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from planner.curves.comparison import ComparedRecipe, Comparison
from planner.curves.fitting import Interval
from planner.curves.settling import Difference
from rlplan.actions.fit_data import comparison_data, comparison_rows, law_data, law_rows, laws_data
from rlplan.actions.law_fitting import FittedLaw, LawFits, LawPrediction
from rlplan.api.wording import Said, first_few
from rlplan.wording.answers import Read, page_part
from rlplan.wording.frames import COMPARED, LAWS, Frame, Library, make_frame
from rlplan.wording.numbers import interval


@dataclass(frozen=True)
class LawFit:
    """What a curve or a table says of a law; `identified` is False where it cannot tell, and `evidence` says why."""

    fitted: FittedLaw = field(repr=False)
    level: float = field(repr=False)

    name = Read[str]("fitted.fit.name", "The name of the curve or the table.")
    identified = Read[bool]("fitted.fit.identified", "Whether the points tell what the law is.")
    evidence = Read[tuple[str, ...]]("fitted.fit.doubts", "Why the points cannot tell; nothing where they do.")

    @property
    def parameters(self) -> Mapping[str, Interval]:
        """The parameters by the literature's names, each with an interval."""
        return self.fitted.fit.parameters(self.level)

    predictions = Read[tuple[LawPrediction, ...]]("fitted.predictions", "What the law gives at each x asked for.")
    notes = Said("fitted.fit.notes", "What was done to the points, and what to mind.")

    def to_dict(self) -> dict[str, Any]:
        """Return what `rlplan fit --law … --format json` prints of one fit."""
        return law_data(self.fitted, self.level)

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={interval(p.median, p.low, p.high)}" for name, p in self.parameters.items())
        return f"<LawFit of {self.name}: {'' if self.identified else 'cannot tell; '}{said}>"


@dataclass(frozen=True)
class FittedLaws(Sequence[LawFit]):
    """The fits of a law: one for each curve, or one for all where the law goes across runs."""

    found: LawFits = field(repr=False)

    law = Read[str]("found.law.value", "The law's name.")
    failures = Said("found.failures", "A line for each file or curve that could not be read.")

    def __len__(self) -> int:
        return len(self.found.fits)

    def __iter__(self) -> Iterator[LawFit]:
        return (LawFit(each, self.found.level) for each in self.found.fits)

    @overload
    def __getitem__(self, which: int) -> LawFit: ...
    @overload
    def __getitem__(self, which: slice) -> list[LawFit]: ...
    def __getitem__(self, which: int | slice) -> LawFit | list[LawFit]:
        return list(self)[which]

    def frame(self, frame: Library | None = None) -> Frame:
        """Return a row for each parameter and each prediction of each fit."""
        return make_frame(LAWS, law_rows(self.found), frame)

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `rlplan fit --law … --format json` prints."""
        return laws_data(self.found)

    def __repr__(self) -> str:
        return f"<FittedLaws of {self.law}: {first_few([*map(repr, self)])}>"

    def _repr_html_(self) -> str:
        rows = [
            (each.name, name, interval(value.median, value.low, value.high), "; ".join(each.evidence))
            for each in self
            for name, value in each.parameters.items()
        ]
        said = "; ".join([f"the law '{self.law}'", *self.failures])
        return page_part(said, ("of", "parameter", "value", "cannot tell"), rows)


@dataclass(frozen=True)
class RecipeComparison(Sequence[ComparedRecipe]):
    """Recipes from the best to the worst."""

    found: Comparison = field(repr=False)
    failures: tuple[str, ...]

    difference = Read[Difference]("found.difference", "How far the first two differ, and what would settle it.")
    notes = Read[tuple[str, ...]]("found.notes", "What to mind.")

    def __len__(self) -> int:
        return len(self.found.recipes)

    @overload
    def __getitem__(self, which: int) -> ComparedRecipe: ...
    @overload
    def __getitem__(self, which: slice) -> Sequence[ComparedRecipe]: ...
    def __getitem__(self, which: int | slice) -> ComparedRecipe | Sequence[ComparedRecipe]:
        return self.found.recipes[which]

    def frame(self, frame: Library | None = None) -> Frame:
        """Return a row for each recipe."""
        return make_frame(COMPARED, comparison_rows(self.found), frame)

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `rlplan compare --format json` prints."""
        return comparison_data(self.found)

    def __repr__(self) -> str:
        return f"<RecipeComparison: {first_few([f'{r.name} (P(best) {r.probability_best:.2f})' for r in self])}>"

    def _repr_html_(self) -> str:
        rows = [
            (str(r.rank), r.name, interval(r.A.median, r.A.low, r.A.high), f"{r.probability_best:.2f}") for r in self
        ]
        return page_part(f"{len(self)} recipes", ("rank", "recipe", "A", "P(best)"), rows)
