"""How an object shows itself in a notebook: a sentence and a plain table, everything escaped."""

from collections.abc import Iterable, Sequence
from html import escape


def page_part(heading: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, hidden: int = 0) -> str:
    """Return a heading, a table, and a line that says how many rows are not shown."""
    head = "".join(f"<th>{escape(each)}</th>" for each in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(each)}</td>" for each in row) + "</tr>" for row in rows)
    more = f"<p>… and {hidden:,} more</p>" if hidden > 0 else ""
    return (
        f"<div><p>{escape(heading)}</p>"
        f'<table class="dataframe"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}</div>'
    )
