"""Where the GPU-hours of a sweep went: its budget, its final run, and which worker ran which trial when."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from planner.store.schema import SegmentOutcome
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
    band,
    configuration_of,
    faded,
    groups,
    layout,
    scatter,
    text,
)
from rlplan.reading.finals import FinalStanding
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
PILOTS, ALL = faded(ACCENT, 0.55), SERIES[2]
LEFT = faded(QUIET, 0.35)


def uses(story: Story) -> dict[str, tuple[float, str]]:
    """Return the GPU-hours of the pilots by what they went to, each with its colour."""
    money = story.picture.money
    parts = [(*LOOKS.get(kind, (kind, SERIES[3])), gpu_hours) for kind, gpu_hours in money.by_use.items()]
    parts += [("reserved", GOOD, money.reserved_gpu_hours), ("left", LEFT, money.left)]
    return {name: (gpu_hours, colour) for name, colour, gpu_hours in parts if gpu_hours > 0}


def budget_chart(story: Story) -> Chart:
    """Return where the pilots' GPU-hours went, and how much of all is for the final run."""
    parts = uses(story)
    final = max(0.0, story.final_gpu_hours)
    bars = [_bar(name, "pilots", gpu_hours, colour) for name, (gpu_hours, colour) in parts.items()]
    words = ", ".join(f"{name} {aligned_hours(gpu_hours)}" for name, (gpu_hours, _) in parts.items())
    caption = f"GPU-hours of the pilots: {words}; {aligned_hours(final)} for the final run."
    figure = _figure(bars, story.picture.money.pilot_gpu_hours, final, legend=84)
    return Chart("budget", "Where the GPU-hours went", caption, figure, 210)


def split_chart(pilots: Sequence[tuple[str, float]], pilot_gpu_hours: float, final: float) -> Chart:
    """Return how a plan shares out its GPU-hours: what each pilot takes, and what is left for the final run."""
    bars = [_bar(name, "pilots", gpu_hours, PILOTS) for name, gpu_hours in pilots]
    spent = sum(gpu_hours for _, gpu_hours in pilots)
    if (left := pilot_gpu_hours - spent) > 0:
        bars.append(_bar("not given out", "pilots", left, LEFT))
    words = f"{len(pilots)} pilots take {aligned_hours(spent)} of {aligned_hours(pilot_gpu_hours)} GPU-hours"
    caption = f"{words}; {aligned_hours(final)} for the final run."
    return Chart("split", "How the budget is split", caption, _figure(bars, pilot_gpu_hours, final), 170)


def _figure(bars: list[Trace], pilots: float, final: float, legend: int = 0) -> Figure:
    """Return bars of the pilots above one of all GPU-hours."""
    return {
        "data": [*bars, _bar("pilots", "all", pilots, PILOTS), _bar("final run", "all", final, ALL)],
        "layout": layout(
            legend,
            barmode="stack",
            uniformtext={"minsize": 11, "mode": "hide"},
            bargap=0.35,
            xaxis=axis("GPU-hours", rangemode="tozero"),
            yaxis={"autorange": "reversed", "showgrid": False, "ticks": ""},
        ),
    }


def _bar(name: str, row: str, gpu_hours: float, colour: str) -> Trace:
    return {
        "type": "bar",
        "orientation": "h",
        "name": text(name),
        "x": [gpu_hours],
        "y": [row],
        "marker": {"color": colour, "line": {"width": 1, "color": PAPER}},
        "text": [f"{text(name)} {aligned_hours(gpu_hours)}"],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "insidetextfont": {"color": INK if "/" in colour else PAPER},
        "textangle": 0,
        "hovertemplate": f"<b>{text(name)}</b><br>%{{x:.4~g}} GPU-hours<extra></extra>",
    }


HOVER = "update %{x:,}<br>%{y:.3f}"


def final_chart(final: FinalStanding) -> Chart:
    """Return the chart; x is the run's updates, since prices may turn out otherwise."""
    steps = [round(share * final.update_steps) for share, *_ in final.band]
    promised = [score for _, score, _, _ in final.band]
    lows, highs = [low for *_, low, _ in final.band], [high for *_, high in final.band]
    at, scores = [point.step for point in final.scores], [point.score for point in final.scores]
    traces = [
        band(steps, lows, highs, QUIET, name="promised, 90 %"),
        scatter(steps, promised, "lines", HOVER, name="promised", line={"color": QUIET, "width": 1.5, "dash": "dash"}),
        scatter(at, scores, "lines+markers", HOVER, name="scores", line={"color": ACCENT, "width": 2}),
    ]
    if final.expected is not None and not final.ended:
        end = final.expected
        error = {"type": "data", "array": [end.high - end.score], "arrayminus": [end.score - end.low], "color": INK}
        style = {"name": "end expected now, 90 %", "marker": {"color": INK, "size": 8}, "error_y": error}
        traces.append(scatter([final.update_steps], [end.score], "markers", HOVER, **style))
    figure = {
        "data": traces,
        "layout": layout(
            76, xaxis=axis("updates of the final run", range=[0, final.update_steps * 1.03]), yaxis=axis("score")
        ),
    }
    caption = final.ending if final.ended else final.line
    return Chart("final", "The final run against its promise", caption or "Nothing was scored yet.", figure, 380)


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
