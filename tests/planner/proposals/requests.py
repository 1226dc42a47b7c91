"""Requests for the proposal tests, with the few values that a test wants to vary."""

from budgets import catalogue
from budgets.hardware import Hardware
from budgets.lengths import ResponseLengths
from budgets.signal import DIFFICULTIES, PassRates
from budgets.workload import Validation, Workload
from planner.proposals import Request
from planner.recipes import load_recipe
from planner.rules import GridBounds, PilotRules


def request(
    budget: float = 5000.0,
    *,
    model: str = "qwen3-8b",
    gpu: str = "h100",
    gpus: int = 64,
    gpus_per_trial: int | None = None,
    difficulty: str = "easy",
    recipe: str = "easy",
    response_tokens: int = 8192,
    prompt_set_size: int = 6000,
    pass_rates: PassRates | None = None,
    grid: GridBounds | None = None,
    pilots: PilotRules | None = None,
) -> Request:
    return Request(
        budget_gpu_hours=budget,
        workload=Workload(
            model=catalogue.model(model),
            prompt_tokens=256,
            responses=ResponseLengths(0.4 * response_tokens, response_tokens, 0.6),
            prompt_set_size=prompt_set_size,
            pass_rates=pass_rates or DIFFICULTIES[difficulty],
            validation=Validation(300, 4, 10),
        ),
        hardware=Hardware(catalogue.gpu(gpu), gpus, gpus_per_trial or gpus),
        traits=load_recipe(recipe).traits(),
        difficulty=difficulty,
        grid=grid or GridBounds(),
        pilots=pilots or PilotRules(fraction=0.2),
    )
