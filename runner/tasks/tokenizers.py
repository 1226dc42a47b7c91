"""The tokenizers: one token a character for embedded tasks, and that of a checkpoint or a model on the hub."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from budgets.errors import InputError
from runner.ports.task import Ids, Prompt, turns_of

_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")  # such as Qwen/Qwen3-8B
_SMALL = ("*.json", "*.jinja", "*.model", "*.txt")  # configuration and tokenizer, no weights
PAD_ID, END_ID, START_ID = 0, 1, 2
CHARACTERS = "0123456789+-*/=,.;:()[]<>?! \n"
FIRST_CHARACTER_ID = 3
VOCABULARY = FIRST_CHARACTER_ID + len(CHARACTERS)
MISPLACED = "\N{REPLACEMENT CHARACTER}"
_IDS = {character: id_ for id_, character in enumerate(CHARACTERS, start=FIRST_CHARACTER_ID)}
_PROBE = "probe"


def is_hub_name(name: str | None) -> bool:
    """Whether this names something on the hub, and no path that is there."""
    return name is not None and _NAME.fullmatch(name) is not None and not Path(name).expanduser().exists()


def model_files(model: str) -> Path:
    """Return the folder with a model's configuration and tokenizer: its own, or what the hub's cache has or fetches."""
    if not is_hub_name(model):
        return Path(model).expanduser().absolute()
    from huggingface_hub import snapshot_download  # noqa: PLC0415  (a second)

    reason = ""
    for cached in (True, False):
        try:
            folder = Path(snapshot_download(model, allow_patterns=list(_SMALL), local_files_only=cached))
        except (OSError, ValueError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            continue
        if (folder / "config.json").is_file():
            return folder
    raise InputError(
        f"model '{model}' is no folder here, and its tokenizer cannot be had from the Hugging Face hub ({reason}): "
        "give a folder that holds it, or run `hf download` where the hub can be reached"
    )


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


def character_tokenizer_files() -> dict[str, str]:
    """Return the tokenizer of the embedded models as files that transformers loads."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors  # noqa: PLC0415

    ids = {"<pad>": PAD_ID, "<end>": END_ID, "<start>": START_ID, **_IDS}
    plain = Tokenizer(models.WordLevel(ids, unk_token="<pad>"))
    plain.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    plain.decoder = decoders.Fuse()
    plain.post_processor = processors.TemplateProcessing(single="<start> $A", special_tokens=[("<start>", START_ID)])
    tokens = {"eos_token": "<end>", "pad_token": "<pad>", "bos_token": "<start>", "clean_up_tokenization_spaces": False}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", **tokens}
    return {"tokenizer.json": plain.to_str(), "tokenizer_config.json": json.dumps(settings)}


class ChatTokenizer:
    """Prompts to tokens as the model's chat expects them, and responses back to text."""

    def __init__(self, tokenizer: Any, declared_ends: Sequence[int] = ()) -> None:
        """Wrap a tokenizer of transformers; `declared_ends` are the end tokens of the checkpoint's configuration."""
        self._tokenizer = tokenizer
        self.has_template = bool(tokenizer.chat_template)
        self.end_id = self._chosen_end(declared_ends)
        self.pad_id: int = self.end_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id

    def encode_prompt(self, prompt: Prompt) -> Ids:
        """Return the tokens after which the model answers: one turn of the user, or the messages given."""
        if self.has_template:
            ids: Ids = self._templated(turns_of(prompt), answered=False)
            return ids
        if not isinstance(prompt, str):
            raise InputError(
                "a prompt is a list of chat messages, but the model has no chat template: give the prompt as text, or "
                "a model with a template"
            )
        plain: Ids = self._tokenizer(prompt)["input_ids"]
        return plain

    def text_of(self, prompt: Prompt) -> str:
        """Return a prompt as the model is to see it."""
        if not self.has_template:
            return str(prompt)
        text: str = self._templated(turns_of(prompt), answered=False, tokenize=False)
        return text

    def encode(self, text: str) -> Ids:
        """Return the tokens of a piece of text, among them special ones that it names, and nothing around them."""
        ids: Ids = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of a response, without special tokens."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    def _templated(self, messages: list[dict[str, str]], *, answered: bool, tokenize: bool = True) -> Any:
        from jinja2 import TemplateError  # noqa: PLC0415

        try:
            return self._tokenizer.apply_chat_template(
                messages, add_generation_prompt=not answered, tokenize=tokenize, return_dict=False
            )
        except TemplateError as error:  # templates refuse with raise_exception(…), such as an unknown role
            roles = ", ".join(message["role"] for message in messages)
            raise InputError(f"the model's chat template refuses messages of the roles {roles}: {error}") from error

    def _chosen_end(self, declared: Sequence[int]) -> int:
        """Return the one end token that closes a turn of the chat, out of several that a checkpoint may declare.

        Gemma declares <eos> and <end_of_turn>, and only the second ends its answers; Llama 3 declares three.
        """
        end_id = self._tokenizer.eos_token_id
        ends = [*declared, *(() if end_id is None or end_id in declared else (end_id,))]
        if not ends:
            raise InputError(
                "the model declares no end token, so that no response could end: set eos_token_id in its "
                "generation_config.json"
            )
        fallback: int = ends[0] if end_id is None else end_id
        if not self.has_template or len(ends) == 1:
            return fallback
        turns = [{"role": role, "content": _PROBE} for role in ("user", "assistant")]
        try:
            closed = self._templated(turns, answered=True)
        except InputError:
            return fallback
        return next((id_ for id_ in reversed(closed) if id_ in ends), fallback)


def load_tokenizer(path: str, template: str | None = None) -> ChatTokenizer:
    """Load the tokenizer of a local checkpoint, maybe with another template; none of its code is run."""
    from transformers import AutoTokenizer

    folder = Path(path).expanduser()
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, ImportError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(
            f"model '{path}' has no tokenizer that can be loaded ({reason}): save it beside the weights with "
            "tokenizer.save_pretrained(…)"
        ) from error
    if template is not None:
        tokenizer.chat_template = template
    return ChatTokenizer(tokenizer, _declared_ends(folder))


def _declared_ends(folder: Path) -> list[int]:
    """Return the end tokens of generation_config.json, or else of config.json."""
    for name in ("generation_config.json", "config.json"):
        file = folder / name
        if file.is_file():
            declared = json.loads(file.read_text(encoding="utf-8")).get("eos_token_id")
            if declared is not None:
                return list(declared) if isinstance(declared, list) else [declared]
    return []
