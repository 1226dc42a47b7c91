"""A sweep's pilots, its final run, or the rest of it: a program for tests that kill it and what it starts."""

import sys
from dataclasses import replace
from pathlib import Path

from rlplan.actions.final_run import launch
from rlplan.actions.interrupts import Interrupts
from rlplan.actions.sweeping import go_on, start
from rlplan.requests.run import LaunchRequest, ResumeRequest
from tests.faults.sweeper import SIMULATION, request

VALIDATIONS = 12


def main(what: str, database: str) -> int:
    """Run until the end or an interrupt, and return the exit code that the command line would."""
    with Interrupts() as interrupts:

        def began(_: str) -> None:
            interrupts.patient = True

        if what == "pilots":
            pilots = request(Path(database), SIMULATION, None)
            # What the pilots leave over pays for what is lost of the final run, which has a twentieth.
            short = {**(pilots.further or {}), "pilot.fraction": ("", 0.95), "pilot.most_pilots": ("", 2)}
            asked = replace(pilots, budget=0.1, further=short, db=database)
            ended = start(asked, interrupts=interrupts, began=began)
        elif what == "launch":
            ended = launch(LaunchRequest(validations=VALIDATIONS, db=database), interrupts=interrupts, began=began)
        else:
            ended = go_on(ResumeRequest(db=database), interrupts=interrupts, began=began)
    return 130 if ended.interrupted else 5 if ended.failed_trials else 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
