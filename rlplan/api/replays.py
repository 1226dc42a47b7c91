"""Plays policies over recorded curves from Python: what `rlplan replay` does."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from planner.axes import named_configuration
from planner.replaying.play import Played
from planner.replaying.reading import recorded_in
from planner.view import Configuration
from rlplan.actions.replaying import ReplayRequest, Replays, budget_of, replay_table
from rlplan.api.tables import NAME, Tabular, is_path, table_of
from rlplan.api.wording import Said, arguments_named
from rlplan.printing.replay_output import replay_data
from rlplan.wording.answers import Read, page_part
from rlplan.wording.frames import TRACE, Frame, Library, make_frame
from rlplan.wording.numbers import hours


@dataclass(frozen=True)
class Replay:
    """What came of a policy; the first seed's replay, and the mean over all seeds."""

    replays: Replays = field(repr=False)

    played = Read[tuple[Played, ...]]("replays.played", "The replay of each seed.")
    policy = Read[str]("_first.policy", "What decided.")
    chosen = Read[Configuration]("_first.chosen", "(rollouts_per_prompt, prompts_per_batch, axes).")
    best = Read[Configuration]("replays.best", "What is the best at the target.")
    gpu_hours_spent = Read[float]("_first.gpu_hours_spent", "What the pilots took.")
    score_at_target = Read[float]("_first.score_at_target", "What the chosen configuration scores at the target.")
    regret = Read[float]("_first.regret", "How much the best scores more than what was chosen.")
    mean_regret = Read[float]("replays.mean_regret", "The mean regret over the seeds.")

    @property
    def _first(self) -> Played:
        return self.played[0]

    notes = Said("replays.notes", "What to mind about the table and the replay.")

    def frame(self, frame: Library | None = None) -> Frame:
        """Return the trace: what would have been chosen as the GPU-hours were spent, and with which regret."""
        marks = self.played[0].trace
        rows = (mark.chosen._asdict() | {"gpu_hours": mark.gpu_hours, "regret": mark.regret} for mark in marks)
        return make_frame(TRACE, rows, frame)

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `rlplan replay --format json` prints."""
        return replay_data(self.replays)

    def __repr__(self) -> str:
        return (
            f"<Replay of {self.policy}: chose {named_configuration(self.chosen)} for {hours(self.gpu_hours_spent)} "
            f"GPU-hours, regret {self.regret:.3f}>"
        )

    def _repr_html_(self) -> str:
        rows = [
            (hours(mark.gpu_hours), named_configuration(mark.chosen), f"{mark.regret:.3f}")
            for mark in self.played[0].trace
        ]
        return page_part(f"{self!r}"[1:-1], ("GPU-hours", "would have chosen", "regret"), rows)


def replay(
    data: Tabular,
    *,
    budget: float | str,
    target: float,
    policy: str = "rlplan",
    seed: int = 0,
    workers: int = 1,
    repeat: int = 1,
    learn_from: Sequence[str | Path] = (),
) -> Replay:
    """Play a policy over recorded curves; it sees a point only once it has paid for it.

    Args:
        data: A path to a CSV, or a frame, with the columns run, rollouts_per_prompt, prompts_per_batch, seed, gpu_hours
            and score; further columns are configuration.
        budget: GPU-hours of all pilots together, or a share of what the full grid costs, such as '10%'.
        target: GPU-hours of the final run.
        policy: What decides: rlplan, full, random, median, asha or hyperband.
        seed: Decides every random number.
        workers: Trials that run at once.
        repeat: How many seeds to play, one after another.
        learn_from: Files of recorded runs, or of experience, of related sweeps.

    Raises:
        InputError: The table cannot be read, or what is given is not allowed.
        BudgetError: The budget pays for no score.
    """
    with arguments_named():
        amount, is_share = budget_of(str(budget))
        table = Path(data) if is_path(data) else Path(NAME)
        request = ReplayRequest(
            table=table,
            budget=amount,
            budget_is_share=is_share,
            target=target,
            policy=policy,
            seed=seed,
            workers=workers,
            repeat=repeat,
            learn_from=tuple(str(each) for each in learn_from),
        )
        read = None if is_path(data) else recorded_in(table_of(data), table)
        return Replay(replay_table(request, read))
