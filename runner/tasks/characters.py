"""The tokenizer of the embedded tasks: one token for each character."""

from collections.abc import Sequence

from budgets.errors import InputError
from runner.ports.task import Ids, Prompt

PAD_ID, END_ID, START_ID = 0, 1, 2
CHARACTERS = "0123456789+-*/=,.;:()[]<>?! \n"
FIRST_CHARACTER_ID = 3
VOCABULARY = FIRST_CHARACTER_ID + len(CHARACTERS)
MISPLACED = "\N{REPLACEMENT CHARACTER}"

_IDS = {character: id_ for id_, character in enumerate(CHARACTERS, start=FIRST_CHARACTER_ID)}


class CharacterTokenizer:
    """32 tokens: pad, end, start, and the characters of arithmetic."""

    end_id: int = END_ID
    pad_id: int = PAD_ID

    def encode_prompt(self, prompt: Prompt) -> Ids:
        """Return the start token and one token for each character."""
        if not isinstance(prompt, str):
            raise InputError(
                "a prompt is a list of chat messages, but the embedded models have no chat: give it as text"
            )
        return [START_ID, *self.encode(prompt)]

    def encode(self, text: str) -> Ids:
        """Return one token for each character, and nothing around them."""
        try:
            return [_IDS[character] for character in text]
        except KeyError as error:
            raise InputError(
                f"'{text[:40]}' holds the character {error.args[0]!r}, for which the embedded models have no token; "
                f"they know {CHARACTERS!r}"
            ) from error

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text before the first end token.

        A pad or start token before it becomes a replacement character: dropped, it would let a wrong response read
        like a right one.
        """
        characters = []
        for id_ in ids:
            if id_ == END_ID:
                break
            if not 0 <= id_ < VOCABULARY:
                raise InputError(f"{id_} is no token of the embedded models: they have 0 to {VOCABULARY - 1}")
            characters.append(CHARACTERS[id_ - FIRST_CHARACTER_ID] if id_ >= FIRST_CHARACTER_ID else MISPLACED)
        return "".join(characters)
