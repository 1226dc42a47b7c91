"""The choice alone, without all that explains it: for who has to choose often."""

from planner.recommending.equivalent import TIE, settle
from planner.recommending.facts import Facts, require_choice
from planner.recommending.prospect import Prospect
from planner.sweeping.joint import Joint
from planner.view import Configuration


def choose(joint: Joint, facts: Facts, target_gpu_hours: float, tie: float = TIE) -> Configuration:
    """Return the configuration that `answer` would choose, and raise what it would raise."""
    require_choice(facts, target_gpu_hours)
    prospect = Prospect.of(joint, facts, target_gpu_hours)
    return prospect.configurations[settle(prospect, prospect.rung(0), tie).row]
