"""Proposals: the priced and ranked grid, the pilot plan, and what published studies let one expect."""

from planner.proposals.propose import propose
from planner.proposals.request import (
    Candidate,
    GridBounds,
    LearningRateRule,
    NarrowerTrial,
    Outlook,
    PilotGrant,
    PilotRules,
    PricedCell,
    Proposal,
    Request,
    ScoreInterval,
    Variant,
)

__all__ = [
    "Candidate",
    "GridBounds",
    "LearningRateRule",
    "NarrowerTrial",
    "Outlook",
    "PilotGrant",
    "PilotRules",
    "PricedCell",
    "Proposal",
    "Request",
    "ScoreInterval",
    "Variant",
    "propose",
]
