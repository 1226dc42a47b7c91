"""Words of a shell script with its variables filled in: nothing is run for them, and they do not grow without end."""

import ast
import operator
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from budgets.errors import InputError
from planner.scripts.shell.tokens import Text

_MOST = 2**20  # characters that the words of a script may grow to
_DEEPEST = 20  # expansions within each other
_LONGEST = 4096  # of a text from which a pattern is taken away, in characters
_PARAMETER = re.compile(r"([A-Za-z_]\w*|[0-9@*#?$!-])(?:\[([^\]]*)\])?(.*)", re.DOTALL)
_ARRAY = re.compile(r"([A-Za-z_]\w*)\[[@*]\]")
_PLAIN = re.compile(r"\$([A-Za-z_]\w*|[0-9@*#?$!-])")
_HERE = re.compile(r"dirname\b[^|;&]*?(?:\$\{?0|BASH_SOURCE)[^/|;&]*((?:/\.\.)*)")
_FALLBACK = re.compile(r".*\|\|\s*echo\s+([\w./-]+|\"[^\"$`]*\"|'[^']*')\s*", re.DOTALL)
_HERE_DOCUMENT = re.compile(r"\s*cat\s*<<-?\s*(['\"]?)(\w+)\1[ \t]*\n(?:(.*?)\n)?[ \t]*\2\s*", re.DOTALL)
_ELSE = re.compile(r"(:?)([-=+?])(.*)", re.DOTALL)
_OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Mod: operator.mod,
    ast.Div: operator.floordiv,
}

Piece = tuple[str, str]  # "word" as it is, "split" at its blanks, or "end" of a word


