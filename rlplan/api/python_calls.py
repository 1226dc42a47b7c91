"""Next steps of an answer that is printed in Python: the call that does what a command does."""

import shlex
from importlib import import_module

from rlplan.requests.flags import flags_of
from rlplan.wording.command_lines import COMMENT, DEFAULT_DATABASE

METHODS = {"rank": "ranked()", "recommend": "recommend()", "decisions": "decisions()", "status": "trials()"}
FUNCTIONS = {
    "plan": ("propose", "preview", "price", "check", "fits"),
    "logs": ("fit", "compare", "watch", "adopt", "replay"),
    "run": ("sweep", "resume", "retry", "launch"),
}
SAME = "…"  # stands for the arguments that the answer was asked with


def python_call(line: str, asked: str) -> str | None:
    """Return the call for a command, or for `asked` again where it has flags alone; None where Python has none."""
    from rlplan.api.functions import OF_SHELL  # noqa: PLC0415 (which gives answers these calls)

    words = [part for word in shlex.split(line.partition(COMMENT)[0])[1:] for part in _parts(word)]
    again = not words or words[0].startswith("-")
    verb = asked if again else words.pop(0)
    if verb in METHODS and not again:
        database = words[words.index("--db") + 1] if "--db" in words else DEFAULT_DATABASE
        names = [word for word in words[:1] if not word.startswith("-")]
        kind = "plan" if names and names[0].startswith("plan-") else "sweep"
        if kind == "plan":
            return f"rlplan.open({database!r}).plan({names[0]!r})"
        return f"rlplan.open({database!r}).sweep({', '.join(map(repr, names))}).{METHODS[verb]}"
    module = next((module for module, verbs in FUNCTIONS.items() if verb in verbs), None)
    if module is None:
        return None
    flags = flags_of(getattr(import_module(f"rlplan.requests.{module}"), f"{verb.capitalize()}Request"))
    keys = {name: (key, flag) for key, flag in flags.items() for name in (flag.named(key), flag.short)}
    arguments = [SAME] if again else []
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            arguments.append(repr(word))
            continue
        if word not in keys or keys[word][0] in OF_SHELL:
            return None
        key, value = keys[word][0], words.pop(0) if words and not words[0].startswith("--") else None
        arguments.append(f"{key}={'True' if value is None else _literal(value)}")
    return f"rlplan.{'run' if verb == 'sweep' else verb}({', '.join(arguments)})"


def _parts(word: str) -> list[str]:
    return word.split("=", 1) if word.startswith("--") and "=" in word else [word]


def _literal(text: str) -> str:
    return text if text.replace(".", "", 1).replace("e-", "", 1).isdigit() else repr(text)
