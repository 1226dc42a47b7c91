"""What a single line says: for drivers, which follow a log as it grows."""

import math
from collections.abc import Callable

import pytest

from planner.logs.consoles import StepValues, areal_values, openrlhf_values, prime_rl_values, trl_values, verl_values
from tests.planner.logs import printed

LOGGED = '{"step": 3, "time": 17.5, "optim/lr": 1e-6, "name": "x"}'


@pytest.mark.parametrize(
    ("values_of", "line", "said"),
    [
        (verl_values, "\"Initial validation metrics: {'test_score/x': 0.125}\"", (0, {"val/test_score/x": 0.125})),
        (
            verl_values,
            "\x1b[36m(TaskRunner pid=1, ip=10.0.0.1)\x1b[0m step:2 - actor/lr:1e-06 - actor/grad_norm:np.float64(0.75)"
            "\x1b[32m [repeated 3x across cluster] (Ray …)\x1b[0m",
            (2, {"actor/lr": 1e-6, "actor/grad_norm": 0.75}),
        ),
        (
            verl_values,
            '{"step": 5, "data": {"critic/score/mean": 0.5, "note": "text"}}',
            (5, {"critic/score/mean": 0.5}),
        ),
        *((verl_values, line, None) for line in ("", "step:", "step:x - a:1", "no step:7 of this kind", '{"step": 5')),
        (verl_values, f"step:{'9' * 5000} - a:1", None),  # no number of a step
        (verl_values, '{"step": 1e300, "data": {"a": 1}}', None),
        (verl_values, f'{{"step": 5, "data": {{"a": 1, "b": 1{"0" * 400}}}}}', (5, {"a": 1})),
        (openrlhf_values, f"Global step {'9' * 400}: {{'a': 1}}", None),
        (
            openrlhf_values,
            "Evaluation completed in 1 day, 0:01:05, global_step 1, eval_metrics: {'a': 1}",
            (1, {"a": 1, "evaluation_seconds": 86_465}),
        ),
        (openrlhf_values, "INFO Eval at step 20: {'eval_math_pass1': 0.25}", (20, {"eval_math_pass1": 0.25})),
        (
            trl_values,
            "{'loss': '0.002', \"a\": -2.5e-3, 'b': [1, 2], 'c': 'text', 'd': np.float32(3.0), 'e': inf, 'f': 12",
            (None, {"loss": 0.002, "a": -0.0025, "d": 3.0, "e": math.inf}),
        ),
        *((trl_values, line, None) for line in ("{'train_runtime': 61.2, 'train_loss': 0.1}", "{'a': 1}", "loss 1")),
        (areal_values, printed.AREAL[0], (1, {})),
        (areal_values, printed.AREAL[3], None),
        (areal_values, printed.AREAL[4], (None, {"ppo_actor/update/grad_norm": 0.5, "timeperf/rollout": 12.5})),
        (prime_rl_values, LOGGED, (3, {"time": 17.5, "optim/lr": 1e-6})),
        *((prime_rl_values, line, None) for line in ('{"step": 3.0, "a": NaN', '{"step": 2.5, "a": 1}', "[1]")),
    ],
)
def test_a_line_says_its_numbers_or_nothing(
    values_of: Callable[[str], StepValues | None], line: str, said: StepValues | None
) -> None:
    assert values_of(line) == said
