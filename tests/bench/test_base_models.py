import random
import statistics
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.base_models.__main__ import ship, write_pass_rates
from bench.base_models.measuring import expected_pass_rate, new_model, response_logprobs, sampled
from bench.base_models.teaching import Design, Habit, base_model, has_carry
from runner.policy.model import load_model
from runner.tasks.embedded import Sums, embedded_task, sum_problems
from runner.tasks.tokenizers import END_ID, CharacterTokenizer

TOKENIZER = CharacterTokenizer()
SUMS = Sums(2, 5, 10, 99, steps_written=True)
NUMBERS = st.integers(0, 99_999)


@given(NUMBERS, NUMBERS, st.integers())
def test_without_a_habit_the_sum_is_right(left: int, right: int, seed: int) -> None:
    assert Habit(0.0, 0.0).add(left, right, random.Random(seed)) == left + right


@pytest.mark.parametrize(
    ("left", "right", "without_carries"), [(567, 678, 135), (999, 1, 990), (120, 345, 465), (5, 5, 0), (95, 7, 92)]
)
def test_every_carry_can_be_forgotten(left: int, right: int, without_carries: int) -> None:
    assert Habit(1.0, 0.0).add(left, right, random.Random(0)) == without_carries


@given(st.lists(st.integers(1, 999), min_size=2, max_size=5))
def test_a_sum_has_a_carry_where_forgetting_one_changes_it(terms: list[int]) -> None:
    text, _ = Habit(1.0, 0.0).response(terms, SUMS, 32, random.Random(0))
    assert has_carry(terms) is (text != SUMS.answer(terms))


@given(st.integers())
def test_a_rambling_answer_fills_the_response_and_has_no_end(seed: int) -> None:
    rng = random.Random(seed)
    terms = SUMS.terms(rng.randint)
    assert Habit(0.0, 0.0).response(terms, SUMS, 32, rng) == (SUMS.answer(terms), True)
    text, ends = Habit(0.0, 0.0, rambling=1.0).response(terms, SUMS, 32, rng)
    assert not ends
    assert len(text) == 32
    assert text.startswith(SUMS.answer(terms))


def test_log_probabilities_do_not_depend_on_the_neighbours_in_the_batch() -> None:
    model = new_model(0)
    prompts = [TOKENIZER.encode_prompt("1+2="), TOKENIZER.encode_prompt("10+20+30=")]
    responses = [[*TOKENIZER.encode("3"), END_ID], [*TOKENIZER.encode("30,60"), END_ID]]
    with torch.no_grad():
        together, mask = response_logprobs(model, prompts, responses)
        alone = [response_logprobs(model, [p], [r])[0].sum() for p, r in zip(prompts, responses, strict=True)]
    assert mask.sum(1).tolist() == [2, 6]
    assert together.sum(1).tolist() == pytest.approx([float(value) for value in alone], abs=1e-4)


def test_the_expected_pass_rate_is_what_sampling_finds() -> None:
    task = embedded_task("sum-easy")
    model = load_model(task.model_path)
    expected = expected_pass_rate(model, task.train[:64])
    found = sampled(model, task.train[:64], 16, task.max_response_tokens, seed=0)
    assert statistics.fmean(found.pass_rates) == pytest.approx(expected, abs=0.06)  # four standard errors
    assert len(found.lengths) == 64 * 16
    assert found == sampled(model, task.train[:64], 16, task.max_response_tokens, seed=0)


def test_a_response_that_does_not_end_is_truncated_and_wrong() -> None:
    problems, _ = sum_problems("sums", SUMS)
    found = sampled(new_model(0), problems[:4], 64, 3, seed=0)  # an untrained model ends with any token alike
    assert found.truncated == pytest.approx((31 / 32) ** 3, abs=0.05)
    assert set(found.lengths) <= {1, 2, 3}


def test_a_lesson_repeats_itself_exactly_and_what_is_shipped_loads(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    design = Design(Habit(0.1, 0.1), (0.0, 1.0), able_at=0.0, habit_steps=3, most_steps=50, batch=4)
    probe, _ = sum_problems("probe", SUMS)
    first, second = (base_model(design, SUMS, 32, probe[:4]) for _ in range(2))
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)
    ship(first, tmp_path / "model")
    for name, value in load_model(str(tmp_path / "model")).state_dict().items():
        assert torch.equal(value, first.state_dict()[name].float())
    write_pass_rates([0.25, 1.0], 16, "sums", tmp_path / "rates.txt")
    assert (tmp_path / "rates.txt").read_text().splitlines()[1:] == ["0.2500", "1.0000"]
