"""The bound on staleness under artificial delays, with real threads."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.backends.generator import Generator
from runner.ports.engine import Weights
from runner.training.batches import Batch
from runner.training.prompts import PromptStream
from runner.training.stopwatch import Stopwatch

TOKENS = 4


class Engine:
    """Knows only which weights it has."""

    def __init__(self) -> None:
        self.version = 0

    def load_weights(self, weights: Weights, version: int) -> None:
        assert dict(weights)["is"] == version
        self.version = version


class Slow:
    """Writes a response of a few tokens, each with the weights of its moment and after some time."""

    def __init__(self, engine: Engine, seconds: float, fails_at: int | None = None) -> None:
        self._engine = engine
        self._seconds = seconds
        self._fails_at = fails_at

    def collect(self, number: int, watch: Stopwatch, between_tokens: Callable[[], None]) -> list[Batch]:
        if number == self._fails_at:
            raise ValueError("the reward broke")
        versions = []
        for _ in range(TOKENS):
            time.sleep(self._seconds / TOKENS)
            between_tokens()
            versions.append(self._engine.version)
        table = torch.tensor([versions], dtype=torch.int32)
        ones = torch.ones_like(table)
        return [Batch([[0]], 1, ones.long(), ones.bool(), ones.bool(), ones, table, ones[:, 0], number, TOKENS, {}, [])]


@contextmanager
def running(bound: int, seconds: float, **collector: Any) -> Iterator[Generator]:
    engine = Engine()
    generator = Generator(engine, Slow(engine, seconds, **collector), PromptStream(4, seed=1), bound)
    generator.start()
    try:
        yield generator
    finally:
        generator.close()


def train(generator: Generator, updates: int, seconds: float) -> list[tuple[int, int, int]]:
    """Take batches and push weights; return each batch's number, and its largest and smallest staleness."""
    seen = []
    for step in range(updates):
        batch = generator.take().batch
        behind = step - batch.versions
        seen.append((batch.generated, int(behind.max()), int(behind.min())))
        time.sleep(seconds)
        generator.push({"is": step + 1}, step + 1)
    return seen


@pytest.mark.parametrize("bound", [1, 2, 8])
@pytest.mark.parametrize(("generate", "trains"), [(0.0, 0.01), (0.01, 0.0), (0.004, 0.004)])
def test_no_token_is_staler_than_the_bound(bound: int, generate: float, trains: float) -> None:
    with running(bound, generate) as generator:
        seen = train(generator, 30, trains)
    assert [number for number, _, _ in seen] == list(range(30))  # nothing lost, nothing thrown away, in order
    assert max(most for _, most, _ in seen) <= bound
    assert min(least for _, _, least in seen) >= 0
    assert generate or max(most for _, most, _ in seen) == bound  # a fast generator runs ahead as far as it may


def test_weights_that_arrive_in_the_middle_of_a_response_write_its_rest() -> None:
    halfway, pushed = threading.Event(), threading.Event()

    class Halfway(Slow):
        def collect(self, number: int, watch: Stopwatch, between_tokens: Callable[[], None]) -> list[Batch]:
            calls = []

            def between() -> None:
                calls.append(number)
                if len(calls) == 3:
                    halfway.set()
                    pushed.wait(5)
                between_tokens()

            return super().collect(number, watch, between)

    engine = Engine()
    generator = Generator(engine, Halfway(engine, 0.0), PromptStream(4, seed=1), 8)
    generator.start()
    try:
        halfway.wait(5)
        generator.push({"is": 1}, 1)
        pushed.set()
        assert generator.take().batch.versions.tolist() == [[0, 0, 1, 1]]
    finally:
        generator.close()


@settings(max_examples=8)
@given(st.integers(1, 5), st.integers(0, 8))
def test_a_held_generator_can_be_saved_and_another_goes_on(bound: int, updates: int) -> None:
    with running(bound, 0.001) as generator:
        train(generator, updates, 0.0)
        state = generator.hold()
        assert generator.hold()["generations"] == state["generations"]  # held: nothing is begun
    assert state["generations"] == updates + len(state["waiting"])
    engine = Engine()
    other = Generator(engine, Slow(engine, 0.0), PromptStream(4, seed=1), bound)
    other.restore(state)
    other.push({"is": updates}, updates)
    other.start()
    try:
        numbers = []
        for step in range(updates, updates + 6):
            batch = other.take().batch
            numbers.append(batch.generated)
            assert step - int(batch.versions.min()) <= bound
            other.push({"is": step + 1}, step + 1)
        assert numbers == list(range(updates, updates + 6))
    finally:
        other.close()


def test_what_breaks_the_generator_is_raised_where_a_batch_is_wanted() -> None:
    with running(8, 0.0, fails_at=2) as generator:
        generator.take()
        generator.take()
        with pytest.raises(ValueError, match="the reward broke"):
            generator.take()
