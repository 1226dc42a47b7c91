from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.policy.scoring import split


@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=12),
    st.integers(1, 6),
    st.integers(1, 200),
    st.randoms(use_true_random=False),
)
def test_every_row_comes_once_with_its_prompt(prompts: list[int], n: int, most: int, random) -> None:
    lengths = [random.randint(0, 30) for _ in range(len(prompts) * n)]
    seen: Counter[int] = Counter()
    for part in split(prompts, n, lengths, most):
        rows = part.rows.tolist()
        seen.update(rows)
        assert len(rows) == len(part.prompts) * part.per_prompt
        owners = [prompt for prompt in part.prompts for _ in range(part.per_prompt)]
        assert [row // n for row in rows] == owners
        assert part.longest >= max(lengths[row] for row in rows)
        padded = sum(max(prompts[p] for p in part.prompts) for _ in part.prompts) + len(rows) * part.longest
        assert padded <= most or len(rows) == 1
    assert seen == Counter(range(len(lengths)))


@pytest.mark.parametrize(("most", "parts"), [(1000, 1), (60, 2), (31, 4), (17, 8), (1, 16)])
def test_fewer_tokens_make_more_parts(most: int, parts: int) -> None:
    assert len(list(split([5] * 4, 4, [6] * 16, most))) == parts


def test_groups_of_similar_length_lie_together() -> None:
    parts = list(split([1] * 4, 1, [30, 2, 29, 3], 62))
    assert [sorted(part.rows.tolist()) for part in parts] == [[1, 3], [0, 2]]
    assert [part.longest for part in parts] == [3, 30]
