"""What each section of a sweep's page shows, ready for its template."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from planner.axes import format_axes
from planner.percent import percent
from planner.store.schema import SweepStatus
from planner.view import Configuration
from rlplan.charts.chart import Chart, answer_in, configuration_of, expected_of, groups
from rlplan.charts.curves import curve_panels
from rlplan.charts.grid import frontier_chart, heat_maps
from rlplan.charts.money import budget_chart, final_chart, timeline
from rlplan.reading.decisions import Decision
from rlplan.reading.recommendation import outlook
from rlplan.reading.story import Beliefs, Story
from rlplan.reading.sweep_picture import Picture, sentence
from rlplan.reading.sweep_words import remains
from rlplan.wording.command_lines import command, wrapped_command
from rlplan.wording.numbers import UNKNOWN, aligned_hours, duration, hours, probability, rate, steps
from rlplan.wording.screen import capital


def score(value: float | None) -> str:
    """Write a score with three digits, since a hundredth is what the best differ by."""
    return UNKNOWN if value is None else f"{value:.3f}"


def share(value: float | None) -> str:
    """Write a share in percent."""
    return UNKNOWN if value is None else percent(value)


def clock(value: datetime | None) -> str:
    """Write a time to the second, in UTC."""
    if value is None:
        return UNKNOWN
    utc = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return f"{utc:%Y-%m-%d %H:%M:%S}"


def figure(value: Any) -> str:
    """Write a value that a decision looked at: numbers with the digits that they deserve, the rest as it is."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: UNKNOWN}[value]
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{words(str(key))} {figure(part)}" for key, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(figure(part) for part in value) or "none"
    return str(value)


def words(name: str) -> str:
    """Write a key as words."""
    return name.replace("_", " ").replace("gpu hour", "GPU-hour")


def tied(sentence: str) -> str:
    """Keep a percent sign on the line of its number."""
    return sentence.replace(" %", "\u00a0%")


def chart_json(chart: Chart) -> Any:
    """Write a chart's figure where a script element holds it."""
    from markupsafe import Markup  # noqa: PLC0415

    return Markup(chart.json)


_ALL = (score, share, clock, figure, words, tied, chart_json, remains)
_NUMBERS = (hours, aligned_hours, duration, steps, probability, rate, capital)
FILTERS: dict[str, Any] = {function.__name__: function for function in (*_ALL, *_NUMBERS)}


COMMAND_COLUMNS = 100  # columns of the command


def answer_section(story: Story, beliefs: Beliefs | None) -> dict[str, Any]:
    """Return what the template shows; the sweep's stored answer stands in until the beliefs are there."""
    found = beliefs.recommended if beliefs is not None else None
    stored = story.picture.answer if beliefs is None else None
    answer, launch = answer_in(beliefs), found.launch if found is not None else None
    line = launch.command if launch is not None else None
    why_not = beliefs.why_not if beliefs is not None else None
    return {
        "answer": answer,
        "launch": launch,
        "origin": found.origin if found is not None else "",
        "command": None if line is None else "\n".join(wrapped_command(line, COMMAND_COLUMNS)),
        "named": format_axes(answer.chosen.axes) if answer is not None else "",
        "stored": sentence(stored) if stored is not None else None,
        "why_not": None if why_not is None else why_not.removeprefix("no recommendation: ").rstrip("."),
        "what_to_do": _what_to_do(story.picture, story.database),
        "final": story.final,
        "final_chart": None if story.final is None else final_chart(story.final),
    }


def _what_to_do(picture: Picture, database: str) -> str:
    """Say how a sweep without a recommendation gets one."""
    if picture.status is SweepStatus.RUNNING and not picture.abandoned:
        return "The sweep runs: the recommendation comes with the first scores of its trials."
    if picture.failures:
        return f"Look at the health flags, then run what failed again: {command('retry', picture.sweep, database)}"
    if picture.abandoned or picture.status is not SweepStatus.FINISHED:
        return f"Go on with the sweep: {command('resume', picture.sweep, database)}"
    return "Start a sweep with more GPU-hours: " + command("sweep --budget <gpu-hours>", "", database)


def frontier_section(story: Story, beliefs: Beliefs | None) -> dict[str, Any]:
    """Return what the template shows."""
    answer = answer_in(beliefs)
    return {
        "chart": frontier_chart(story, beliefs),
        "sentences": outlook(answer) if answer is not None else [],
        "budgets": answer.budgets if answer is not None else (),
        "with_axes": answer is not None and any(budget.choice and budget.choice.axes for budget in answer.budgets),
        "said": format_axes,
    }


FIRST_PANELS = 20  # panels that are shown before one asks for more


def curves_section(story: Story, beliefs: Beliefs | None) -> dict[str, Any]:
    """Return what the template shows."""
    panels = curve_panels(story, beliefs)
    return {
        "panels": panels.charts,
        "logarithmic": panels.logarithmic,
        "first": FIRST_PANELS,
        "metric": story.picture.metric,
        "banded": bool(beliefs and beliefs.bands),
        "cut": bool(beliefs and beliefs.cuts),
    }


