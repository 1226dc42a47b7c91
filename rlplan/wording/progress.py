"""A bar on stderr for what takes its time, where there is a terminal to draw it on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rlplan.wording.terminal import live_console

Progress = Callable[[float], None]  # told how much is done


@contextmanager
def progress_shown(what: str, total: float) -> Iterator[Progress]:
    """Show how much of the total is done while the context lasts."""
    console = live_console()
    if console is None:
        yield lambda _done: None
        return
    from rich.progress import Progress as Bar  # noqa: PLC0415

    with Bar(console=console, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)
