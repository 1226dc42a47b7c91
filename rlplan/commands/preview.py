"""`rlplan preview`: simulate the sweep of a plan before a GPU-hour is spent."""

from typing import Annotated

import typer

from rlplan.commands.options import (
    DatabaseOption,
    FormatOption,
    LearnFromOption,
    PlanArgument,
    PolicyOption,
    SeedOption,
    whole,
)
from rlplan.wording.formats import DEFAULT_DATABASE, Format


def preview(
    plan: PlanArgument = None,
    policy: PolicyOption = "rlplan",
    draws: Annotated[int | None, whole("--draws", "Worlds to draw; as many as fit into 12 s without this.")] = None,
    pilot_fractions: Annotated[
        str, typer.Option(metavar="<float>,…", help="Shares of the budget for pilots that are compared; 0: none.")
    ] = "0,0.05,0.1,0.2,0.4",
    learn_from: LearnFromOption = None,
    seed: SeedOption = 0,
    db: DatabaseOption = DEFAULT_DATABASE,
    format: FormatOption = Format.TABLE,
) -> None:
    """Simulate the sweep of a plan: expected regret, spend and wall time for several shares of pilots.

    Example: rlplan preview plan-1 --pilot-fractions 0,0.05,0.1,0.2 --draws 100
    """
    from rlplan.actions.previewing import PreviewRequest  # noqa: PLC0415
    from rlplan.actions.previewing import preview as run  # noqa: PLC0415
    from rlplan.printing.preview_output import print_preview  # noqa: PLC0415
    from rlplan.wording.typed_numbers import plain_number  # noqa: PLC0415

    request = PreviewRequest(
        plan=plan,
        policy=policy,
        draws=draws,
        fractions=tuple(plain_number(text, "--pilot-fractions") for text in pilot_fractions.split(",")),
        seed=seed,
        learn_from=None if learn_from is None else tuple(learn_from),
    )
    print_preview(run(request, db), format)
