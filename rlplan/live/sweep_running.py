"""Runs a sweep with its screen and its interrupts, whichever command began it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from rlplan.actions.train_signals import Interrupts
from rlplan.live.sweep_display import choose_display
from rlplan.live.sweep_following import Follower
from rlplan.printing.sweep_output import print_finished, stopped
from rlplan.wording.formats import Format
from rlplan.wording.terminal import tell

if TYPE_CHECKING:
    from rlplan.actions.sweeping import Finished

Began = Callable[[str], None]
WATCH_SECONDS = 0.2


def run_sweep(drive: "Callable[..., Finished]", database: str, format: Format) -> int:
    """Drive a sweep while its screen follows it, print what came of it, and return the exit code."""
    return print_finished(followed(drive, database), database, format)


def followed(drive: "Callable[..., Finished]", database: str) -> "Finished":
    """Drive a sweep while its screen follows it, and return how far it went.

    Until the sweep is stored an interrupt ends everything at once; from then on the first lets what runs be saved.
    """
    named: list[str] = []
    display = choose_display()
    try:
        with Interrupts() as interrupts, Follower(database, display) as follower:

            def began(sweep: str) -> None:
                named.append(sweep)
                interrupts.announce = display.stopping
                interrupts.patient = True
                follower.begin(sweep)

            return drive(interrupts=interrupts, began=began)
    except KeyboardInterrupt:
        if named:
            tell(stopped(named[-1], database))
        raise


def watch(database: str, sweep: str) -> None:
    """Follow a sweep that another process drives, until it rests or the user has seen enough."""
    try:
        with Follower(database, choose_display()) as follower:
            follower.begin(sweep)
            while not follower.at_rest.wait(WATCH_SECONDS):
                pass
    except KeyboardInterrupt:
        return
