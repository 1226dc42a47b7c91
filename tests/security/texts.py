"""Texts that somebody would put where a name or a reason belongs."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

MARK = "burglar()"
SCRIPT = f"</script></title></textarea><script>{MARK}</script><img src=x onerror={MARK}>\"' onmouseover={MARK} x='"
TEMPLATE = "{{7*7}}{% raw %}${7*7}#{7*7}<%=7*7%>%{y}"
STEERING = "\x1b[31mred\x1b]0;title\x07\x9b2J\x08\r\x7f\u202egnp.exe\u2066\u200b\ufeff"
FORMULA = "=cmd|' /C calc'!A0"
LINK = "javascript:burglar()//"
HALVES = "half \ud800 and \udfff"
# What the database or rlplan holds to values of its own.
OWN = {"axes", "rlplan_version", "version_num", "gpu"}
ATTACKED = (
    *("trials", "decisions", "transitions", "segments", "charges", "fits"),
    *("rankings", "candidates", "sweeps", "plans"),
)


def planted(database: Path, text: str) -> None:
    """Put a text wherever one can stand in a sweep, also as key and value of what is kept as JSON."""
    plain = text.encode("utf-8", "replace").decode()
    document, listed = (
        json.dumps({text: text, "list": [text], "map": {text: 1}}),
        json.dumps([{text: text, "name": text}, text]),
    )
    with closing(sqlite3.connect(database)) as rows, rows:
        for table in ATTACKED:
            columns = [row[1] for row in rows.execute(f"PRAGMA table_info({table})") if row[2] in ("VARCHAR", "TEXT")]
            for column in columns:
                end = "rowid" if column == "name" else "''"
                if column not in OWN:
                    rows.execute(f"UPDATE {table} SET {column} = ? || {end}", (plain,))
        rows.execute("UPDATE decisions SET seen = ?, alternatives = ?", (document, listed))
        told = [{"what": text, "value": text, "source": text}]
        rows.execute("UPDATE plans SET assumptions = ?", (json.dumps(told),))
        rows.execute("UPDATE recommendations SET details = ?", (json.dumps({"reason": text}),))
        for table in ("trials", "candidates", "rankings", "recommendations"):
            rows.execute(f"UPDATE {table} SET axes = ?", (json.dumps({text: text}),))


def first(database: Path, table: str) -> str:
    """Return the name of the first row of a table."""
    with closing(sqlite3.connect(database)) as rows:
        name: str = rows.execute(f"SELECT name FROM {table} ORDER BY id").fetchone()[0]
        return name


def named(database: Path, sweep: str) -> None:
    """Give the sweep a name."""
    with closing(sqlite3.connect(database)) as rows, rows:
        rows.execute("UPDATE sweeps SET name = ?", (sweep,))
