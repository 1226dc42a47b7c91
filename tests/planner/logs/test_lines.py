"""What a single line says: for drivers, which follow a log as it grows."""

import json
import math

import pytest

from planner.logs import areal, openrlhf, prime_rl, trl, verl
from planner.logs.lines import Said, pairs, plain
from planner.logs.names import OPENRLHF, PHASES, TRAINERS, VERL
from planner.logs.series import ours_of
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


def test_old_and_new_names_of_verl_are_the_same_to_us() -> None:
    old = verl.values_of(
        "step:3 - timing/gen:1.000 - timing/values:2.000 - timing/ref:4.000 - timing/update_actor:8.000"
    )
    new = verl.values_of("step:3 - timing_s/gen:1 - timing_s/values:2 - timing_s/ref:4 - timing_s/update_actor:8")
    assert old is not None
    assert new is not None
    expected = {"generate": 1.0, "logprob": 2.0, "reference": 4.0, "update": 8.0}
    assert ours_of(VERL, old[1])[1] == ours_of(VERL, new[1])[1] == expected


def test_verl_prints_the_validation_of_the_base_model_without_a_step() -> None:
    assert verl.values_of("\"Initial validation metrics: {'test_score/openai/gsm8k': 0.125}\"") == (
        0,
        {"val/test_score/openai/gsm8k": 0.125},
    )


def test_a_row_of_verls_file_logger() -> None:
    row = json.dumps({"step": 5, "data": {"critic/score/mean": 0.5, "note": "text"}})
    assert verl.values_of(row) == (5, {"critic/score/mean": 0.5})


@pytest.mark.parametrize("line", ["", "step:", "step:x - a:1", "no step:7 of this kind", '{"step": 5', "{'a': 1}"])
def test_other_lines_are_not_verls(line: str) -> None:
    assert verl.values_of(line) is None


def test_a_line_of_openrlhf_by_our_names() -> None:
    said = openrlhf.values_of(printed.OPENRLHF[0])
    assert said is not None
    values, seconds = ours_of(OPENRLHF, said[1])
    assert said[0] == 1
    assert values["reward"] == 0.2
    assert values["response_tokens"] == 90.0
    assert seconds == {"generate": 12.0, "logprob": 3.0, "update": 5.0, "sync": 1.0, "step": 21.0}


def test_an_evaluation_of_openrlhf_has_its_step_and_took_its_time() -> None:
    said = openrlhf.values_of(printed.OPENRLHF[1])
    assert said is not None
    assert (said[0], said[1]["eval_math_pass1"]) == (1, 0.31)
    assert ours_of(OPENRLHF, said[1])[1] == {"validation": 65.0}


@pytest.mark.parametrize(("line", "step"), [(printed.TRL[2], None), (printed.TRL[6], None)])
def test_a_dictionary_of_trl_names_no_step(line: str, step: int | None) -> None:
    said = trl.values_of(line)
    assert said is not None
    assert said[0] is step
    assert said[1]["reward"] in (0.25, 0.5)


@pytest.mark.parametrize("line", ["{'train_runtime': 61.2, 'train_loss': 0.1}", "{'name': 'x'}", "{'a': 1}", "loss 1"])
def test_other_dictionaries_are_not_trls(line: str) -> None:
    assert trl.values_of(line) is None


def test_tables_of_areal() -> None:
    assert areal.values_of(printed.AREAL[0]) == (1, {})
    assert areal.values_of(printed.AREAL[3]) is None
    assert areal.values_of(printed.AREAL[4]) == (None, {"ppo_actor/update/grad_norm": 0.5, "timeperf/rollout": 12.5})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"step": 3, "time": 17.5, "optim/lr": 1e-6, "name": "x"}', (3, {"time": 17.5, "optim/lr": 1e-6})),
        ('{"step": 3.0, "a": NaN', None),
        ('{"step": 2.5, "a": 1}', None),
        ("[1]", None),
    ],
)
def test_rows_of_prime_rl(line: str, said: Said | None) -> None:
    assert prime_rl.values_of(line) == said


def test_prefixes_colours_and_remarks_on_repetition_are_no_part_of_a_line() -> None:
    line = (
        "\x1b[2m\x1b[36m(main_task pid=1, ip=10.0.0.1)\x1b[0m a:1 \x1b[32m [repeated 3x across cluster] (Ray …)\x1b[0m"
    )
    assert plain(line) == "a:1"


def test_pairs_of_a_printed_dictionary() -> None:
    text = "{'a': 1, \"b\": -2.5e-3, 'c': [1, 2], 'd': 'text', 'e': np.float32(3.0), 'f': inf, 'g': '4', 'h': 12"
    assert pairs(text) == {"a": 1.0, "b": -0.0025, "e": 3.0, "f": math.inf, "g": 4.0}


def test_every_phase_of_every_trainer_is_one_of_ours() -> None:
    for names in TRAINERS.values():
        assert set(names.seconds) <= {*PHASES, "step"}
        assert names.validation
        assert names.values["reward"]
        assert names.values["response_tokens"]
