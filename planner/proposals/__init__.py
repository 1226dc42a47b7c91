"""Proposals: the priced and ranked grid, the pilot plan, and what published studies let one expect."""

from planner.proposals.proposal import Candidate, Layout, OtherBudget, PriceSensitivity, Proposal
from planner.proposals.propose import propose
from planner.proposals.request import (
    GapToFirst,
    LearningRateRule,
    PilotGrant,
    PricedCell,
    Request,
    StudyWeight,
    Variant,
)

__all__ = [
    "Candidate",
    "GapToFirst",
    "Layout",
    "LearningRateRule",
    "OtherBudget",
    "PilotGrant",
    "PriceSensitivity",
    "PricedCell",
    "Proposal",
    "Request",
    "StudyWeight",
    "Variant",
    "propose",
]
