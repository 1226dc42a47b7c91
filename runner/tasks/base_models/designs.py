"""What each embedded task's model is taught, and the pass rate that it has to end with."""

from collections.abc import Mapping
from dataclasses import dataclass

from runner.tasks.base_models.mistakes import Habit


@dataclass(frozen=True, slots=True)
class Design:
    """Two lessons: right answers until the model can add, then answers with mistakes until they are a habit."""

    habit: Habit
    pass_rates: tuple[float, float]  # the band in which the mean over the train problems has to lie
    able_at: float  # expected pass rate that ends the first lesson
    habit_steps: int
    most_steps: int = 8000  # of the first lesson
    batch: int = 128
    learning_rate: float = 2e-3
    habit_learning_rate: float = 1e-3
    seed: int = 0


DESIGNS: Mapping[str, Design] = {
    "sum-easy": Design(Habit(forgotten_carry=0.25, slipped_digit=0.12), (0.3, 0.6), able_at=0.95, habit_steps=200),
    "sum-hard": Design(Habit(forgotten_carry=0.6, slipped_digit=0.4), (0.02, 0.0625), able_at=0.95, habit_steps=200),
    "sum-steps": Design(
        Habit(forgotten_carry=0.2, slipped_digit=0.08, rambling=0.08), (0.3, 0.4), able_at=0.95, habit_steps=200
    ),
}
