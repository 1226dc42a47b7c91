"""Which trials of a sweep are listed, and in which order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from planner.trials import TrialState
from rlplan.reading.row_choice import SortKey, chosen_names, ordered
from rlplan.reading.sweep_picture import TrialRow
from rlplan.reading.sweep_words import tally

SORT_KEYS: dict[str, SortKey[TrialRow]] = {
    "promise": SortKey(lambda trial: trial.promise),
    "score": SortKey(lambda trial: trial.last.score if trial.last else None, largest_first=True),
    "expected": SortKey(lambda trial: trial.forecast.mean if trial.forecast else None, largest_first=True),
    "p-best": SortKey(lambda trial: trial.forecast.probability_best if trial.forecast else None, largest_first=True),
    "spent": SortKey(lambda trial: trial.gpu_hours_spent, largest_first=True),
    "step": SortKey(lambda trial: trial.step, largest_first=True),
    "n": SortKey(lambda trial: trial.rollouts_per_prompt),
    "b": SortKey(lambda trial: trial.prompts_per_batch),
    "name": SortKey(lambda trial: trial.name),
}


@dataclass(frozen=True, slots=True)
class TrialChoice:
    """What `--status`, `--sort`, `--reverse` and `--top` ask for."""

    status: str | None = None
    sort: str | None = None
    reverse: bool = False
    top: int | None = None

    def of(self, trials: Sequence[TrialRow]) -> tuple[TrialRow, ...]:
        """Return the trials that are asked for; in the order of their planning where nothing is asked for."""
        if self == ALL:
            return tuple(trials)
        states = chosen_names(self.status, "status", [state.value for state in TrialState])
        kept = [trial for trial in trials if not states or trial.state.value in states]
        return tuple(ordered(kept, self.sort or "promise", SORT_KEYS, reverse=self.reverse)[: self.top])

    def said(self, trials: Sequence[TrialRow], wanted: Sequence[TrialRow]) -> Iterator[str]:
        """Say what is not shown."""
        shown = {trial.id for trial in wanted}
        hidden = [trial for trial in trials if trial.id not in shown]
        if trials and not wanted:
            yield "No trial is in such a state."
        if hidden:
            yield f"not shown: {tally(hidden)}"


ALL = TrialChoice()
