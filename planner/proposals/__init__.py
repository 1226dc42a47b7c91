"""Proposals: the priced and ranked grid, the pilot plan, and what published studies let one expect."""

from planner.proposals.proposal import Candidate, Deadline, Doubt, Layout, Outlook, Proposal, Sharing
from planner.proposals.propose import propose
from planner.proposals.request import (
    GridBounds,
    Ground,
    LearningRateRule,
    PilotGrant,
    PilotRules,
    PricedCell,
    Request,
    Standing,
    Variant,
)

__all__ = [
    "Candidate",
    "Deadline",
    "Doubt",
    "GridBounds",
    "Ground",
    "Layout",
    "LearningRateRule",
    "Outlook",
    "PilotGrant",
    "PilotRules",
    "PricedCell",
    "Proposal",
    "Request",
    "Sharing",
    "Standing",
    "Variant",
    "propose",
]
