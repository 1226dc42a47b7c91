import random
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from runner.policy.loading import load_model
from runner.tasks.base_models.designs import Design
from runner.tasks.base_models.measuring import expected_pass_rate, sampled
from runner.tasks.base_models.mistakes import Habit
from runner.tasks.base_models.network import new_model, response_logprobs
from runner.tasks.base_models.shipping import ship, write_pass_rates
from runner.tasks.base_models.training import base_model
from runner.tasks.characters import END_ID, CharacterTokenizer
from runner.tasks.sums import Sums, sum_problems

TOKENIZER = CharacterTokenizer()
SUMS = Sums(2, 5, 10, 99, totals_written=True)
NUMBERS = st.integers(0, 99_999)


@given(NUMBERS, NUMBERS, st.integers())
def test_without_a_habit_the_sum_is_right(left: int, right: int, seed: int) -> None:
    assert Habit(0.0, 0.0).add(left, right, random.Random(seed)) == left + right


@pytest.mark.parametrize(
    ("left", "right", "without_carries"), [(567, 678, 135), (999, 1, 990), (120, 345, 465), (5, 5, 0), (95, 7, 92)]
)
def test_every_carry_can_be_forgotten(left: int, right: int, without_carries: int) -> None:
    assert Habit(1.0, 0.0).add(left, right, random.Random(0)) == without_carries


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
    model = new_model(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    problems, _ = sum_problems("sum-easy", Sums(2, 3, 1, 99, totals_written=False))
    guess = TOKENIZER.decode(_likeliest(model, problems[0].prompt))
    chosen = [type(problem)(problem.id, problem.prompt, guess) for problem in problems[:8]]
    found = sampled(model, chosen, 512, 8, seed=0)
    mean = sum(found.pass_rates) / len(found.pass_rates)
    assert mean == pytest.approx(expected_pass_rate(model, chosen), abs=0.03)
    assert len(found.lengths) == 8 * 512
    assert 0 < found.truncated < 1
    assert found == sampled(model, chosen, 512, 8, seed=0)


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


def _likeliest(model: torch.nn.Module, prompt: str) -> list[int]:
    ids = TOKENIZER.encode_prompt(prompt)
    with torch.no_grad():
        return [int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax())]
