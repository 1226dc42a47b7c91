"""What a single line says: for drivers, which follow a log as it grows."""

import math
from collections.abc import Callable

import pytest

from planner.logs import prime_rl, verl
from planner.logs.formats import areal_values, openrlhf_values, trl_values
from planner.logs.lines import Said, pairs, plain
from tests.planner.logs import printed


def test_a_line_of_verl_says_its_step_and_all_its_numbers() -> None:
    said = verl.values_of(printed.VERL[6])
    assert said is not None
    step, values = said
    assert step == 2
    assert values["val-core/openai/gsm8k/reward/mean@4"] == 0.4
    assert values["actor/pg_loss"] == 1e-5
    assert math.isnan(values["actor/grad_norm"])
    assert values["timing_s/step"] == 21.0
    assert len(values) == 12


LOGGED = '{"step": 3, "time": 17.5, "optim/lr": 1e-6, "name": "x"}'


@pytest.mark.parametrize(
    ("values_of", "line", "said"),
    [
        (verl.values_of, "\"Initial validation metrics: {'test_score/x': 0.125}\"", (0, {"val/test_score/x": 0.125})),
        (
            verl.values_of,
            '{"step": 5, "data": {"critic/score/mean": 0.5, "note": "text"}}',
            (5, {"critic/score/mean": 0.5}),
        ),
        *(
            (verl.values_of, line, None)
            for line in ("", "step:", "step:x - a:1", "no step:7 of this kind", '{"step": 5')
        ),
        (
            openrlhf_values,
            "Evaluation completed in 1 day, 0:01:05, global_step 1, eval_metrics: {'a': 1}",
            (1, {"a": 1, "evaluation_seconds": 86_465}),
        ),
        (trl_values, "{'loss': '0.002', 'reward': '0.5'}", (None, {"loss": 0.002, "reward": 0.5})),
        *((trl_values, line, None) for line in ("{'train_runtime': 61.2, 'train_loss': 0.1}", "{'a': 1}", "loss 1")),
        (areal_values, printed.AREAL[0], (1, {})),
        (areal_values, printed.AREAL[3], None),
        (areal_values, printed.AREAL[4], (None, {"ppo_actor/update/grad_norm": 0.5, "timeperf/rollout": 12.5})),
        (prime_rl.values_of, LOGGED, (3, {"time": 17.5, "optim/lr": 1e-6})),
        *((prime_rl.values_of, line, None) for line in ('{"step": 3.0, "a": NaN', '{"step": 2.5, "a": 1}', "[1]")),
    ],
)
def test_a_line_says_its_numbers_or_nothing(
    values_of: Callable[[str], Said | None], line: str, said: Said | None
) -> None:
    assert values_of(line) == said


def test_prefixes_colours_and_remarks_on_repetition_are_no_part_of_a_line() -> None:
    line = (
        "\x1b[2m\x1b[36m(main_task pid=1, ip=10.0.0.1)\x1b[0m a:1 \x1b[32m [repeated 3x across cluster] (Ray …)\x1b[0m"
    )
    assert plain(line) == "a:1"


def test_pairs_of_a_printed_dictionary() -> None:
    text = "{'a': 1, \"b\": -2.5e-3, 'c': [1, 2], 'd': 'text', 'e': np.float32(3.0), 'f': inf, 'g': '4', 'h': 12"
    assert pairs(text) == {"a": 1.0, "b": -0.0025, "e": 3.0, "f": math.inf, "g": 4.0}