class Variables:
    """The variables of a script; a scalar is an array of one.

    What no variable of the script has keeps its name (`$HOME`), and what would be run its first word (`$(nproc)`).
    """

    def __init__(self, folder: Path) -> None:
        self.values: dict[str, list[str]] = {}
        self._folder = folder
        self._grown = self._depth = 0

    def fields(self, raw: str) -> list[str]:
        """Return the words that a word becomes."""
        words: list[str] = []
        word: str | None = None
        for kind, text in self._pieces(raw, quoted=False):
            for number, part in enumerate(re.split(r"\s+", text) if kind == "split" else [text]):
                if (number or kind == "end") and word is not None:
                    words.append(word)
                    word = None
                if part or kind == "word":
                    word = (word or "") + part
        return words if word is None else [*words, word]

    def joined(self, raw: str, *, quoted: bool = False) -> str:
        """Return what a word becomes as one, as an assignment takes it."""
        return "".join(" " if kind == "end" else text for kind, text in self._pieces(raw, quoted=quoted))

    def known(self, name: str) -> bool:
        """Whether a value is set, and hangs on nothing that would be run."""
        return name in self.values and not any("$(" in value for value in self.values[name])

    def number(self, text: str) -> int | None:
        """Return what an arithmetic expression comes to; None where that is not known."""
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError, ZeroDivisionError):
            filled = self.joined(text, quoted=True).strip()
            if len(filled) <= 500:
                return self._computed(ast.parse(filled, mode="eval").body)
        return None

    def _computed(self, node: ast.AST) -> int:
        match node:
            case ast.Constant(value=int() as value):
                return value
            case ast.Name(id=name) if name in self.values:
                return int(self.values[name][0])
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._computed(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                value = _OPERATORS[type(op)](self._computed(left), self._computed(right))
                if abs(value) < 2**63:
                    return value
        raise ValueError

    def _pieces(self, raw: str, *, quoted: bool) -> Iterator[Piece]:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise InputError(f"more than {_DEEPEST} of its variables are nested")
        for kind, text in self._expanded(Text(raw), quoted=quoted):
            self._grown += len(text) + 1
            if self._grown > _MOST:
                raise InputError(f"its variables grow to more than {_MOST:,} characters")
            yield kind, text
        self._depth -= 1

    def _expanded(self, text: Text, *, quoted: bool) -> Iterator[Piece]:
        raw, place = text.text, 0
        while place < len(raw):
            char, end = raw[place], text.next(place)
            part = raw[place:end]
            if char == "\\":
                yield "word", part if quoted and part[1:] not in '$`"\\\n' else part[1:].strip("\n")
            elif char == "'" and not quoted:
                yield "word", part[1:-1] if len(part) > 1 else part
            elif char == '"' and len(part) > 1:
                yield from self._pieces(part[1:-1], quoted=True) if part != '""' else [("word", "")]
            elif part.startswith("$'") and not quoted and len(part) > 2:
                yield "word", part[2:-1]
            elif char == "`" and len(part) > 1:
                yield "word", self._run(part[1:-1])
            elif part.startswith("$((") and part.endswith("))"):
                value = self.number(part[3:-2])
                yield "word", "$(())" if value is None else str(value)
            elif part.startswith("$(") and len(part) > 2:
                yield "word", self._run(part[2:-1])
            elif part.startswith("${") and (match := _PARAMETER.fullmatch(part[2:-1])):
                yield from self._parameter(match[1], match[2], match[3], quoted=quoted)
            elif char == "$" and (plain := _PLAIN.match(raw, place)):
                yield from self._parameter(plain[1], None, "", quoted=quoted)
                end = plain.end()
            else:
                end = place + 1 if quoted and char == "'" else end
                yield "word", raw[place:end]
            place = end

    def _run(self, command: str) -> str:
        """Return what stands for a command: nothing is run.

        Known are the script's folder, the text that `cat` is given, and what `|| echo` says.
        """
        if match := _HERE_DOCUMENT.fullmatch(command):
            text = match[3] or ""
            return text if match[1] else self.joined(text, quoted=True)
        if match := _HERE.search(command):
            folder = self._folder
            for _ in range(match[1].count("..")):
                folder = folder.parent
            return str(folder)
        if match := _FALLBACK.fullmatch(command):
            return match[1].strip("'\"")
        first = re.match(r"\s*([\w./-]*)", command)
        return f"$({first[1] if first else ''})"

    def _parameter(self, name: str, place: str | None, change: str, *, quoted: bool) -> Iterator[Piece]:
        """Yield the value of `${name[place]change}`; of `${#name[@]}` how many there are."""
        if name == "#" and (array := _ARRAY.fullmatch(change)) and array[1] in self.values:
            yield "word", str(len(self.values[array[1]]))
            return
        values = self.values.get("@", []) if name in "@*" else self.values.get(name)
        if place not in (None, "@", "*") and values is not None:
            with suppress(ValueError, IndexError):
                values = [values[self.number(place or "") or 0]]
        several = place in ("@", "*") or name in "@*"
        if otherwise := _ELSE.fullmatch(change):
            empty = not values or (bool(otherwise[1]) and values == [""])
            if (otherwise[2] == "+") != empty and otherwise[2] != "?":
                if otherwise[2] == "=":
                    self.values[name] = [self.joined(otherwise[3], quoted=quoted)]
                yield from self._pieces(otherwise[3], quoted=quoted)
                return
            change, values = "", [] if otherwise[2] == "+" else values
        if values is None and not several:
            yield "word", f"${name}"
            return
        values = [self._changed(value, change) for value in values or ([] if several else [""])]
        for number, value in enumerate(values if several else values[:1]):
            if number:
                yield "end", ""
            yield "word" if quoted else "split", value

    def _changed(self, value: str, change: str) -> str:
        """Return a value by what stands behind its name: a part of it, a replacement, another case."""
        sign = change[:1]
        if sign in (",", "^"):
            return value.lower() if sign == "," else value.upper()
        if sign == "/":
            old, _, new = change.lstrip("/").partition("/")
            return value.replace(self.joined(old), self.joined(new), -1 if change.startswith("//") else 1)
        if sign in ("#", "%") and len(value) <= _LONGEST:
            greedy, pattern = change[1:2] == sign, self.joined(change.lstrip(sign))
            sizes = range(len(value) + 1)
            for size in reversed(sizes) if greedy else sizes:
                part, rest = (
                    (value[:size], value[size:])
                    if sign == "#"
                    else (value[len(value) - size :], value[: len(value) - size])
                )
                if fnmatchcase(part, pattern):
                    return rest
        if sign == ":":
            begin, _, many = change[1:].partition(":")
            first, length = self.number(begin), self.number(many) if many else len(value)
            return value if first is None or length is None else value[first:][:length]
        return value
