"""Which commands a shell script would start, as far as that is known without running anything."""

import operator
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path

from budgets.errors import InputError
from planner.scripts.shell.expansion import Variables
from planner.scripts.shell.tokens import Text, Token

LARGEST = 2**18  # bytes of a script
_DEEPEST = 5  # scripts within each other
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
# What Slurm sets for a job, by what its header asks for.
_JOB = re.compile(r"^#SBATCH\s+--?(nodes|N|gpus-per-node|gres)[=\s]+(?:gpu:)?(?:[\w-]+:)?(\d+)", re.MULTILINE)
_NODES, _GPUS = ("SLURM_JOB_NUM_NODES", "SLURM_NNODES"), ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE")
_DECLARE = ("export", "declare", "local", "readonly", "typeset")
_SUCCEED = ("cd", "mkdir", "pushd", "set", "source", ".", "echo", "true", ":", "export", "shopt", "ulimit")
_SHELLS = ("bash", "sh", "zsh")

Truth = float  # 1 where something holds, 0 where it does not; the least of two is whether both hold (Kleene)
UNKNOWN = 0.5

_UNSET = re.compile(r"\$(?:[A-Za-z_]\w*|[0-9@*])")  # what no variable of the script says is empty
_CALLER = re.compile(r"\$[A-Za-z_1-9]\w*")  # or is what the caller says
_NUMBERS = ("-eq", "-ne", "-lt", "-le", "-gt", "-ge")  # named as Python's operators are


@dataclass(frozen=True, slots=True)
class Command:
    """A command with its words as they would be, and the variables that are set for it."""

    words: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


@dataclass
class Shell:
    """What a script would start and set."""

    commands: list[Command] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)  # that it writes from here-documents
    notes: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)  # of its variables, at its end
    exported: list[str] = field(default_factory=list)  # those of them that what it starts sees
    folders: list[str] = field(default_factory=list)  # that it goes to


@dataclass(slots=True)
class _Block:
    """An `if`, a loop or a `case` that is being read."""

    kind: str
    runs: Truth = True  # the part that is being read
    taken: Truth = False  # one of the parts before
    asking: bool = False  # whether its condition is being read, or a pattern
    word: str = ""  # of a case
    patterns: list[str] = field(default_factory=list)


def read_shell(text: str, folder: Path, *, branches: bool = False) -> Shell:
    """Read a script that lies in a folder; a variable that it does not set is what its own default says, or empty.

    With `branches` what hangs on such variables of the caller, `if [ "$NODE_RANK" = 0 ]`, may go either way.
    """
    reader = _Reader(folder, branches=branches)
    for option, number in _JOB.findall(text):
        reader.variables.values |= {name: [number] for name in (_GPUS if option.startswith("g") else _NODES)}
    try:
        reader.read(text)
    except RecursionError:
        raise InputError("it is nested deeper than can be read") from None
    reader.found.values = {name: " ".join(values) for name, values in reader.variables.values.items()}
    return reader.found


