"""TRL's console: `{'loss': …, 'reward': …}`, which names no step; that stands in the progress bar before it."""

import re

from planner.logs.lines import Said, pairs, plain

MARK = re.compile(r"\{'[\w./@ -]+': ")
BAR = re.compile(r"\b(\d+)/(\d+) \[\d")
_SUMMARY = ("train_runtime", "train_samples_per_second")
_KNOWN = ("loss", "reward", "learning_rate", "grad_norm", "eval_loss", "eval_reward", "eval_runtime")
EVALUATION = "eval_"


def values_of(line: str) -> Said | None:
    """Return the numbers of a printed dictionary, without a step unless a progress bar stands in the same line."""
    text = plain(line)
    begin = text.find("{'")
    if begin < 0:
        return None
    values = pairs(text[begin:])
    if not any(name in values for name in _KNOWN) or any(name in values for name in _SUMMARY):
        return None
    return None, values


class Steps:
    """Says at which step a printed dictionary was: that of the progress bar with the most steps, else one further."""

    def __init__(self) -> None:
        self._most, self._bar, self._taken, self._last = 0, 0, -1, 0
        self.counted = 0  # dictionaries whose step no bar said

    def see(self, line: str) -> None:
        """Look for progress bars in a line; those of evaluations and of loading have fewer steps."""
        for done, total in BAR.findall(line):
            if int(total) >= self._most:
                self._most, self._bar = int(total), int(done)

    def of(self, said: Said) -> int:
        """Return the step of what was just read."""
        if any(name.startswith(EVALUATION) for name in said[1]):
            return max(self._last, self._bar)
        if self._bar and self._bar != self._taken:
            self._taken = self._last = self._bar
        else:
            self._last += 1
            self.counted += 1
        return self._last
