"""Small multiples: one panel for each configuration, with its scores, its bands, and what became of its trials."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from planner.axes import suffix
from planner.belief.forecasts import Band
from planner.store.schema import SegmentOutcome
from planner.view import ScorePoint, TrialState
from rlplan.charts.chart import (
    BAD,
    MIND,
    MUTED,
    SERIES,
    Axis,
    Chart,
    Group,
    Trace,
    band,
    faded,
    groups,
    layout,
    log_ticks,
    scatter,
    text,
    thinned_curve,
    upright,
)
from rlplan.reading.story import Beliefs, Story
from rlplan.reading.sweep_picture import SegmentRow, TrialRow
from rlplan.wording.numbers import hours

POINTS = (200, 24, 20_000)  # of one trial at most and at least, enough for its shape; of all panels together
HEIGHT = 215
AROUND = 0.03  # of the range of the scores, left free above and below
BEFORE = 0.7  # times the first GPU-hours: where a score of before training stands on a log axis
LOGARITHMIC_FROM = 8.0  # times the shortest curve, from which on a linear axis would hide it
ENDED_BADLY = {TrialState.PRUNED: MIND, TrialState.FAILED: BAD, TrialState.LOST: BAD}
AT = "%{x:.4~g} GPU-hours<br>"


@dataclass(frozen=True, slots=True)
class Panels:
    """The panels, and what they share so that they can be compared at a glance."""

    charts: tuple[tuple[Group, Chart], ...]
    logarithmic: bool


def curve_panels(story: Story, beliefs: Beliefs | None, most: int | None = None) -> Panels:
    """Return a panel for each configuration that has a trial, by rank, or for the first of them alone."""
    shown = [group for group in groups(story, beliefs) if group.trials][:most]
    frame = _frame(story, beliefs, [trial for group in shown for trial in group.trials])
    segments: dict[int, list[SegmentRow]] = {}
    for segment in story.segments:
        segments.setdefault(segment.trial_id, []).append(segment)
    return Panels(tuple((group, _panel(group, beliefs, frame, segments)) for group in shown), frame.logarithmic)


@dataclass(frozen=True, slots=True)
class _Frame:
    """The axes of all panels."""

    leftmost: float  # GPU-hours where a log axis begins
    last: float
    low: float
    high: float
    target: float
    logarithmic: bool
    most_points: int  # that are drawn of a trial

    def axes(self) -> dict[str, Axis]:
        low, high = 0.9 * self.leftmost, 1.15 * self.last
        return {
            "log": {"range": [math.log10(low), math.log10(high)], **log_ticks(low, high)},
            "linear": {"type": "linear", "range": [0, 1.04 * self.last], "nticks": 5},
        }


def _frame(story: Story, beliefs: Beliefs | None, trials: Sequence[TrialRow]) -> _Frame:
    bands = beliefs.bands.values() if beliefs is not None else ()
    values = [point.score for trial in trials for point in trial.scores]
    values += [value for one in bands for value in (*one.low, *one.high)]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    room = AROUND * ((high - low) or 1.0)
    target = story.target_gpu_hours
    trained = [point.gpu_hours for trial in trials for point in trial.scores if point.gpu_hours > 0]
    ends = [end for trial in trials if trial.scores and (end := trial.scores[-1].gpu_hours) > 0] + [target]
    many, few, total = POINTS
    return _Frame(
        leftmost=BEFORE * min(trained, default=target / 100),
        last=max(ends),
        low=low - room,
        high=high + room,
        target=target,
        logarithmic=max(ends) >= LOGARITHMIC_FROM * min(ends),
        most_points=max(few, min(many, total // len(ends))),
    )


def _panel(group: Group, beliefs: Beliefs | None, frame: _Frame, segments: dict[int, list[SegmentRow]]) -> Chart:
    traces: list[Trace] = []
    shapes = [upright(frame.target)]
    for place, trial in enumerate(group.trials):
        colour = SERIES[place % len(SERIES)]
        if beliefs is not None and trial.id in beliefs.bands:
            traces += _band(beliefs.bands[trial.id], colour, frame)
        traces += _scores(trial, colour, frame)
        traces += _marks(trial, segments.get(trial.id, []), frame)
        if beliefs is not None and trial.id in beliefs.cuts:
            shapes.append(upright(max(beliefs.cuts[trial.id], frame.leftmost), dash="dot", colour=BAD))
    axes = frame.axes()
    figure = {
        "data": traces,
        "layout": layout(
            margin={"l": 44, "r": 10, "t": 8, "b": 34},
            xaxis=axes["log" if frame.logarithmic else "linear"],
            yaxis={"range": [frame.low, frame.high], "nticks": 5},
            shapes=shapes,
        ),
        "axes": axes,  # both, for the button that changes from one to the other
    }
    n, B, further = group.configuration  # by which a page that is drawn anew finds the panel
    best = max((point.score for trial in group.trials for point in trial.scores), default=None)
    reached = max((trial.scores[-1].gpu_hours for trial in group.trials if trial.scores), default=0.0)
    progress = "no score yet" if best is None else f"best score {best:.3f}, up to {hours(reached)} GPU-hours"
    states = ", ".join(f"{trial.name} {trial.state}" for trial in group.trials)
    caption = f"{group.label}: {progress}; {states}."
    return Chart(f"curve-n{n}-B{B}{suffix(further)}", group.label, caption, figure, HEIGHT)


def _band(believed: Band, colour: str, frame: _Frame) -> list[Trace]:
    rows = zip(believed.gpu_hours, believed.median, believed.low, believed.high, strict=True)
    visible = [row for row in rows if row[0] > 0 or not frame.logarithmic]
    if not visible:
        return []
    x, median, low, high = zip(*visible, strict=True)
    return [
        band(x, low, high, colour, f"{AT}end of the 90 %: %{{y:.3f}}"),
        scatter(x, median, "lines", f"{AT}fitted mean %{{y:.3f}}", line={"color": colour, "width": 1.5}),
    ]


def _scores(trial: TrialRow, colour: str, frame: _Frame) -> Iterator[Trace]:
    """Draw scores with their errors; one of before training has no place on a log axis, and stands at its left end."""
    points = thinned_curve(trial.scores, frame.most_points)
    trained = [point for point in points if point.gpu_hours > 0]
    if trained:
        style = {"marker": {"color": colour, "size": 4}, "customdata": [point.step for point in trained]}
        x, hover = [point.gpu_hours for point in trained], f"step %{{customdata:,}}<br>{AT}score %{{y:.4f}}"
        yield _points(trial, trained, x, hover, style, colour)
    before = [point for point in points if point.gpu_hours <= 0]
    if before:
        style = {"marker": {"color": colour, "size": 7, "symbol": "triangle-left"}}
        x = [frame.leftmost] * len(before)
        yield _points(trial, before, x, "before training<br>score %{y:.4f}", style, colour)


def _points(
    trial: TrialRow, points: Sequence[ScorePoint], x: list[float], hover: str, style: dict[str, Any], colour: str
) -> Trace:
    errors = [point.standard_error for point in points]
    if any(error is not None for error in errors):
        bars = {"type": "data", "array": errors, "thickness": 1, "width": 0, "color": faded(colour, 0.45)}
        style = style | {"error_y": bars}
    # Errors are read off the bars: what is written once stays small with tens of thousands of points.
    worth = "" if None in errors else " ± %{error_y.array:.4f}"
    words = f"<b>{text(trial.name)}</b><br>{hover}{worth}"
    return scatter(x, [point.score for point in points], "markers", words, **style)


def _marks(trial: TrialRow, segments: Sequence[SegmentRow], frame: _Frame) -> Iterator[Trace]:
    """Mark where a trial paused, at the bottom, and on its last score how it ended when it ended badly."""
    name = f"<b>{text(trial.name)}</b><br>"
    pauses: list[tuple[float, str]] = []
    for segment in segments:
        reached = [point.gpu_hours for point in trial.scores if point.step <= segment.to_step]
        if segment.ended_at is not None and segment.outcome is SegmentOutcome.COMMITTED and reached and reached[-1] > 0:
            pauses.append((reached[-1], f"{name}end of segment {segment.number}, step {segment.to_step:,}"))
    if pauses:
        x, words = zip(*pauses, strict=True)
        marker = _sign("line-ns-open", MUTED, 9)
        style = {"marker": marker, "customdata": words, "cliponaxis": False}
        yield scatter(x, [frame.low] * len(x), "markers", "%{customdata}", **style)
    last = trial.last
    if last is not None and trial.state in ENDED_BADLY:
        why = f": {trial.failure_class}" if trial.failure_class else ""
        hover = f"{name}{text(trial.state.value + why)} at step {trial.step:,}"
        marker = _sign("x-thin-open", ENDED_BADLY[trial.state], 13)
        yield scatter([max(last.gpu_hours, frame.leftmost)], [last.score], "markers", hover, marker=marker)


def _sign(symbol: str, colour: str, size: int) -> dict[str, Any]:
    return {"symbol": symbol, "size": size, "color": colour, "line": {"width": size / 5, "color": colour}}
