"""What each section of the page shows, ready for its template."""

from rlplan.web.sections import answer, budget, curves, decisions, frontier, health, heat, ranking

__all__ = ["answer", "budget", "curves", "decisions", "frontier", "health", "heat", "ranking"]
