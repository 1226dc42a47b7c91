"""Where the GPU-hours went, and which trial used which worker when."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from planner.store.schema import SegmentOutcome
from planner.view import Configuration
from rlplan.charts.chart import (
    ACCENT,
    BAD,
    GOOD,
    INK,
    MIND,
    PAPER,
    QUIET,
    SERIES,
    Chart,
    Figure,
    Trace,
    axis,
    faded,
    layout,
    legend_below,
    text,
)
from rlplan.charts.groups import configuration_of, groups
from rlplan.reading.story import Beliefs, Story
from rlplan.reading.sweep_picture import SegmentRow
from rlplan.wording.numbers import aligned_hours, duration

# How a segment ended, and what no segment was charged for: in words, and in which colour.
LOOKS = {
    "committed": ("trained", ACCENT),
    "reserved": ("under way", GOOD),
    "failed": ("failed", BAD),
    "lost": ("lost", MIND),
    "released": ("given back", QUIET),
    "idle": ("idle", QUIET),
}
PILOTS, WHOLE = "pilots", "all"
HEIGHT = 210


@dataclass(frozen=True, slots=True)
class Use:
    """GPU-hours that went to one thing."""

    name: str
    gpu_hours: float
    colour: str


def used(story: Story) -> tuple[Use, ...]:
    """Return where the pilots' GPU-hours are; what is none is left out."""
    money = story.picture.money
    spent = [(LOOKS.get(kind, (kind, SERIES[3])), gpu_hours) for kind, gpu_hours in money.by_use.items()]
    parts = [Use(words, gpu_hours, colour) for (words, colour), gpu_hours in spent]
    parts += [Use("reserved", money.reserved_gpu_hours, GOOD), Use("left", money.left, faded(QUIET, 0.35))]
    return tuple(use for use in parts if use.gpu_hours > 0)


def budget_chart(story: Story) -> Chart:
    """Return the stacked bars."""
    money = story.picture.money
    bars: list[Trace] = [_bar(use.name, PILOTS, use.gpu_hours, use.colour) for use in used(story)]
    final = max(0.0, story.final_gpu_hours)
    bars += [
        _bar("pilots", WHOLE, money.pilot_gpu_hours, faded(ACCENT, 0.55)),
        _bar("final run", WHOLE, final, SERIES[2]),
    ]
    figure = _stacked(bars, **legend_below(84))
    went = ", ".join(f"{use.name} {aligned_hours(use.gpu_hours)}" for use in used(story))
    caption = f"GPU-hours of the pilots: {went}; {aligned_hours(final)} for the final run."
    return Chart("budget", "Where the GPU-hours went", caption, figure, HEIGHT)


def split_chart(pilots: Sequence[tuple[str, float]], pilot_gpu_hours: float, final: float) -> Chart:
    """Return how a plan shares out its GPU-hours: what each pilot takes, and what is left for the final run."""
    taken = sum(gpu_hours for _, gpu_hours in pilots)
    bars = [_bar(name, PILOTS, each, faded(ACCENT, 0.55)) for name, each in pilots]
    if (left := pilot_gpu_hours - taken) > 0:
        bars.append(_bar("not given out", PILOTS, left, faded(QUIET, 0.35)))
    bars += [_bar("pilots", WHOLE, pilot_gpu_hours, faded(ACCENT, 0.55)), _bar("final run", WHOLE, final, SERIES[2])]
    figure = _stacked([{**bar, "marker": {**bar["marker"], "line": {"width": 1, "color": PAPER}}} for bar in bars])
    words = f"{len(pilots)} pilots take {aligned_hours(taken)} of {aligned_hours(pilot_gpu_hours)} GPU-hours"
    return Chart("split", "How the budget is split", f"{words}; {aligned_hours(final)} for the final run.", figure, 170)


def _stacked(bars: list[Trace], **more: Any) -> Figure:
    return {
        "data": bars,
        "layout": layout(
            barmode="stack",
            uniformtext={"minsize": 11, "mode": "hide"},
            bargap=0.35,
            xaxis=axis("GPU-hours", rangemode="tozero"),
            yaxis=axis(autorange="reversed", showgrid=False, ticks=""),
            **more,
        ),
    }


def _bar(name: str, row: str, gpu_hours: float, colour: str) -> Trace:
    return {
        "type": "bar", "orientation": "h", "name": text(name), "x": [gpu_hours], "y": [row],
        "marker": {"color": colour, "line": {"width": 0}},
        "text": [f"{text(name)} {aligned_hours(gpu_hours)}"], "textposition": "inside", "insidetextanchor": "middle",
        "insidetextfont": {"color": INK if "/" in colour else PAPER},
        "textangle": 0,
        "hovertemplate": f"<b>{text(name)}</b><br>%{{x:.4~g}} GPU-hours<extra></extra>",
    }  # fmt: skip


ROW, TALLEST, AROUND = 30, 900, 150  # pixels
LONGEST = 16  # letters of a worker's name that are shown
OTHERS = "others"

Kind = tuple[str, str]  # what the legend says, and its colour


