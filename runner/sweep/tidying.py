"""Removes the checkpoints of pruned trials once that they are pruned is stored: nobody goes on with them."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from budgets.errors import RlplanError
from planner.view import TrialState
from runner.ports.trial import TrialConfig
from runner.storage.place import Place
from runner.sweep.board import Board
from runner.trainers.catalogue import remove_checkpoints
from runner.training import checkpoints


class Tidying:
    """Works beside the sweep, since what lies on shared storage takes a while to remove."""

    def __init__(self, board: Board) -> None:
        """Trials that were pruned before are looked at once more: a driver may have died in between."""
        self._board = board
        self._done: set[int] = set()
        self._thread = ThreadPoolExecutor(1, "tidying")

    def after_commit(self) -> None:
        """Have the files of what is newly pruned removed."""
        under_way = {segment.trial for segment in self._board.running.values()}
        for trial, view in self._board.trials.items():
            if view.state is TrialState.PRUNED and trial not in self._done | under_way:
                self._done.add(trial)
                facts = self._board.facts[trial]
                self._thread.submit(remove_saved, Path(facts.folder), facts.config, facts.storage)

    def end(self) -> None:
        """Wait for what is under way."""
        self._thread.shutdown()


def remove_saved(folder: Path, values: dict[str, Any], storage: str | None = None) -> None:
    """Remove all that a trial can be gone on from, here and where copies of it lie; its points and logs stay."""
    checkpoints.remove(folder)
    with suppress(RlplanError, ValidationError):  # a trial that nobody can open any more
        remove_checkpoints(TrialConfig.model_validate(values), folder)
    if storage is not None:
        with suppress(RlplanError):  # it does not answer now; the next driver tries again
            place = Place(storage)
            place.remove(place.names())
