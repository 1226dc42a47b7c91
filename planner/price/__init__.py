"""What one configuration costs a step, what limits it, and what one change would do; pure."""

from planner.price.step import Change, PhasePrice, Price, PriceQuery, changes, price

__all__ = ["Change", "PhasePrice", "Price", "PriceQuery", "changes", "price"]
