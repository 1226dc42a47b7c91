"""Where trials are shown beside rlplan's own pages: the `[tracking]` section of the file."""

from typing import Annotated, Literal

from pydantic import Field

from planner.checking import Section

TRACKERS = ("trackio", "mlflow", "wandb")


class TrackingSection(Section):
    """Which experiment tracker gets a copy of every trial, whoever trains it; its own variables say where it is."""

    to: Literal["trackio", "mlflow", "wandb"] | None = Field(
        None, examples=["mlflow"], description=f"one of {', '.join(TRACKERS)}; without it, none"
    )
    project: Annotated[str, Field(pattern=r"^[\w.-]+$")] = Field(
        "rlplan", description="the tracker's project, or MLflow's experiment"
    )
