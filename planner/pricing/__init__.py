"""What one configuration costs a step, what limits it, and what one change would do; pure."""

from planner.pricing.one import Asked, Change, PhasePrice, Price, changes, price

__all__ = ["Asked", "Change", "PhasePrice", "Price", "changes", "price"]
