from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets.errors import InputError
from runner.tasks.tokenizers import (
    CHARACTERS,
    END_ID,
    MISPLACED,
    PAD_ID,
    START_ID,
    VOCABULARY,
    CharacterTokenizer,
    load_tokenizer,
)
from tests.runner.tasks.checkpoints import IDS, TEMPLATE, save_checkpoint

TOKENIZER = CharacterTokenizer()


@given(st.text(alphabet=CHARACTERS))
def test_text_comes_back(text: str) -> None:
    ids = TOKENIZER.encode(text)
    assert TOKENIZER.decode(ids) == text
    assert TOKENIZER.encode_prompt(text) == [START_ID, *ids]
    assert all(START_ID < id_ < VOCABULARY for id_ in ids)


@given(st.text(alphabet=CHARACTERS), st.lists(st.integers(0, VOCABULARY - 1)))
def test_nothing_behind_the_end_is_read(text: str, after: list[int]) -> None:
    assert TOKENIZER.decode([*TOKENIZER.encode(text), END_ID, *after]) == text


@pytest.mark.parametrize("special", [PAD_ID, START_ID])
def test_a_special_token_in_a_response_stays_visible(special: int) -> None:
    assert TOKENIZER.decode([*TOKENIZER.encode("57"), special, *TOKENIZER.encode("9"), END_ID]) == f"57{MISPLACED}9"


def test_what_the_embedded_models_have_no_token_for_is_named() -> None:
    with pytest.raises(InputError, match="'2×3=' holds the character '×', for which the embedded models have no"):
        TOKENIZER.encode_prompt("2×3=")
    with pytest.raises(InputError, match="32 is no token of the embedded models: they have 0 to 31"):
        TOKENIZER.decode([32])


def ids(text: str) -> list[int]:
    return [IDS[word] for word in text.split()]


def test_a_text_is_one_turn_of_the_user_and_messages_are_turns_of_their_own(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(save_checkpoint(tmp_path))
    assert tokenizer.encode_prompt("what is 2 + 2") == ids("<user> what is 2 + 2 <turn> <model>")
    turns = [("user", "be brief"), ("assistant", "4"), ("user", "what is 2")]
    prompt = tuple({"role": role, "content": content} for role, content in turns)
    assert tokenizer.encode_prompt(prompt) == ids(
        "<user> be brief <turn> <model> 4 <turn> <user> what is 2 <turn> <model>"
    )


def test_without_a_template_the_text_stands_alone_and_messages_are_refused(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(save_checkpoint(tmp_path, template=None))
    assert tokenizer.encode_prompt("what is 2") == ids("what is 2")
    with pytest.raises(InputError, match="has no chat template"):
        tokenizer.encode_prompt(({"role": "user", "content": "what"},))


def test_what_the_template_refuses_is_said(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(save_checkpoint(tmp_path))
    with pytest.raises(InputError, match="roles system, user: no system role"):
        tokenizer.encode_prompt(({"role": "system", "content": "be"}, {"role": "user", "content": "what"}))


def test_responses_are_read_without_special_tokens(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(save_checkpoint(tmp_path))
    assert tokenizer.decode(ids("2 + 2 is 4 <turn>")) == "2 + 2 is 4"
    assert tokenizer.decode([]) == ""


ONLY_QUESTIONS = "{% for m in messages %}{% if m.role != 'user' %}{{ raise_exception('no') }}{% endif %}{% endfor %}"


@pytest.mark.parametrize(
    ("template", "ends", "own", "expected"),
    [
        (TEMPLATE, (1, 4), "<eos>", "<turn>"),  # as in Gemma: the tokenizer's own end does not close a turn
        (TEMPLATE, (4, 1), "<turn>", "<turn>"),  # as in Qwen
        (TEMPLATE, 4, "<eos>", "<turn>"),
        (TEMPLATE, None, "<eos>", "<eos>"),
        (TEMPLATE, (1,), "<eos>", "<eos>"),
        (ONLY_QUESTIONS, (4, 1), "<eos>", "<eos>"),
        (None, (4, 1), "<eos>", "<eos>"),
        (None, (4, 1), None, "<turn>"),
        (None, 4, None, "<turn>"),
    ],
)
def test_of_several_end_tokens_the_one_that_closes_a_turn_counts(
    tmp_path: Path, template: str | None, ends: int | tuple[int, ...] | None, own: str | None, expected: str
) -> None:
    tokenizer = load_tokenizer(save_checkpoint(tmp_path, template=template, ends=ends, own_end=own))
    assert tokenizer.end_id == IDS[expected]


def test_padding_falls_back_to_the_end_token(tmp_path: Path) -> None:
    assert load_tokenizer(save_checkpoint(tmp_path / "with")).pad_id == IDS["<pad>"]
    assert load_tokenizer(save_checkpoint(tmp_path / "without", pad=None)).pad_id == IDS["<turn>"]


def test_a_model_that_can_never_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="declares no end token"):
        load_tokenizer(save_checkpoint(tmp_path, ends=None, own_end=None))


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(InputError, match="has no tokenizer that can be loaded"):
        load_tokenizer(str(tmp_path))