class _Reader:
    def __init__(self, folder: Path, *, branches: bool) -> None:
        self.found = Shell()
        self._branches = branches
        self.variables = Variables(folder)
        self._folder = folder
        self._blocks: list[_Block] = []
        self._depth = 0
        self._status: Truth = True  # of the last command
        self._link = ""  # && or || before the next

    def read(self, text: str) -> None:
        """Read the text of a script, or of one within it."""
        if self._depth >= _DEEPEST:
            self.found.notes.append(f"scripts nested deeper than {_DEEPEST} are not read")
            return
        self._depth += 1
        source = Text(text)
        tokens: list[Token] = []
        words: set[str] = set()  # of those
        for token in [*source.tokens(), Token("operator", "\n")]:
            if "[[" in words and "]]" not in words and token.text != "\n":
                tokens.extend(Token("word", word) for word in (token.text, *token.parts))
            elif token.kind == "operator":
                self._end(tokens, token.text)
                tokens, words = [], set()
            else:
                tokens.append(token)
            words.update(word.text for word in tokens[-1 - len(token.parts) :])
        if source.cut:
            self.found.notes.append("a comment stands within a command: a shell ends the command there")
        self._depth -= 1

    def _end(self, tokens: list[Token], sign: str) -> None:
        """Take the words before an operator as a command."""
        block = self._blocks[-1] if self._blocks else None
        if block and block.kind == "case" and block.asking and [token.text for token in tokens[:1]] != ["esac"]:
            block.patterns += [self.variables.joined(token.text) for token in tokens if token.kind == "word"]
            if sign == ")":
                block.asking = False
                word = _CALLER.sub("$(", block.word) if self._branches else block.word
                self._branch(block, _matches(word, block.patterns))
            return
        while tokens and tokens[0].kind == "word" and self._keyword(tokens):
            tokens = tokens[1:]
        if tokens:
            linked = {"&&": self._status, "||": 1 - self._status}.get(self._link, True)
            runs = min(linked, *(other.runs for other in self._blocks), True)
            value = self._command(tokens, runs) if runs else UNKNOWN
            joined = {"&&": min, "||": max}.get(self._link)
            self._status = joined(self._status, value) if joined else value
        self._link = sign if sign in ("&&", "||") or (sign == "\n" and not tokens) else ""
        if sign.startswith(";;") and self._blocks and self._blocks[-1].kind == "case":
            self._blocks[-1].asking, self._blocks[-1].patterns = True, []

    def _keyword(self, tokens: list[Token]) -> bool:
        """Take the first word as one that opens, parts or closes a block; False where it is none."""
        word, rest = tokens[0].text, [token.text for token in tokens[1:]]
        block = self._blocks[-1] if self._blocks else _Block("")
        match word:
            case "if" | "while" | "until":
                self._blocks.append(_Block(word, asking=True))
                self._status, self._link = True, ""
            case "elif":
                block.asking, block.runs, self._link = True, 1 - block.taken, ""
            case "then" | "do" if block.asking:
                block.asking = False
                holding = self._status if word == "then" else min(self._status, UNKNOWN)
                self._branch(block, holding)
            case "else":
                self._branch(block, True)
            case "fi" | "done" | "esac":
                self._blocks[-1:] = []
            case "for" | "select":
                self._loop(rest)
                tokens[1:] = []
            case "case":
                self._blocks.append(_Block("case", asking=True, word=self.variables.joined(rest[0]) if rest else ""))
                tokens[1:] = []
            case "function":
                tokens[1:] = []
            case "then" | "do" | "{" | "}" | "time" | "!" | "in":
                pass
            case _:
                return False
        return True

    def _branch(self, block: _Block, holding: Truth) -> None:
        block.runs = min(1 - block.taken, holding)
        block.taken = max(block.taken, holding)

    def _loop(self, words: Sequence[str]) -> None:
        """Take the first of the values of a loop."""
        self._blocks.append(_Block("for"))
        if len(words) > 2 and words[1] == "in":
            values = [field for word in words[2:] for field in self.variables.fields(word)]
            if values:
                self.variables.values[words[0]] = values[:1]
            if len(values) > 1:
                self.found.notes.append(f"{words[0]} takes {len(values)} values: {values[0]} was read")

    def _command(self, tokens: list[Token], runs: Truth) -> Truth:
        """Take a command; return whether it succeeds, as far as that is known."""
        raw = [token.text for token in tokens if token.kind == "word"]
        documents = [token.parts[0] for token in tokens if token.kind == "redirection" and token.text in ("<<", "<<'")]
        targets = [
            token.parts[0] for token in tokens if token.kind == "redirection" and token.text in (">", ">>", ">|")
        ]
        for token in tokens:
            if token.kind == "array":
                values = [field for part in token.parts for field in self.variables.fields(part)]
                self._set(token.text.rstrip("+"), values, runs, appended=token.text.endswith("+"))
        leading = [*takewhile(_ASSIGNED.fullmatch, raw)]
        if raw and len(leading) == len(raw):
            for word in raw:
                self._assign(word, runs)
            return True
        if not raw or raw[0] in _DECLARE:
            for word in raw[1:]:
                self._assign(word, runs)
            if raw[:1] == ["export"]:
                self.found.exported += [word.partition("=")[0].rstrip("+") for word in raw[1:]]
            return True
        if raw[len(leading)] in ("[", "[[", "test"):
            test = [self.variables.joined(word) for word in raw[len(leading) :]]
            return holds([_CALLER.sub("$(", word) for word in test] if self._branches else test)
        words = [field for word in raw[len(leading) :] for field in self.variables.fields(word)]
        text = next((self._document(token) for token in tokens if token.parts and token.parts[0] in documents), None)
        if text is not None and targets:
            self.found.files[self.variables.joined(targets[0])] = text
        self._start(words, leading, text)
        return True if words[:1] and words[0] in _SUCCEED else False if words[:1] == ["false"] else UNKNOWN

    def _start(self, words: list[str], leading: Sequence[str], document: str | None) -> None:
        """Take a command that is no assignment."""
        first = words[0] if words else ""
        if first in ("source", ".") and len(words) > 1:
            self._source(words[1])
        elif first in ("cd", "pushd") and len(words) > 1:
            self.found.folders.append(words[1])
        elif first == "unset":
            for name in words[1:]:
                self.variables.values.pop(name, None)
        elif first == "read" and document is not None:
            self.variables.values[words[-1]] = [document]
        elif first == "eval":
            self.read(" ".join(words[1:]))
        elif first in ("tee", "cat") and document is not None and len(words) > 1:
            self.found.files[words[-1]] = document
        elif words:
            pairs = [word.partition("=") for word in leading]
            environment = {name: self.variables.joined(value) for name, _, value in pairs}
            self.found.commands.append(Command(tuple(words), environment))
            for place, word in enumerate(words[:-1]):
                if word.rpartition("/")[2] not in _SHELLS:
                    continue
                arguments = words[place + 1 :]
                if re.fullmatch(r"-\w*c", arguments[0]) and len(arguments) > 1:  # a text
                    self.read(arguments[1])
                elif arguments[0].endswith(".sh"):  # a script with its arguments
                    before, self.variables.values["@"] = self.variables.values.get("@", []), arguments[1:]
                    self._source(arguments[0])
                    self.variables.values["@"] = before

    def _assign(self, word: str, runs: Truth) -> None:
        if match := _ASSIGNED.fullmatch(word):
            self._set(match[1], [self.variables.joined(match[3])], runs, appended=bool(match[2]), scalar=True)

    def _set(self, name: str, values: list[str], runs: Truth, *, appended: bool, scalar: bool = False) -> None:
        """Set a variable; under a condition that is not known only what has no value yet, and nothing is added."""
        before = self.variables.values.get(name, [])
        if runs == UNKNOWN and (appended or self.variables.known(name)):
            return
        if appended and scalar:
            values = [(before or [""])[0] + values[0]]
        elif appended:
            values = [*before, *values]
        self.variables.values[name] = values

    def _document(self, token: Token) -> str:
        return token.parts[0] if token.text == "<<'" else self.variables.joined(token.parts[0], quoted=True)

    def _source(self, name: str) -> None:
        """Read a script that this one reads, where it lies beside it."""
        path, text = self._folder / name, None
        with suppress(OSError):  # this user may not read it
            if "$" not in name and path.is_file() and path.stat().st_size <= LARGEST:
                text = path.read_text(encoding="utf-8", errors="replace")
        if text is not None:
            self.read(text)
        else:
            self.found.notes.append(f"{name.removeprefix(f'{self._folder}/')} is not found")


