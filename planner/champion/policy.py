"""The policy `champion`: it trains the champion, looks, tries challengers where that pays, and says who goes on."""

from collections.abc import Sequence

from planner.sweeping.actions import Action
from planner.view import View


class ChampionPolicy:
    """Trains the champion to its first look, then challengers one after the other while a look at one is worth it."""

    name = "champion"

    def decide(self, view: View) -> Sequence[Action]:
        """Return what to do now."""
        raise NotImplementedError
