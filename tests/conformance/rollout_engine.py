"""What every rollout engine must do; a test class of an engine inherits it and gives the fixtures that it names."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from budgets.errors import InputError
from runner.ports.engine import Interruption, RolloutEngine, Rollouts, Sampling
from tests.conformance.tiny_llama import (
    CONTEXT,
    END,
    LONG_PROMPT,
    PAD,
    PROMPTS,
    VOCABULARY,
    expected_logprobs,
    logits_after,
    responses,
    tiny_llama,
)

TOLERANCE = 1e-4
TWELVE = Sampling(max_tokens=12)
PHRASE = (25, 25, 4)
CUT = Sampling(max_tokens=14, temperature=1.3, interruption=Interruption(PHRASE, 3, 7))


def load(engine: RolloutEngine, seed: int) -> None:
    """Load the weights of `tiny_llama(seed)`, as an iterable that can be walked through once."""
    engine.load_weights(iter(tiny_llama(seed).state_dict().items()))


def assert_same(first: Rollouts, second: Rollouts) -> None:
    for name in ("tokens", "mask", "forced", "logprobs", "truncated"):
        assert torch.equal(getattr(first, name), getattr(second, name)), name


def assert_logprobs(rollouts: Rollouts, seed: int, temperature: float = 1.0) -> None:
    expected = expected_logprobs(tiny_llama(seed), rollouts, temperature).masked_fill(rollouts.forced, 0.0)
    torch.testing.assert_close(rollouts.logprobs, expected, atol=TOLERANCE, rtol=0)


class RolloutEngineSuite:
    """Fixtures: `make_engine` returns a new engine with tiny_llama(0), and `engine` is one with those."""

    def test_rows_are_in_order_and_padded_on_the_right(self, engine: RolloutEngine) -> None:
        rollouts = engine.generate(PROMPTS, 3, Sampling(max_tokens=12, temperature=1.5), seed=1)
        assert (rollouts.count, rollouts.per_prompt, list(rollouts.prompts)) == (12, 3, list(PROMPTS))
        rows, width = rollouts.tokens.shape
        assert rows == 12
        assert width <= 12
        kinds = {
            "tokens": torch.int64,
            "mask": torch.bool,
            "forced": torch.bool,
            "logprobs": torch.float32,
        }
        for name, kind in kinds.items():
            tensor = getattr(rollouts, name)
            assert (tensor.shape, tensor.dtype, tensor.device.type) == ((12, width), kind, "cpu"), name
        assert (rollouts.truncated.shape, rollouts.truncated.dtype) == ((12,), torch.bool)
        lengths = rollouts.mask.sum(1)
        assert lengths.min() >= 1
        assert torch.equal(rollouts.mask, torch.arange(width) < lengths[:, None])
        padding = ~rollouts.mask
        assert padding.any(), "the case has rows of different lengths"
        assert (rollouts.tokens[padding] == PAD).all()
        assert (rollouts.logprobs[padding] == 0).all()
        assert not rollouts.forced.any()
        assert ((rollouts.tokens >= 0) & (rollouts.tokens < VOCABULARY)).all()

    @pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
    def test_logprobs_are_the_models_at_the_sampling_temperature(
        self, engine: RolloutEngine, temperature: float
    ) -> None:
        rollouts = engine.generate(PROMPTS, 3, Sampling(max_tokens=12, temperature=temperature), seed=2)
        assert_logprobs(rollouts, 0, temperature)

    def test_temperature_0_takes_the_likeliest_token(self, engine: RolloutEngine) -> None:
        rollouts = engine.generate(PROMPTS, 2, Sampling(max_tokens=12, temperature=0), seed=3)
        for prompt, response in responses(rollouts):
            assert logits_after(tiny_llama(0), prompt, response)[:-1].argmax(-1).tolist() == response
        assert_logprobs(rollouts, 0)

    def test_a_seed_decides_everything(self, engine: RolloutEngine) -> None:
        first = engine.generate(PROMPTS, 4, TWELVE, seed=4)
        other = engine.generate(PROMPTS, 4, TWELVE, seed=5)
        assert_same(first, engine.generate(PROMPTS, 4, TWELVE, seed=4))
        same = sum(one == two for one, two in zip(responses(first), responses(other), strict=True))
        assert same <= 2

    def test_rows_of_one_prompt_differ(self, engine: RolloutEngine) -> None:
        rollouts = engine.generate([PROMPTS[0], PROMPTS[0]], 8, TWELVE, seed=6)
        assert len({tuple(response) for _, response in responses(rollouts)}) >= 14

    def test_a_response_ends_with_the_end_token_or_is_truncated(self, engine: RolloutEngine) -> None:
        rollouts = engine.generate(PROMPTS, 16, Sampling(max_tokens=10, temperature=2.0), seed=7)
        assert rollouts.truncated.any()
        assert not rollouts.truncated.all()
        for row, (_, response) in enumerate(responses(rollouts)):
            assert END not in response[:-1]
            assert bool(rollouts.truncated[row]) == (response[-1] != END)
            assert not rollouts.truncated[row] or len(response) == 10

    def test_an_end_token_in_the_last_place_is_no_truncation(self, engine: RolloutEngine) -> None:
        rollouts = engine.generate(PROMPTS, 32, Sampling(max_tokens=1, temperature=2.0), seed=8)
        assert torch.equal(rollouts.truncated, rollouts.tokens[:, 0] != END)
        assert not rollouts.truncated.all()

    def test_tokens_are_as_frequent_as_they_are_likely(self, engine: RolloutEngine) -> None:
        drawn = 1500
        rollouts = engine.generate([PROMPTS[2]], drawn, Sampling(max_tokens=1, temperature=1.5), seed=9)
        expected = drawn * (logits_after(tiny_llama(0), PROMPTS[2])[0] / 1.5).softmax(-1)
        counts = rollouts.tokens[:, 0].bincount(minlength=VOCABULARY)
        assert ((counts - expected) ** 2 / expected).sum() < 70  # chi-square of 31 degrees exceeds it once in 10⁴

    def test_new_weights_are_used_and_the_old_come_back(self, engine: RolloutEngine) -> None:
        prompts = [*PROMPTS, LONG_PROMPT]
        first = engine.generate(prompts, 2, TWELVE, seed=10)
        assert_logprobs(first, 0)
        load(engine, 1)
        second = engine.generate(prompts, 2, TWELVE, seed=10)
        assert_logprobs(second, 1)
        load(engine, 0)
        assert_same(first, engine.generate(prompts, 2, TWELVE, seed=10))

    def test_what_was_loaded_is_a_copy(self, engine: RolloutEngine) -> None:
        weights = {name: tensor.clone() for name, tensor in tiny_llama(1).state_dict().items()}
        engine.load_weights(weights.items())
        for tensor in weights.values():
            tensor.zero_()
        assert_logprobs(engine.generate(PROMPTS, 2, TWELVE, seed=11), 1)

    @pytest.mark.parametrize("temperature", [0, 1.3])
    def test_a_closing_phrase_is_forced_where_it_is_due_and_followed_by_what_the_model_says_to_it(
        self, engine: RolloutEngine, temperature: float
    ) -> None:
        cut = replace(CUT, temperature=temperature)
        rollouts = engine.generate([*PROMPTS, LONG_PROMPT], 6, cut, seed=19)
        places = cut.interruption.places(19, rollouts.count)
        assert set(places) == {3, 4, 5, 6, 7}
        answered = 0
        for row, (_, response) in enumerate(responses(rollouts)):
            place, end = places[row], places[row] + len(PHRASE)
            forced = rollouts.forced[row][: len(response)].tolist()
            assert forced == [len(response) > place and place <= number < end for number in range(len(response))]
            assert len(response) <= place or (len(response) > end and tuple(response[place:end]) == PHRASE)
            answered += len(response) > end
        assert 5 <= answered <= (rollouts.count if temperature == 0 else rollouts.count - 1)
        assert (rollouts.logprobs[rollouts.forced] == 0).all()
        assert_logprobs(rollouts, 0, temperature or 1.0)
        assert_same(rollouts, engine.generate([*PROMPTS, LONG_PROMPT], 6, cut, seed=19))

    def test_an_interruption_changes_nothing_before_its_place_nor_of_a_response_that_closed_by_itself(
        self, engine: RolloutEngine
    ) -> None:
        plain = engine.generate(PROMPTS, 16, replace(CUT, interruption=None), seed=20)
        own = responses(plain)[0][1][1:3]  # what one of them says in its second and third place
        cut = Interruption(PHRASE, 5, 8, closed_by=tuple(own))
        rollouts = engine.generate(PROMPTS, 16, replace(CUT, interruption=cut), seed=20)
        let_be = 0
        for row, (place, one, other) in enumerate(
            zip(cut.places(20, 64), responses(plain), responses(rollouts), strict=True)
        ):
            before = one[1][:place]
            assert other[1][:place] == before
            closed = any(before[start : start + 2] == own for start in range(len(before) - 1))
            assert bool(rollouts.forced[row].any()) == (len(one[1]) > place and not closed)
            assert not closed or other == one
            let_be += closed and len(one[1]) > place
        assert let_be
        assert rollouts.forced.any()

    def test_no_prompts_give_no_rollouts(self, engine: RolloutEngine) -> None:
        rollouts = engine.generate([], 4, TWELVE, seed=16)
        assert rollouts.count == 0
        assert {len(rollouts.tokens), len(rollouts.mask), len(rollouts.logprobs)} == {0}
        assert rollouts.truncated.shape == (0,)
        assert rollouts.tokens.dim() == 2

    def test_a_prompt_needs_a_token_and_room_for_the_response(self, engine: RolloutEngine) -> None:
        with pytest.raises(InputError, match="prompt 1 "):
            engine.generate([PROMPTS[0], []], 2, TWELVE, seed=17)
        with pytest.raises(InputError, match=rf"prompt 0 .*{CONTEXT}"):
            engine.generate([[2] * (CONTEXT - 11)], 2, TWELVE, seed=17)
        assert engine.generate([[2] * (CONTEXT - 12)], 1, TWELVE, seed=17).count == 1

    def test_a_new_engine_has_the_checkpoints_weights_and_a_closed_one_is_of_no_use(
        self, make_engine: Callable[[], RolloutEngine]
    ) -> None:
        engine = make_engine()
        assert_logprobs(engine.generate(PROMPTS, 2, TWELVE, seed=18), 0)
        engine.close()
        engine.close()
        with pytest.raises(InputError, match="closed"):
            engine.generate(PROMPTS, 2, TWELVE, seed=18)
