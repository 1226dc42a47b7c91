"""The words and operators of a shell script, as they are written."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from budgets.errors import InputError

_OPERATOR = re.compile(r"\n|;;&?|;|&&|\|\||&(?!>)|\|&?|\(|\)")
_REDIRECTION = re.compile(r"\d*(?:<<<|<<-?|>>|>&|<&|>\||<>|<|>)|&>>?")
_ARRAY = re.compile(r"([A-Za-z_]\w*)(\+?)=$")
_GOES_ON = re.compile(r"\n[ \t]*(?:#|--?\w|[+~]*\w[\w./@-]*=|\$\{?\w+\[@\])")
_CLOSING = {"(": ")", "{": "}"}
_WORK = 50  # times its length, that a script may take to be read: people's take less than 5
_NESTED = 40  # quotations within each other


@dataclass(frozen=True, slots=True)
class Token:
    """A word, an operator, or a redirection with where it goes; an array that is assigned has its words."""

    kind: str  # "word", "operator", "redirection", "array"
    text: str
    parts: tuple[str, ...] = ()


class Text:
    """What is read, and how much work that took: what is nested without end is refused."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._work = _WORK * (len(text) + 1000)
        self._depth = 0
        self._ends: dict[int, int] = {}
        self.cut = False  # whether a comment stands between the lines of one command

    def tokens(self) -> Iterator[Token]:
        """Yield what a script consists of, without its comments; a here-document goes with its redirection."""
        place, documents = 0, list[tuple[str, str]]()
        while (place := self._after_blanks(place)) < len(self.text):
            if match := _REDIRECTION.match(self.text, place):
                place = self._after_blanks(match.end())
                end = self.word_end(place)
                mark, word = match[0].lstrip("0123456789"), self.text[place:end]
                if mark in ("<<", "<<-"):
                    documents.append((mark, word))
                else:
                    yield Token("redirection", mark, (word,))
                place = max(end, place)
            elif match := _OPERATOR.match(self.text, place):
                place = match.end()
                while match[0] == "\n" and documents:
                    mark, name = documents.pop(0)
                    body, place = self._document(place, name, tabs=mark == "<<-")
                    yield Token("redirection", "<<'" if re.search(r"['\"\\]", name) else "<<", (body,))
                yield Token("operator", match[0])
            else:
                end = self.word_end(place)
                word = self.text[place:end]
                if self.text.startswith("(", end) and (array := _ARRAY.match(word)):
                    begin, end = end + 1, self.closing(end)
                    inside = Text(self.text[begin : end - 1]).tokens()
                    yield Token(
                        "array", array[1] + array[2], tuple(token.text for token in inside if token.kind == "word")
                    )
                else:
                    yield Token("word", word)
                place = end

    def word_end(self, place: int) -> int:
        """Return where the word that begins here ends, at least a character on."""
        begin = place
        while place < len(self.text) and (place == begin or self.text[place] not in " \t\r\n;&|()<>"):
            place = self.next(place)
        return min(place, len(self.text))

    def next(self, place: int) -> int:
        """Return where what begins here ends: a character, or a whole quotation or expansion."""
        char = self.text[place]
        if char == "\\":
            return place + 2
        if char in "'\"`" or (char == "$" and self.text[place + 1 : place + 2] in ("(", "{", "'")):
            return self.quoted_end(place)
        return place + 1

    def quoted_end(self, place: int) -> int:
        """Return where the quotation or expansion that begins here ends; the next character where it never does."""
        if place in self._ends:
            return self._ends[place]
        self._depth += 1
        if self._depth > _NESTED:
            raise InputError(f"more than {_NESTED} quotations are nested in it")
        char, end = self.text[place], place + 1
        if char == "$":
            end = self.quoted_end(end) if self.text[end] == "'" else self.closing(end)
        elif char == '"':
            while end < len(self.text) and self.text[end] != '"':
                self._spend(1)
                literal = self.text[end] == "'" or self.text.startswith("$'", end)
                end = end + 1 if literal else self.next(end)
            end += 1
        else:
            end = self.text.find(char, end) + 1
            self._spend(max(end - place, 1))
        self._depth -= 1
        self._ends[place] = end if place < end <= len(self.text) else place + 1
        return self._ends[place]

    def closing(self, place: int) -> int:
        """Return where the parenthesis or brace that opens here is closed; the next character where it never is."""
        opening, depth, end = self.text[place], 0, place
        while end < len(self.text):
            self._spend(1)
            char = self.text[end]
            depth += (char == opening) - (char == _CLOSING[opening])
            if depth == 0:
                return end + 1
            if char == "#" and opening == "(" and self.text[end - 1] in " \t\n":
                end = self._line_end(end)
            else:
                end = self.next(end)
        return place + 1

    def _document(self, place: int, name: str, *, tabs: bool) -> tuple[str, int]:
        """Return a here-document, and where the script goes on."""
        mark, lines = re.sub(r"['\"\\]", "", name), list[str]()
        while place < len(self.text):
            end = self._line_end(place)
            line, place = self.text[place:end], end + 1
            if line.strip() == mark:
                break
            lines.append((line.lstrip("\t") if tabs else line) + "\n")
        return "".join(lines), place

    def _line_end(self, place: int) -> int:
        end = self.text.find("\n", place)
        return len(self.text) if end < 0 else end

    def _after_blanks(self, place: int) -> int:
        """Return where something stands again: after blanks, continued lines, and a comment."""
        continued = False
        while place < len(self.text):
            if self.text[place] in " \t\r":
                place += 1
            elif self.text.startswith("\\\n", place):
                place, continued = place + 2, True
            elif self.text[place] == "#":
                place, went_on = self._line_end(place), continued
                if went_on and _GOES_ON.match(self.text, place):  # people mean it, though a shell ends the command here
                    self.cut, place = True, place + 1
            else:
                break
        return place

    def _spend(self, work: int) -> None:
        self._work -= work
        if self._work < 0:
            raise InputError("its quotations do not end, or are nested beyond what can be read")
