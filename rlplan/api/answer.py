"""A recommendation: what to run, how sure that is, and everything that it rests on."""

from dataclasses import asdict
from typing import Any

from planner.recommending.answer import FinalAnswer, RunnerUp
from planner.recommending.cautions import Caution
from planner.recommending.choosing import Choice
from rlplan.api.wording import Read
from rlplan.printing.recommend_output import report
from rlplan.reading.recommend_reading import Recommended, recommended_data
from rlplan.wording.answers import page_part
from rlplan.wording.console import text_of
from rlplan.wording.frames import CHOICES, Frame, Library, make_frame
from rlplan.wording.numbers import probability, steps
from rlplan.wording.terminal import Canvas

SHOWN = 12


class Answer:
    """What is recommended; `print(answer)` shows it as `rlplan recommend` does, and `found` is all of it, typed."""

    def __init__(self, recommended: Recommended) -> None:
        """Wrap what was found."""
        self.recommended = recommended

    found = Read[FinalAnswer]("recommended.answer", "The answer itself, with other budgets and the frontier.")
    sweep = Read[str]("recommended.sweep", "The name of the sweep that it is from.")
    best = Read[Choice](
        "found.chosen", "What to run: n, B, update steps and learning rate, with what is expected of it."
    )
    target_gpu_hours = Read[float]("found.target_gpu_hours", "GPU-hours of the final run that it is for.")
    sentence = Read[str]("found.what", "What to run and what it is expected to score, in one sentence.")
    certainty = Read[str]("found.how_sure", "How sure that is, in one sentence.")
    runner_up = Read[RunnerUp | None]("found.runner_up", "The next best, and how likely it is to end higher.")
    equivalent = Read[tuple[Choice, ...]]("found.equivalent", "What the evidence does not tell from the best.")
    cautions = Read[tuple[Caution, ...]]("found.cautions", "What to mind.")
    command = Read[str | None]("recommended.launch.line", "The line that runs it; None where there is none.")

    def frame(self, frame: Library | None = None) -> Frame:
        """Return a row for each configuration that can be run, the chosen one first."""
        rows = ({"rank": rank, **asdict(each)} for rank, each in enumerate(self.found.ranked, start=1))
        return make_frame(CHOICES, rows, frame)

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `rlplan recommend --format json` prints."""
        return recommended_data(self.recommended)

    def __str__(self) -> str:
        from rlplan.wording.harmless_console import HarmlessConsole  # noqa: PLC0415 (rich)

        console = HarmlessConsole(width=100, color_system=None, highlight=False, markup=False)
        told = text_of(console, report(self.recommended, Canvas(100), rest="frame()"))
        return told + (self.command or self.recommended.launch.note)

    def __repr__(self) -> str:
        best = self.best
        return (
            f"<Answer n={best.rollouts_per_prompt}, B={best.prompts_per_batch}, M={steps(best.update_steps)}: "
            f"{best.expected_score:.3f} ({best.score_low:.3f}–{best.score_high:.3f}), "
            f"P(best) {probability(best.probability_best)}>"
        )

    def _repr_html_(self) -> str:
        choices = self.found.ranked
        headings = ("n", "B", "M", "learning rate", "expected score", "P(best)", "P(within 0.02)", "status")
        rows = [
            (
                str(each.rollouts_per_prompt),
                str(each.prompts_per_batch),
                steps(each.update_steps),
                f"{each.learning_rate:.2g}",
                f"{each.expected_score:.3f} ({each.score_low:.3f}–{each.score_high:.3f})",
                probability(each.probability_best),
                probability(each.probability_within_002),
                each.status,
            )
            for each in choices[:SHOWN]
        ]
        return page_part(f"{self.sentence} {self.certainty}", headings, rows, hidden=len(choices) - len(rows))
