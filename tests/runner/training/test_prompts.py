from hypothesis import given
from hypothesis import strategies as st

from runner.training.prompts import PromptStream


@given(st.integers(1, 40), st.lists(st.integers(1, 15), min_size=1, max_size=20))
def test_each_pass_asks_every_prompt_once(count: int, batches: list[int]) -> None:
    stream = PromptStream(count, seed=3)
    asked = [index for batch in batches for index in stream.take(batch)]
    for first in range(0, len(asked) - count + 1, count):
        assert sorted(asked[first : first + count]) == list(range(count))


@given(st.integers(2, 30), st.integers(0, 60), st.integers(1, 30))
def test_a_restored_stream_goes_on_where_the_other_stopped(count: int, before: int, after: int) -> None:
    stream = PromptStream(count, seed=1, retire_at=0.9)
    taken = stream.take(before)
    stream.record(taken, 4, [1.0 if index % 3 == 0 else 0.5 for index in taken])
    other = PromptStream(count, seed=1, retire_at=0.9)
    other.restore(stream.state())
    assert other.take(after) == stream.take(after)
    assert (other.epoch, other.retired) == (stream.epoch, stream.retired)


def test_seeds_and_passes_shuffle_differently() -> None:
    stream = PromptStream(50, seed=1)
    assert stream.take(50) != stream.take(50)
    assert PromptStream(50, seed=1).take(50) != PromptStream(50, seed=2).take(50)


def test_easy_prompts_come_first_and_equals_are_shuffled() -> None:
    rates = [0.1, 0.9, 0.5, 0.9, 0.9, 0.9]
    stream = PromptStream(6, seed=1, pass_rates=rates)
    passes = [stream.take(6) for _ in range(8)]
    assert all([rates[index] for index in one] == [0.9, 0.9, 0.9, 0.9, 0.5, 0.1] for one in passes)
    assert len({tuple(one[:4]) for one in passes}) > 1


def test_a_mastered_prompt_retires_by_its_whole_history() -> None:
    stream = PromptStream(4, seed=1, retire_at=0.9)
    stream.record([0, 1], 8, [1.0, 0.5])
    stream.record([1], 8, [1.0])  # 0.75 in all
    assert stream.retired == 1
    assert 0 not in stream.take(40)
    stream.record([1, 2, 3], 100, [1.0, 0.95, 0.9])
    assert stream.retired == 4
    assert sorted(stream.take(4)) == [0, 1, 2, 3]  # when all are mastered, all are asked
