"""Has a final run go as far as its GPU-hours pay for, and keeps the number of its validations."""

from sqlalchemy import update

from planner.policy.final import last_spacing, paid_steps
from planner.store.schema import Trial
from planner.view import FINAL_POLICY, READY, TrialView
from runner.ports.trial import TrialConfig
from runner.sweep.board import Board
from runner.sweep.journal import Journal

FACTOR = 1.5  # between the validations that a run will have and those that were asked for, before they are spaced anew
MOST_FOR_SPACING = 0.03  # of the GPU-hours left, that opening the trial again with another spacing may take


class FinalLength:
    """The end of the final run that a board is of; of a sweep's pilots it changes nothing."""

    def __init__(self, board: Board, journal: Journal) -> None:
        """Go by the spacing that the trial's configuration has: an earlier driver may have changed it."""
        self._board, self._journal = board, journal
        self._is_final = board.spec.policy == FINAL_POLICY
        for run in board.trials.values() if self._is_final else ():
            board.put(run.trial, segment_steps=_spacing(TrialConfig.model_validate(board.facts[run.trial].config)))

    def follow(self) -> None:
        """Set the last update to where the money that is left now ends, at the prices that were measured by now."""
        for run in self._board.trials.values() if self._is_final else ():
            if run.state in READY:
                self._end(run)
                self._space(self._board.trials[run.trial])

    def _end(self, run: TrialView) -> None:
        board = self._board
        steps = paid_steps(run, board.ledger.left, board.further_start_up(run.trial), board.spec.most_steps)
        if steps != run.most_steps:
            board.put(run.trial, most_steps=steps)

    def _space(self, run: TrialView) -> None:
        """Space further validations anew where there would be many more or fewer, or GPU-hours be left at the end."""
        board, planned = self._board, self._board.candidate(run.configuration)
        left, start_up, limit = board.ledger.left, board.start_up(run.trial), board.spec.most_steps
        spacing = max(1, run.most_steps * planned.segment_steps // planned.update_steps)
        if run.most_steps - run.step <= run.segment_steps:
            is_limited = limit is not None and run.most_steps + run.segment_steps > limit
            spacing = run.segment_steps if is_limited else last_spacing(run, left, start_up)
        elif 1 / FACTOR < spacing / run.segment_steps < FACTOR or start_up > MOST_FOR_SPACING * left:
            return
        if spacing == run.segment_steps or run.step < run.segment_steps:
            return
        config = TrialConfig.model_validate(board.facts[run.trial].config)
        every = {"every_rollouts": config.rollouts_per_step * spacing}
        config = config.model_copy(update={"validation": config.validation.model_copy(update=every)})
        values = board.facts[run.trial].config = config.model_dump(mode="json")
        row = update(Trial).where(Trial.id == run.trial).values(config=values)
        self._journal.add(lambda session: session.execute(row))
        board.forget(run.trial)
        board.put(run.trial, segment_steps=spacing)
        self._end(board.trials[run.trial])
        reason = (
            f"its GPU-hours pay for {board.trials[run.trial].most_steps:,} updates, and {planned.update_steps:,} were "
            f"priced: it is scored and saved every {spacing:,} updates now, not every {run.segment_steps:,}"
        )
        self._journal.note("validations", run.trial, reason, spacing=spacing)


def _spacing(config: TrialConfig) -> int:
    return max(1, config.validation.every_rollouts // config.rollouts_per_step)
