"""Small multiples: one panel for each configuration, with its scores, its bands, and what became of its trials."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from planner.axes import suffix
from planner.pooling.bands import Band
from planner.store.schema import SegmentOutcome
from planner.trials import TrialState
from planner.view import ScorePoint
from rlplan.charts.chart import (
    BAD,
    MIND,
    MUTED,
    SERIES,
    Axis,
    Chart,
    Trace,
    axis,
    band,
    decade_ticks,
    faded,
    layout,
    logarithmic,
    text,
    upright,
)
from rlplan.charts.groups import Group, groups
from rlplan.charts.thinning import thinned_curve
from rlplan.reading.story import Beliefs, Story
from rlplan.reading.sweep_picture import SegmentRow, TrialRow
from rlplan.wording.numbers import hours

POINTS = (200, 24, 20_000)  # of one trial at most and at least, enough for its shape; of all panels together
HEIGHT = 215
MARGIN = {"l": 44, "r": 10, "t": 8, "b": 34}
AROUND = 0.03  # of the range of the scores, left free above and below
BEFORE = 0.7  # times the first GPU-hours: where a score of before training stands on a log axis
ENDED_BADLY = {TrialState.PRUNED: MIND, TrialState.FAILED: BAD, TrialState.LOST: BAD}
# Errors are read off the bars: what is written once stays small with tens of thousands of points.
ERROR = " ± %{error_y.array:.4f}"
HOVER = "step %{customdata:,}<br>%{x:.5~g} GPU-hours<br>score %{y:.4f}"
EDGE_HOVER = "%{{x:.4~g}} GPU-hours<br>{edge} end of the 90 %: %{{y:.3f}}<extra></extra>"
BEFORE_HOVER = "before training<br>score %{y:.4f}"


@dataclass(frozen=True, slots=True)
class Panels:
    """The panels, and what they share so that they can be compared at a glance."""

    charts: tuple[tuple[Group, Chart], ...]
    logarithmic: bool


def curve_panels(story: Story, beliefs: Beliefs | None, most: int | None = None) -> Panels:
    """Return a panel for each configuration that has a trial, by rank, or for the first of them alone."""
    shown = [group for group in groups(story, beliefs) if group.trials][:most]
    frame = _Frame.of(story, beliefs, shown)
    segments: dict[int, list[SegmentRow]] = {}
    for segment in story.segments:
        segments.setdefault(segment.trial_id, []).append(segment)
    return Panels(
        tuple((group, _panel(group, beliefs, frame, segments)) for group in shown),
        frame.logarithmic,
    )


@dataclass(frozen=True, slots=True)
class _Frame:
    """The axes of all panels."""

    first: float  # GPU-hours of the earliest score after an update
    last: float
    low: float
    high: float
    target: float
    logarithmic: bool
    most_points: int  # that are drawn of a trial

    @classmethod
    def of(cls, story: Story, beliefs: Beliefs | None, shown: Sequence[Group]) -> "_Frame":
        scores = [score for group in shown for trial in group.trials for score in trial.scores]
        bands = beliefs.bands.values() if beliefs is not None else ()
        values = [score.score for score in scores] + [each for one in bands for each in (*one.low, *one.high)]
        trained = [score.gpu_hours for score in scores if score.gpu_hours > 0]
        ends = [trial.scores[-1].gpu_hours for group in shown for trial in group.trials if trial.scores]
        target = story.target_gpu_hours
        low, high = (min(values), max(values)) if values else (0.0, 1.0)
        room = AROUND * ((high - low) or 1.0)
        many, few, total = POINTS
        return cls(
            first=min(trained, default=target / 100),
            last=max([*ends, target]),
            low=low - room,
            high=high + room,
            target=target,
            logarithmic=logarithmic([target, *(end for end in ends if end > 0)]),
            most_points=max(few, min(many, total // max(1, len(ends)))),
        )

    @property
    def leftmost(self) -> float:
        return BEFORE * self.first

    def axes(self) -> dict[str, Axis]:
        low, high = 0.9 * self.leftmost, 1.15 * self.last
        return {
            "log": {"range": [math.log10(low), math.log10(high)], **decade_ticks(low, high)},
            "linear": {"type": "linear", "range": [0, 1.04 * self.last], "nticks": 5},
        }


def _panel(group: Group, beliefs: Beliefs | None, frame: _Frame, segments: dict[int, list[SegmentRow]]) -> Chart:
    traces: list[Trace] = []
    cuts: list[dict[str, object]] = []
    for place, trial in enumerate(group.trials):
        colour = SERIES[place % len(SERIES)]
        if beliefs is not None and trial.id in beliefs.bands:
            traces += _band(beliefs.bands[trial.id], colour, frame)
        traces += _scores(trial, colour, frame)
        traces += _marks(trial, segments.get(trial.id, []), frame)
        if beliefs is not None and trial.id in beliefs.cuts:
            cuts.append(upright(max(beliefs.cuts[trial.id], frame.leftmost), dash="dot", colour=BAD))
    figure = {
        "data": traces,
        "layout": layout(
            margin=MARGIN,
            xaxis=axis(**frame.axes()["log" if frame.logarithmic else "linear"]),
            yaxis=axis(range=[frame.low, frame.high], nticks=5),
            shapes=[upright(frame.target, colour=MUTED), *cuts],
        ),
        "axes": frame.axes(),  # both, for the button that changes from one to the other
    }
    n, B, axes = group.configuration  # by which a page that is drawn anew finds the panel
    return Chart(f"curve-n{n}-B{B}{suffix(axes)}", group.label, _described(group), figure, HEIGHT)


def _band(believed: Band, colour: str, frame: _Frame) -> Iterator[Trace]:
    rows = zip(believed.gpu_hours, believed.median, believed.low, believed.high, strict=True)
    visible = [row for row in rows if row[0] > 0 or not frame.logarithmic]
    if not visible:
        return
    x, median, low, high = zip(*visible, strict=True)
    for edge, trace in zip(("lower", "upper"), band(x, low, high, colour), strict=True):
        yield {**trace, "hoverinfo": "all", "hovertemplate": EDGE_HOVER.format(edge=edge)}
    yield {
        "type": "scatter", "x": x, "y": median, "mode": "lines", "line": {"color": colour, "width": 1.5},
        "hovertemplate": "%{x:.4~g} GPU-hours<br>fitted mean %{y:.3f}<extra></extra>",
    }  # fmt: skip


def _scores(trial: TrialRow, colour: str, frame: _Frame) -> Iterator[Trace]:
    points = thinned_curve(trial.scores, frame.most_points)
    trained = [score for score in points if score.gpu_hours > 0]
    if trained:
        yield {
            "type": "scatter", "mode": "markers", "x": [score.gpu_hours for score in trained],
            "marker": {"color": colour, "size": 4}, "customdata": [score.step for score in trained],
            **_with_errors(trial, trained, HOVER, colour),
        }  # fmt: skip
    before = [score for score in points if score.gpu_hours <= 0]
    if before:  # it has no place on a log axis, and stands at its left end
        yield {
            "type": "scatter", "mode": "markers", "x": [frame.leftmost] * len(before),
            "marker": {"color": colour, "size": 7, "symbol": "triangle-left"},
            **_with_errors(trial, before, BEFORE_HOVER, colour),
        }  # fmt: skip


def _with_errors(trial: TrialRow, scores: Sequence[ScorePoint], hover: str, colour: str) -> Trace:
    errors = [score.standard_error for score in scores]
    known = all(error is not None for error in errors)
    digits = [None if error is None else float(f"{error:.3g}") for error in errors]
    bars = {"type": "data", "array": digits, "thickness": 1, "width": 0, "color": faded(colour, 0.45)}
    template = f"<b>{text(trial.name)}</b><br>{hover}{ERROR if known else ''}<extra></extra>"
    shown = {"y": [round(score.score, 5) for score in scores], "hovertemplate": template}
    return {**shown, "error_y": bars} if any(error is not None for error in errors) else shown


def _marks(trial: TrialRow, segments: Sequence[SegmentRow], frame: _Frame) -> Iterator[Trace]:
    """Mark where a trial paused, at the bottom, and on its last score how it ended when it ended badly."""
    ends = [each for each in segments if each.ended_at is not None and each.outcome is SegmentOutcome.COMMITTED]
    pauses = [(at, each) for each in ends if (at := _gpu_hours_at(trial.scores, each.to_step)) is not None]
    if pauses:
        yield {
            "type": "scatter", "mode": "markers", "x": [at for at, _ in pauses],
            "y": [frame.low] * len(pauses), "cliponaxis": False,
            "marker": {"symbol": "line-ns-open", "size": 9, "color": MUTED, "line": {"width": 1.5, "color": MUTED}},
            "customdata": [[text(trial.name), each.number, each.to_step] for _, each in pauses],
            "hovertemplate": "<b>%{customdata[0]}</b><br>end of segment %{customdata[1]}, step %{customdata[2]:,}"
            "<extra></extra>",
        }  # fmt: skip
    last = trial.last
    if last is None or trial.state not in ENDED_BADLY:
        return
    colour = ENDED_BADLY[trial.state]
    why = f": {trial.failure_class}" if trial.failure_class else ""
    yield {
        "type": "scatter", "mode": "markers", "x": [max(last.gpu_hours, frame.leftmost)], "y": [last.score],
        "marker": {"symbol": "x-thin-open", "size": 13, "color": colour, "line": {"width": 2.5, "color": colour}},
        "hovertemplate": f"<b>{text(trial.name)}</b><br>{text(trial.state.value + why)} at step {trial.step:,}"
        "<extra></extra>",
    }  # fmt: skip


def _gpu_hours_at(scores: Sequence[ScorePoint], step: int) -> float | None:
    """Return the GPU-hours of the newest score up to a step."""
    before = [score.gpu_hours for score in scores if score.step <= step]
    return before[-1] if before and before[-1] > 0 else None


def _described(group: Group) -> str:
    best = max((score.score for trial in group.trials for score in trial.scores), default=None)
    reached = max((trial.scores[-1].gpu_hours for trial in group.trials if trial.scores), default=0.0)
    progress = "no score yet" if best is None else f"best score {best:.3f}, up to {hours(reached)} GPU-hours"
    states = ", ".join(f"{trial.name} {trial.state}" for trial in group.trials)
    return f"{group.label}: {progress}; {states}."
