"""The generating half of a split trial: batches ahead of their updates, never too far ahead of the weights.

Batch j is trained on by the update that makes version j + 1. It may be begun only once version j − k has arrived, and
weights that arrive later are taken between two tokens; so no token's weights are more than k updates behind those that
train on it (PipelineRL-k as in ScaleRL, arXiv 2510.13786, appendix A.11). Nothing is thrown away to keep the bound.
"""

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from runner.ports.engine import RolloutEngine
from runner.training.batches import Batch
from runner.training.collecting import Collector
from runner.training.prompts import PromptStream
from runner.training.stopwatch import Stopwatch

Named = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """A batch, with how many more wait and how long the generator waited for weights before it began this one."""

    batch: Batch
    waiting: int
    waited_seconds: float
    epoch: int
    retired: int


class Generator:
    """Generates in a thread of its own; every method may be called from any other thread."""

    def __init__(self, engine: RolloutEngine, collector: Collector, stream: PromptStream, bound: int) -> None:
        """Generate with at most `bound` updates between a token's weights and its use."""
        self._engine = engine
        self._collector = collector
        self._stream = stream
        self._bound = bound
        self._changed = threading.Condition()
        self._ready: deque[Delivery] = deque()
        self._begun = 0  # batches begun since the trial began
        self._working = False
        self._held = False
        self._closed = False
        self._version = 0
        self._fresh: tuple[Named, int] | None = None
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to generate; starting twice is allowed."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True, name="generator")
            self._thread.start()

    def take(self) -> Delivery:
        """Return the oldest batch, waiting until there is one; what stopped the generator is raised here."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._failure is not None)
            if not self._ready and self._failure is not None:
                raise self._failure
            delivery = self._ready.popleft()
            self._changed.notify_all()
            return replace(delivery, waiting=len(self._ready))

    def push(self, weights: Named, version: int) -> None:
        """Hand over new weights; they are used from the next token on."""
        with self._changed:
            self._fresh = (weights, version)
            self._version = version
            self._changed.notify_all()

    def hold(self) -> dict[str, Any]:
        """Finish the batch under way, begin no other, and return the state; `release` lets it go on."""
        with self._changed:
            self._held = True
            self._changed.wait_for(lambda: not self._working)
            return {
                "stream": self._stream.state(),
                "generations": self._begun,
                "waiting": [delivery.batch.state() for delivery in self._ready],
            }

    def release(self) -> None:
        """Go on after `hold`."""
        with self._changed:
            self._held = False
            self._changed.notify_all()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state; only before `start`."""
        with self._changed:
            self._stream.restore(state["stream"])
            self._begun = state["generations"]
            self._ready = deque(
                Delivery(Batch(**batch), 0, 0.0, self._stream.epoch, self._stream.retired) for batch in state["waiting"]
            )

    def close(self) -> None:
        """Stop after the token under way."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        watch = Stopwatch()
        try:
            while self._may_begin(watch):
                self._generate(watch)
        except _ClosedError:
            return
        except BaseException as error:  # it must reach whoever waits for a batch, whatever it is
            with self._changed:
                self._failure = error
        finally:
            with self._changed:
                self._working = False
                self._changed.notify_all()

    def _may_begin(self, watch: Stopwatch) -> bool:
        """Wait until the bound allows another batch; False when closed."""
        with watch.phase("wait"), self._changed:
            self._changed.wait_for(
                lambda: self._closed or (not self._held and self._begun - self._version <= self._bound)
            )
            self._working = not self._closed
            return self._working

    def _generate(self, watch: Stopwatch) -> None:
        self._refresh()
        (batch,) = self._collector.collect(self._begun, watch, self._refresh)
        _, phases = watch.read()
        with self._changed:
            self._begun += 1
            self._working = False
            self._ready.append(Delivery(batch, 0, phases.get("wait", 0.0), self._stream.epoch, self._stream.retired))
            self._changed.notify_all()

    def _refresh(self) -> None:
        with self._changed:
            if self._closed:
                raise _ClosedError
            fresh, self._fresh = self._fresh, None
        if fresh is not None:
            self._engine.load_weights(fresh[0].items(), fresh[1])


class _ClosedError(Exception):
    """The generator was closed in the middle of a batch."""
