"""Where a trainer's batches come from; here from an engine in the same process, in an order that is always the same."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from runner.ports.engine import Weights
from runner.training.batch import Batch
from runner.training.collecting import Collector
from runner.training.prompts import PromptStream
from runner.training.stopwatch import Stopwatch

Prepare = Callable[[Sequence[Batch]], None]


class BatchSource(Protocol):
    """Gives a trainer one batch for each update, and takes the weights that each update makes."""

    def next(self, prepare: Prepare, watch: Stopwatch) -> Batch:
        """Return the batch of the next update; `prepare` is to be called once on each batch while it is new."""
        ...

    def publish(self, weights: Weights, version: int) -> None:
        """Take the weights after an update."""
        ...

    def metrics(self) -> dict[str, float]:
        """Return what the source knows about the last batch, such as how long it waited."""
        ...

    def state(self) -> dict[str, Any]:
        """Return all that is needed to go on, batches that wait included."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        ...

    def close(self) -> None:
        """Stop what runs behind it."""
        ...


class InlineSource:
    """Generates between updates, `lag` batches ahead: batch j is written by the weights of update max(0, j − lag).

    A lag of k is the asynchrony of a generator that keeps k updates behind all the time, without its timing: the
    staleness is the bound itself and every run is the same.
    """

    def __init__(self, collector: Collector, stream: PromptStream, lag: int) -> None:
        self._collector = collector
        self._stream = stream
        self._lag = lag
        self._waiting: deque[Batch] = deque()
        self._generations = 0

    def next(self, prepare: Prepare, watch: Stopwatch) -> Batch:
        """Return the oldest waiting batch, after generating until there are enough."""
        while len(self._waiting) <= self._lag:
            batches = self._collector.collect(self._generations, watch)
            self._generations += 1
            prepare(batches)
            self._waiting.extend(batches)
        return self._waiting.popleft()

    def publish(self, weights: Weights, version: int) -> None:
        """Do nothing: the engine is the trainer's and has the weights."""

    def metrics(self) -> dict[str, float]:
        """Return how many batches wait and what the prompt stream has done."""
        return {
            "queue_depth": float(len(self._waiting)),
            "epoch": float(self._stream.epoch),
            "retired_prompts": float(self._stream.retired),
        }

    def state(self) -> dict[str, Any]:
        """Return the waiting batches, the stream and the count of generations."""
        return {
            "stream": self._stream.state(),
            "generations": self._generations,
            "waiting": [batch.state() for batch in self._waiting],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self._stream.restore(state["stream"])
        self._generations = state["generations"]
        self._waiting = deque(Batch(**batch) for batch in state["waiting"])

    def close(self) -> None:
        """Nothing runs behind it."""
