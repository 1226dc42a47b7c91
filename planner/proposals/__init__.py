"""Proposals: the priced and ranked grid, the pilot plan, and what published studies let one expect."""

from planner.proposals.propose import propose
from planner.proposals.request import (
    Candidate,
    GridBounds,
    Ground,
    LearningRateRule,
    NarrowerTrial,
    Outlook,
    PilotGrant,
    PilotRules,
    PricedCell,
    Proposal,
    Request,
    ScoreInterval,
    Sharing,
    Standing,
    Variant,
)

__all__ = [
    "Candidate",
    "GridBounds",
    "Ground",
    "LearningRateRule",
    "NarrowerTrial",
    "Outlook",
    "PilotGrant",
    "PilotRules",
    "PricedCell",
    "Proposal",
    "Request",
    "ScoreInterval",
    "Sharing",
    "Standing",
    "Variant",
    "propose",
]