def timelines(story: Story, beliefs: Beliefs | None) -> tuple[Chart, ...]:
    """Return the timeline coloured by how segments ended, and by configuration; nothing before the first segment."""
    if not story.segments:
        return ()
    by_outcome = _timeline(story, "timeline-outcome", "By outcome", lambda each: LOOKS[each.outcome])
    return by_outcome, _timeline(story, "timeline-configuration", "By configuration", _configurations(story, beliefs))


def _configurations(story: Story, beliefs: Beliefs | None) -> Callable[[SegmentRow], Kind]:
    """Give the best configurations that ran a colour each; more than a few cannot be told apart."""
    ran = [group for group in groups(story, beliefs) if group.trials][: len(SERIES)]
    kinds: dict[Configuration, Kind] = {
        group.configuration: (group.label, colour) for group, colour in zip(ran, SERIES, strict=False)
    }
    of_trial = {trial.id: configuration_of(trial) for trial in story.picture.trials}

    def kind(segment: SegmentRow) -> Kind:
        configuration = of_trial.get(segment.trial_id)
        found = kinds.get(configuration) if configuration is not None else None
        return found or (OTHERS, faded(QUIET, 0.7))

    return kind


def _timeline(story: Story, name: str, title: str, kind_of: Callable[[SegmentRow], Kind]) -> Chart:
    workers = list(dict.fromkeys([*map(_worker, story.segments), *(c.worker for c in story.charges)]))
    kinds: dict[Kind, list[SegmentRow]] = {}
    for segment in story.segments:
        kinds.setdefault(kind_of(segment), []).append(segment)
    order = sorted(kinds, key=lambda kind: kind[0] == OTHERS)
    driver = story.picture.driver
    # What a driver that is gone left open ended when it was last heard of, as far as anybody knows.
    heard = story.read_at - timedelta(seconds=driver.silent_seconds if driver and story.picture.abandoned else 0.0)
    figure = {
        "data": [*(_bars(kind, kinds[kind], heard) for kind in order), *_charges(story)],
        "layout": layout(
            **legend_below(92),
            barmode="overlay",
            bargap=0.25,
            xaxis=axis("time (UTC)", type="date"),
            yaxis=axis(
                type="category",
                categoryorder="array",
                categoryarray=workers,
                autorange="reversed",
                tickvals=workers,
                ticktext=[text(each if len(each) <= LONGEST else f"{each[: LONGEST - 1]}…") for each in workers],
                showgrid=False,
                ticks="",
            ),
        ),
    }
    failed = sum(segment.outcome in (SegmentOutcome.FAILED, SegmentOutcome.LOST) for segment in story.segments)
    caption = f"{len(story.segments):,} segments on {len(workers):,} workers; {failed:,} of them failed or were lost."
    return Chart(name, title, caption, figure, min(TALLEST, AROUND + ROW * max(2, len(workers))))


def _bars(kind: Kind, segments: Sequence[SegmentRow], now: datetime) -> Trace:
    label, colour = kind
    ends = [segment.ended_at or max(now, segment.started_at) for segment in segments]
    lengths = [end - segment.started_at for end, segment in zip(ends, segments, strict=True)]
    return {
        "type": "bar", "orientation": "h", "name": text(label), "y": list(map(_worker, segments)),
        "base": [_moment(segment.started_at) for segment in segments],
        "x": [max(1, length // timedelta(milliseconds=1)) for length in lengths],
        "marker": {"color": colour, "line": {"color": "$surface", "width": 0.5}},
        "customdata": [_segment_words(segment, length) for segment, length in zip(segments, lengths, strict=True)],
        "hovertemplate": "<b>%{customdata[0]}</b><br>%{customdata[1]}<br>%{customdata[2]}<br>%{y}<extra></extra>",
    }  # fmt: skip


def _worker(segment: SegmentRow) -> str:
    return segment.worker or "no worker yet"


def _segment_words(segment: SegmentRow, length: timedelta) -> list[str]:
    hours = segment.charged_gpu_hours
    paid = f"{aligned_hours(segment.reserved_gpu_hours)} reserved" if hours is None else aligned_hours(hours)
    attempt = f", attempt {segment.attempt}" if segment.attempt > 1 else ""
    return [
        text(segment.trial),
        f"steps {segment.from_step:,} to {segment.to_step:,}, {LOOKS[segment.outcome][0]}{attempt}",
        f"{duration(length.total_seconds() / 3600)}, {paid} GPU-hours",
    ]


def _charges(story: Story) -> Iterator[Trace]:
    """Mark what a worker was charged for outside of segments when it was charged; the gaps show when it waited."""
    if story.charges:
        yield {
            "type": "scatter", "mode": "markers", "name": "charged for waiting or loss",
            "x": [_moment(charge.at) for charge in story.charges], "y": [charge.worker for charge in story.charges],
            "marker": {"symbol": "triangle-left-open", "size": 9, "color": INK, "line": {"width": 1.5}},
            "customdata": [[text(charge.kind), aligned_hours(charge.gpu_hours)] for charge in story.charges],
            "hovertemplate": "%{customdata[0]}: %{customdata[1]} GPU-hours<br>%{y}<extra></extra>",
        }  # fmt: skip


def _moment(at: datetime) -> str:
    """Write a time as plotly's date axes read it."""
    utc = at if at.tzinfo is None else at.astimezone(UTC)
    return utc.replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")
