"""A chart: a plotly figure as plain data, whose colours are names that the theme looks up; its axes and groups."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.axes import named_configuration
from planner.recommend.answer import FinalAnswer
from planner.recommend.choice import Choice
from planner.store.results import RankedRow
from planner.store.schema import Candidate
from planner.view import Configuration, ScorePoint
from rlplan.reading.story import Beliefs, Story
from rlplan.reading.sweep_picture import TrialRow

INK, MUTED, PAPER, QUIET = "$ink", "$muted", "$surface", "$quiet"
ACCENT, GOOD, MIND, BAD = "$accent", "$good", "$mind", "$bad"
SERIES = tuple(f"$series-{number}" for number in range(1, 7))


def faded(colour: str, opacity: float) -> str:
    """Return a colour of the theme that lets through what lies below it."""
    return f"{colour}/{opacity:g}"


DIGITS = 5  # significant ones; a picture shows no more, and a file of tens of thousands of numbers stays small

Trace = dict[str, Any]
Figure = dict[str, Any]
Axis = dict[str, Any]
Values = Sequence[Any] | NDArray[Any]


@dataclass(frozen=True, slots=True)
class Chart:
    """One picture; `name` is the same whenever it is drawn anew, `text` says what it shows to who cannot see it."""

    name: str
    title: str
    text: str
    figure: Figure
    height: int  # pixels

    @property
    def json(self) -> str:
        """Return the figure as JSON that can stand within an HTML element: no text in it ends one, or begins one."""
        return safe_json(plain({"height": self.height, **self.figure}))


def safe_json(value: Any) -> str:
    """Write JSON without a sign that HTML reads."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def plain(value: Any) -> Any:
    """Return nested data as JSON can hold it: no numpy, few digits, None for what is not finite."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, Sequence):
        return [plain(item) for item in value]
    if isinstance(value, float):
        number = float(f"{value:.{DIGITS}g}")
        whole = number.is_integer() and abs(number) < 1e15
        return None if not math.isfinite(value) else int(number) if whole else number
    return value


def text(words: object) -> str:
    """Write a name or a reason as the text that it is: plotly takes some tags for markup."""
    return str(words).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def layout(legend: int = 0, **further: Any) -> dict[str, Any]:
    """Return a layout in which what the reader has zoomed to survives a redraw; `legend` is the room for one, below."""
    below = {"showlegend": True, "margin": {"l": 56, "r": 16, "t": 12, "b": legend}} if legend else {}
    return {"uirevision": "kept", **below, **further}


def axis(title: str, **further: Any) -> Axis:
    """Return an axis with a title."""
    return {"title": {"text": title}, **further}


def log_ticks(low: float, high: float) -> Axis:
    """Return a log axis with ticks at powers of ten, and at 2 and 5 times them where these are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    tens = [10.0**power for power in powers if low <= 10.0**power <= high]
    finer = [factor * 10.0**power for power in powers for factor in (1, 2, 5) if low <= factor * 10.0**power <= high]
    return {"type": "log", "tickvals": tens if len(tens) >= 3 else finer}


def scatter(x: Values, y: Values, mode: str = "lines", hover: str | None = None, **style: Any) -> Trace:
    """Return points or a line; without words for it the pointer passes over them."""
    words = {"hoverinfo": "skip"} if hover is None else {"hovertemplate": f"{hover}<extra></extra>"}
    return {"type": "scatter", "x": x, "y": y, "mode": mode, **words, **style}


def band(
    x: Sequence[float], low: Sequence[float], high: Sequence[float], colour: str, hover: str | None = None, **style: Any
) -> Trace:
    """Return an interval along x as an area: there along its upper end, back along its lower one."""
    style |= {"fill": "toself", "fillcolor": faded(colour, 0.18), "hoveron": "points", "line": {"width": 0}}
    return scatter([*x, *reversed(x)], [*high, *reversed(low)], "lines", hover, **style)


def upright(x: float, panel: str = "", dash: str = "dash", colour: str = MUTED) -> dict[str, Any]:
    """Return a line over the whole height of a panel; it stays in place when its axis becomes a log axis."""
    ends = {"xref": f"x{panel}", "yref": f"y{panel} domain", "x0": x, "x1": x, "y0": 0, "y1": 1}
    return {"type": "line", "layer": "below", "line": {"color": colour, "width": 1.5, "dash": dash}, **ends}


FEWEST = 4  # the first and the last, the lowest and the highest


def thinned(y: ArrayLike, most: int) -> NDArray[np.intp]:
    """Return at most so many indices, in rising order: the first, the last, and of each stretch the lowest and highest.

    So a collapse or a spike of a single point stays. All numbers are finite, and `most` is not below `FEWEST`.
    """
    values = np.asarray(y, dtype=float)
    if len(values) <= most:
        return np.arange(len(values))
    stretches = np.array_split(np.arange(len(values)), (most - 2) // 2)
    ends = [index for part in stretches for index in (part[values[part].argmin()], part[values[part].argmax()])]
    return np.unique([0, len(values) - 1, *ends])


def thinned_curve(scores: Sequence[ScorePoint], most: int) -> list[ScorePoint]:
    """Return at most so many of a curve's scores, as they are: the first, the last and what gives it its shape."""
    return [scores[index] for index in thinned([score.score for score in scores], most)]


# What is expected of a configuration at the target; of a candidate before anything has run, without P(best).
Expected = Choice | RankedRow | Candidate


@dataclass(frozen=True, slots=True)
class Group:
    """A configuration with its trials; `rank` counts from 1, None where nothing ranks it."""

    configuration: Configuration
    rank: int | None
    outlook: Expected | None
    trials: tuple[TrialRow, ...]

    @property
    def label(self) -> str:
        """How the configuration is called."""
        return named_configuration(self.configuration)


def configuration_of(row: TrialRow | RankedRow | Choice | Candidate) -> Configuration:
    """Return what a row is of: (n, B) with the further axes."""
    return Configuration(row.rollouts_per_prompt, row.prompts_per_batch, row.axes)


def answer_in(beliefs: Beliefs | None) -> FinalAnswer | None:
    """Return what is recommended from what is believed, None where nothing is."""
    return beliefs.recommended.answer if beliefs is not None and beliefs.recommended is not None else None


def expected_of(story: Story, beliefs: Beliefs | None) -> dict[Configuration, Expected]:
    """Return what is expected of each configuration, the recommended one first and then by rank.

    Until the beliefs are there, the ranking that the sweep stored last speaks for them.
    """
    ranked: tuple[Choice | RankedRow, ...] = ()
    if (answer := answer_in(beliefs)) is not None:
        ranked = answer.ranked
    elif beliefs is None and story.picture.answer is not None:
        ranked = story.picture.answer.ranking
    return {configuration_of(row): row for row in ranked if row.expected_score is not None}


def groups(story: Story, beliefs: Beliefs | None) -> list[Group]:
    """Return the configurations that have a trial or an outlook, by rank; those without one by their promise."""
    outlooks = expected_of(story, beliefs)
    ranks = {configuration: rank for rank, configuration in enumerate(outlooks, start=1)}
    trials: dict[Configuration, list[TrialRow]] = {configuration: [] for configuration in outlooks}
    for trial in sorted(story.picture.trials, key=lambda trial: trial.promise):
        trials.setdefault(configuration_of(trial), []).append(trial)
    return [
        Group(key, ranks.get(key), outlooks.get(key), tuple(sorted(rows, key=lambda trial: (trial.seed, trial.id))))
        for key, rows in trials.items()
    ]
