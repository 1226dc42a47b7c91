import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets.errors import InputError
from runner.tasks.tokenizers import CHARACTERS, END_ID, MISPLACED, PAD_ID, START_ID, VOCABULARY, CharacterTokenizer

TOKENIZER = CharacterTokenizer()


def test_the_vocabulary_is_that_of_the_models() -> None:
    assert VOCABULARY == 32
    assert len(set(CHARACTERS)) == len(CHARACTERS)
    assert (TOKENIZER.end_id, TOKENIZER.pad_id) == (END_ID, PAD_ID)


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


def test_an_unknown_character_is_named() -> None:
    with pytest.raises(InputError, match="'2×3=' holds the character '×', for which the embedded models have no"):
        TOKENIZER.encode_prompt("2×3=")


@pytest.mark.parametrize("id_", [-1, 32])
def test_an_unknown_token_is_refused(id_: int) -> None:
    with pytest.raises(InputError, match=f"{id_} is no token of the embedded models: they have 0 to 31"):
        TOKENIZER.decode([id_])