def _matches(word: str, patterns: Sequence[str]) -> Truth:
    if patterns == ["*"]:
        return True
    return (
        UNKNOWN
        if "$(" in word
        else any(fnmatchcase("" if word.startswith("$") else word, pattern) for pattern in patterns)
    )


def holds(words: Sequence[str]) -> Truth:
    """Return whether a test holds, `[ … ]` with its brackets."""
    inside = [word for word in words[1:] if word not in ("]", "]]")]
    for sign, join in (("||", max), ("-o", max), ("&&", min), ("-a", min)):
        if sign in inside[1:-1]:
            place = inside.index(sign, 1)
            return join(holds(["[", *inside[:place]]), holds(["[", *inside[place + 1 :]]))
    if inside[:1] == ["!"]:
        return 1 - holds(["[", *inside[1:]])
    values = [_UNSET.sub("", "0" if word == "$#" else word) for word in inside]
    return UNKNOWN if any("$(" in value for value in values) else _compared(values)


def _compared(values: Sequence[str]) -> Truth:
    match values:
        case ["-z", value]:
            return not value
        case ["-n", value] | [value]:
            return bool(value)
        case [one, "=" | "==" | "!=" as sign, other]:
            return fnmatchcase(one, other) == (sign != "!=")
        case [one, sign, other] if sign in _NUMBERS and one.lstrip("-").isdigit() and other.lstrip("-").isdigit():
            return bool(getattr(operator, sign[1:])(int(one), int(other)))
    return UNKNOWN
