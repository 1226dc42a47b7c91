"""Which trial used which worker when."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from planner.store.schema import SegmentOutcome
from rlplan.charts.budget import LOOKS
from rlplan.charts.chart import (
    INK,
    PAPER,
    QUIET,
    SERIES,
    Chart,
    Trace,
    axis,
    configuration_of,
    faded,
    groups,
    layout,
    scatter,
    text,
)
from rlplan.reading.story import Beliefs, Story
from rlplan.reading.sweep_picture import SegmentRow
from rlplan.wording.numbers import aligned_hours, duration

ROW, TALLEST, AROUND = 30, 900, 150  # pixels
LONGEST = 16  # letters of a worker's name that are shown
OTHERS = ("other configurations", faded(QUIET, 0.7))
TRAINING = (SegmentOutcome.COMMITTED, SegmentOutcome.RESERVED)  # the others have a colour of their own

Kind = tuple[str, str]  # what the legend says, and its colour


def timeline(story: Story, beliefs: Beliefs | None) -> Chart | None:
    """Return the segments of each worker, coloured by configuration or by what went wrong; None before the first."""
    if not story.segments:
        return None
    ran = [group for group in groups(story, beliefs) if group.trials]
    kinds = {group.configuration: (group.label, colour) for group, colour in zip(ran, SERIES, strict=False)}
    of_trial = {trial.id: kinds.get(configuration_of(trial), OTHERS) for trial in story.picture.trials}
    segments: dict[Kind, list[SegmentRow]] = {kind: [] for kind in (*kinds.values(), OTHERS, *LOOKS.values())}
    for segment in story.segments:
        trained = segment.outcome in TRAINING
        segments[of_trial.get(segment.trial_id, OTHERS) if trained else LOOKS[segment.outcome]].append(segment)
    driver = story.picture.driver
    # What a driver that is gone left open ended when it was last heard of, as far as anybody knows.
    end = story.read_at - timedelta(seconds=driver.silent_seconds if driver and story.picture.abandoned else 0.0)
    workers = list(dict.fromkeys([*map(_worker, story.segments), *(charge.worker for charge in story.charges)]))
    figure = {
        "data": [*(_bars(*kind, rows, end) for kind, rows in segments.items() if rows), *_charges(story)],
        "layout": layout(
            92,
            barmode="overlay",
            bargap=0.25,
            xaxis=axis("time (UTC)", type="date"),
            yaxis={
                "type": "category",
                "categoryarray": workers,
                "autorange": "reversed",
                "tickvals": workers,
                "ticktext": [text(name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…") for name in workers],
                "showgrid": False,
                "ticks": "",
            },
        ),
    }
    failed = sum(segment.outcome in (SegmentOutcome.FAILED, SegmentOutcome.LOST) for segment in story.segments)
    caption = f"{len(story.segments):,} segments on {len(workers):,} workers; {failed:,} of them failed or were lost."
    height = min(TALLEST, AROUND + ROW * max(2, len(workers)))
    return Chart("timeline", "Which trial used which worker when", caption, figure, height)


def _bars(label: str, colour: str, segments: Sequence[SegmentRow], now: datetime) -> Trace:
    """Draw segments; those under way are hatched, and end now."""
    lengths = [(row.ended_at or max(now, row.started_at)) - row.started_at for row in segments]
    hatches = ["/" if row.outcome is SegmentOutcome.RESERVED else "" for row in segments]
    return {
        "type": "bar",
        "orientation": "h",
        "name": text(label),
        "y": [_worker(row) for row in segments],
        "base": [_moment(row.started_at) for row in segments],
        "x": [max(1, length // timedelta(milliseconds=1)) for length in lengths],
        "marker": {"color": colour, "line": {"color": PAPER, "width": 0.5}, "pattern": {"shape": hatches}},
        "customdata": [_words(row, length) for row, length in zip(segments, lengths, strict=True)],
        "hovertemplate": "<b>%{customdata[0]}</b><br>%{customdata[1]}<br>%{customdata[2]}<br>%{y}<extra></extra>",
    }


def _worker(segment: SegmentRow) -> str:
    return segment.worker or "no worker yet"


def _words(segment: SegmentRow, length: timedelta) -> list[str]:
    hours = segment.charged_gpu_hours
    paid = f"{aligned_hours(segment.reserved_gpu_hours)} reserved" if hours is None else aligned_hours(hours)
    attempt = f", attempt {segment.attempt}" if segment.attempt > 1 else ""
    return [
        text(segment.trial),
        f"steps {segment.from_step:,} to {segment.to_step:,}, {LOOKS[segment.outcome][0]}{attempt}",
        f"{duration(length.total_seconds() / 3600)}, {paid} GPU-hours",
    ]


def _charges(story: Story) -> list[Trace]:
    """Mark what a worker was charged for outside of segments when it was charged; the gaps show when it waited."""
    if not story.charges:
        return []
    mark = scatter(
        [_moment(charge.at) for charge in story.charges],
        [charge.worker for charge in story.charges],
        "markers",
        "%{customdata} GPU-hours<br>%{y}",
        name="charged for waiting or loss",
        marker={"symbol": "triangle-left-open", "size": 9, "color": INK, "line": {"width": 1.5}},
        customdata=[f"{text(charge.kind)}: {aligned_hours(charge.gpu_hours)}" for charge in story.charges],
    )
    return [mark]


def _moment(at: datetime) -> str:
    """Write a time as plotly's date axes read it."""
    utc = at if at.tzinfo is None else at.astimezone(UTC)
    return utc.replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")
