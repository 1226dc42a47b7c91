"""`rlplan replay --total`: play the whole money, and say what the champion alone would have reached with it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from budgets.errors import InputError
from planner.axes import named_configuration
from planner.curves.files.tabular import NAME, is_path
from planner.policy.champion import named_champion, usual_among, usual_champion
from planner.replay.play import WholePlayed, play_whole
from planner.replay.recorded import AROUND, Recorded
from planner.replay.table import ReadTable
from planner.view import Champion, Configuration
from rlplan.reading.row_choice import chosen_data
from rlplan.requests.logs import ReplayRequest
from rlplan.wording.answers import Answer, AxisValues, Key, View, columns
from rlplan.wording.numbers import aligned_hours, hours
from rlplan.wording.screen import Canvas, Cells, Column, Invocation, Part, progress_shown, table_of

POLICY = "champion"
LEVEL = 0.005  # of score: a smaller difference is none


class WholeRepeatsData(View["WholeReplay"]):
    """What all seeds came to."""

    seeds = Key[Sequence[int]](lambda data: [data.of.request.seed + turn for turn in range(len(data.of.played))])
    gains = Key[Sequence[float]](lambda data: [played.reached - played.champion_alone for played in data.of.played])
    mean_gain = Key[float]("of.mean_gain")
    gain_standard_error = Key[float | None]("of.gain_error")


@dataclass(frozen=True)
class WholeReplay(Answer):
    """What all of the money came to with one seed after another; where one is meant, the first seed's."""

    COLUMNS = columns("""
        policy seed rollouts_per_prompt prompts_per_batch gpu_hours_spent score_at_target best_at_target regret
        decisions reached champion_alone best_known switched challenger_gpu_hours
    """)
    TOLD = "notes"

    request: ReplayRequest = field(repr=False)
    read: ReadTable = field(repr=False)
    played: tuple[WholePlayed, ...] = field(repr=False)
    notes: tuple[str, ...] = field(repr=False)

    first = property(lambda self: self.played[0])
    policy = Key[str](lambda _: POLICY)
    champion = Key[AxisValues](lambda answer: chosen_data(answer.first.champion), "Who started.")
    chosen = Key[AxisValues](lambda answer: chosen_data(answer.first.chosen), "Who went on to the end.")
    reached = Key[float]("first.reached", "What the final run ends at, with what is left of the money.")
    champion_alone = Key[float]("first.champion_alone", "What the champion would have, with all of it.")
    best_known = Key[float]("first.best_known", "Of the configuration that ends highest, with all of it.")
    switched = Key[bool]("first.switched")
    challenger_gpu_hours = Key[float]("first.challenger_gpu_hours")
    why = Key[str]("first.verdict.why")
    gpu_hours_spent = Key[float]("first.gpu_hours_spent", "Before the final run went on.")
    score_at_target = Key[float]("first.reached")
    best_at_target = Key[float]("first.best_known")
    regret = Key[float](lambda answer: answer.first.best_known - answer.first.reached)
    trace = Key[Sequence[Mapping[str, Any]]](lambda answer: [_trace_of(answer.first)])
    decisions = Key[int]("first.decisions")
    repeats = Key[WholeRepeatsData | None](
        lambda answer: WholeRepeatsData(answer) if len(answer.played) > 1 else None, optional=True
    )

    @property
    def gains(self) -> list[float]:
        """What ours ends above the champion alone, of each seed."""
        return [played.reached - played.champion_alone for played in self.played]

    @property
    def mean_gain(self) -> float:
        """Mean over the seeds."""
        return fmean(self.gains)

    @property
    def gain_error(self) -> float | None:
        """Standard error of that mean; None for a single seed."""
        return stdev(self.gains) / math.sqrt(len(self.played)) if len(self.played) > 1 else None

    @property
    def listed(self) -> Sequence[Any]:
        """A row for each seed."""
        return [
            {
                "policy": POLICY,
                "seed": seed,
                **played.chosen._asdict(),
                "score_at_target": played.reached,
                "best_at_target": played.best_known,
                "regret": played.best_known - played.reached,
                **{name: getattr(played, name) for name in SAME},
            }
            for seed, played in enumerate(self.played, start=self.request.seed)
        ]

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Draw what was reached beside the champion alone, and a row for each seed."""
        request, first = self.request, self.first
        name = Path(request.table).name if is_path(request.table) else NAME
        champion, chosen = named_configuration(first.champion), named_configuration(first.chosen)
        yield canvas.line(f"{champion} over {name}, {hours(float(request.total or 0))} GPU-hours in all", "bold")
        yield ""
        gain = first.reached - first.champion_alone
        against = "level with it" if abs(gain) < LEVEL else f"{abs(gain):.3f} {'above' if gain > 0 else 'below'} it"
        went_on = f"{chosen} took its place and" if first.switched else f"{chosen} went on and"
        yield from canvas.lines(
            f"The champion alone ends at {first.champion_alone:.3f}. {went_on} reached {first.reached:.3f}, {against}. "
            f"The best of the table has {first.best_known:.3f}. Challengers took {hours(first.challenger_gpu_hours)} "
            "GPU-hours."
        )
        yield from canvas.lines(f"Why: {first.verdict.why}.", "dim")
        if len(self.played) > 1:
            yield ""
            yield table_of(enumerate(self.played, start=request.seed), SEEDS, canvas)
            yield from canvas.lines(
                f"Mean gain {self.mean_gain:+.4f} ± {self.gain_error or 0.0:.4f} (standard error) over "
                f"{len(self.played)} seeds."
            )


SAME = (
    *("gpu_hours_spent", "decisions", "reached", "champion_alone", "best_known", "switched", "challenger_gpu_hours"),
)


def _trace_of(played: WholePlayed) -> Mapping[str, Any]:
    regret = played.best_known - played.reached
    return {"gpu_hours": played.gpu_hours_spent, "chosen": chosen_data(played.chosen), "regret": regret}


def answer_whole(request: ReplayRequest, read: ReadTable, total: float) -> WholeReplay:
    """Play the champion with all of the money, once for each seed."""
    recorded = read.recorded
    if recorded.length < (1 - AROUND) * total:
        raise InputError(
            f"--total {total:g}: the longest run of the table ends at {recorded.length:g} GPU-hours, and no run says "
            f"what comes after; give at most {recorded.length:g}"
        )
    candidates = champion_of_table(request, recorded)
    champion = Champion(candidates, total, usual_among(recorded.configurations))
    with progress_shown("replaying the whole money", request.repeat) as progress:
        played = []
        for turn in range(request.repeat):
            played.append(play_whole(recorded, champion, seed=request.seed + turn, workers=request.workers))
            progress(turn + 1)
    notes = [*read.notes]
    if short := sum(run.length < total * (1 - 1e-9) for run in recorded.runs):
        notes.append(
            f"{short} of {len(recorded.runs)} runs end before {total:g} GPU-hours: these are worth the mean of their "
            "last tenth"
        )
    return WholeReplay(request, read, tuple(played), tuple(notes))


def champion_of_table(request: ReplayRequest, recorded: Recorded) -> tuple[Configuration, ...]:
    """Return the champion that is named, else the usual one; of several models one each."""
    if request.champion is None:
        return usual_champion(recorded.configurations)
    champions = named_champion(request.champion, recorded.configurations)
    if not request.advised:
        return champions
    alike = {choice.axes: choice for choice in usual_among(recorded.configurations)}
    return tuple(alike[choice.axes] for choice in champions)


SEEDS: Sequence[Column[tuple[int, WholePlayed]]] = (
    Column("seed", lambda seeded: seeded[0]),
    Column("reached", lambda seeded: f"{seeded[1].reached:.3f}"),
    Column("alone", lambda seeded: f"{seeded[1].champion_alone:.3f}"),
    Column("challengers", lambda seeded: aligned_hours(seeded[1].challenger_gpu_hours)),
    Column("went on", lambda seeded: named_configuration(seeded[1].chosen), Cells.TEXTS),
)