def heat_section(story: Story, beliefs: Beliefs | None) -> dict[str, Any]:
    """Return what the template shows."""
    return {"variants": heat_maps(story, beliefs) if expected_of(story, beliefs) else ()}


def budget_section(story: Story, beliefs: Beliefs | None) -> dict[str, Any]:
    """Return what the template shows."""
    return {"chart": budget_chart(story), "timeline": timeline(story, beliefs), "money": story.picture.money}


FIRST_DECISIONS = 25  # rows that are shown before one asks for more
MOST_ALTERNATIVES = 3  # of a decision
WIDEST = 32  # letters of a name in its column
NAME_KEYS = ("action", "trial", "name")  # of an alternative, by its name


def decisions_section(story: Story, beliefs: Beliefs | None) -> dict[str, Any]:
    """Return what the template shows."""
    return {
        "decisions": story.decisions[::-1],
        "actions": list(dict.fromkeys(decision.action for decision in story.decisions)),
        "first": FIRST_DECISIONS,
        "numbers": numbers,
    }


def numbers(decision: Decision) -> str:
    """Write what a decision looked at and what else it could have been, a line each."""
    alternatives = decision.alternatives or ()  # a row that was edited by hand may hold none
    lines = [(words(str(key)), figure(value)) for key, value in (decision.seen or {}).items()]
    others = [_alternative(alternative) for alternative in alternatives[:MOST_ALTERNATIVES]]
    lines += [(f"or {name}", figure(dict(rest))) for name, rest in others]
    wide = min(WIDEST, max((len(name) for name, _ in lines), default=0))
    written = [f"{name:<{wide}}  {value}".rstrip() for name, value in lines]
    more = len(alternatives) - MOST_ALTERNATIVES
    return "\n".join([*written, *([f"or {more} more"] if more > 0 else [])])


def _alternative(given: Any) -> tuple[str, Mapping[str, Any]]:
    """Return what else could have been done, as a name and its numbers; a row may hold anything."""
    if not isinstance(given, Mapping):
        return str(given), {}
    action, name = given.get("action"), given.get("name") or given.get("trial")
    label = " ".join(str(part) for part in (action, name) if part is not None)
    return label or "another", {key: value for key, value in given.items() if key not in NAME_KEYS}


def health_section(story: Story, beliefs: Beliefs | None) -> dict[str, Any]:
    """Return what the template shows, what is bad first."""
    return {"flags": story.flags, "failed": story.picture.failures.items(), "assumptions": story.assumptions}


# A row of the table, its numbers named as a choice names them.
KNOWN = (
    *("status", "gpu_hours_spent", "learning_rate", "update_steps", "expected_score", "score_low", "score_high"),
    *("probability_best", "probability_within_002", "expected_regret", "collapse_risk", "reached_gpu_hours"),
    "seeds_seen",
)
INTERVAL = ("score_low", "expected_score", "score_high")
RankedLine = dict[str, Any]


def _line(configuration: Configuration, rank: int | None, of: object = None, **values: Any) -> RankedLine:
    """Return a row with what a choice or a stored row knows, None where that is nothing."""
    named = {"configuration": configuration, "axes": format_axes(configuration.axes), "rank": rank}
    return {**named, **{name: getattr(of, name, None) for name in KNOWN}, **values}


def ranking_section(story: Story, beliefs: Beliefs | None) -> dict[str, Any]:
    """Return what the template shows."""
    answer = answer_in(beliefs) or (story.picture.answer if beliefs is None else None)
    lines = list(_lines(story, beliefs))
    ends = [line[name] for line in lines for name in INTERVAL if line[name] is not None]
    return {
        "lines": lines,
        "low": min(ends, default=0.0),
        "high": max(ends, default=1.0),
        "with_axes": any(line["axes"] for line in lines),
        "believed": answer_in(beliefs) is not None,
        "target": answer.target_gpu_hours if answer is not None else story.target_gpu_hours,
    }


def _lines(story: Story, beliefs: Beliefs | None) -> Iterator[RankedLine]:
    """List what is ranked, what cannot be run, and where nothing can be ranked what was tried."""
    if (answer := answer_in(beliefs)) is not None:
        for rank, choice in enumerate(answer.ranked, start=1):
            yield _line(choice.configuration, rank, choice)
        for configuration, facts in answer.left_out.items():
            status = "failed" if facts.failed else f"{facts.status}, too dear"
            yield _line(configuration, None, facts, status=status, reached_gpu_hours=facts.reached_gpu_hours or None)
    elif beliefs is None and story.picture.answer is not None:
        yield from (_line(configuration_of(row), row.rank, row) for row in story.picture.answer.ranking)
    else:
        for group in groups(story, None):
            yield _line(
                group.configuration,
                None,
                status=", ".join(dict.fromkeys(trial.state.value for trial in group.trials)),
                gpu_hours_spent=sum(trial.gpu_hours_spent for trial in group.trials),
                learning_rate=group.trials[0].learning_rate if group.trials else None,
                reached_gpu_hours=max(
                    (trial.scores[-1].gpu_hours for trial in group.trials if trial.scores), default=None
                ),
                seeds_seen=len(group.trials),
            )
