"""Whole logs of consoles, as `rlplan fit` reads them."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets.errors import InputError
from planner.curves.files import read_curves, read_table
from planner.curves.files.formats import table_of_printed
from planner.curves.files.table import rows_of
from planner.logs.consoles import (
    Printed,
    StepValues,
    areal_values,
    openrlhf_values,
    prime_rl_values,
    read_printed,
    trl_values,
    verl_values,
)
from tests.planner.curves.reading_samples import jsonl, noted, only, points, write
from tests.planner.logs import printed
from tests.planner.logs.printed import log


@pytest.mark.parametrize(
    ("lines", "trainer", "score", "expected"),
    [
        (printed.VERL, "verl", "val-core/openai/gsm8k/reward/mean@4", [(0, 0.25), (2, 0.4)]),
        (printed.OPENRLHF, "openrlhf", "eval_math_pass1", [(1, 0.31), (2, 0.36)]),
        (
            [  # the asynchronous one says a validation after later updates
                *(f"Global step {step}: {{'policy_loss': 0.1, 'timing/ppo_train': 1.0}}" for step in range(1, 5)),
                *(f"Eval at step {step}: {{'eval_math_pass1': 0.{step}}}" for step in (1, 3)),
            ],
            "openrlhf",
            "eval_math_pass1",
            [(1, 0.1), (3, 0.3)],
        ),
        (printed.TRL, "trl", "eval_rewards/accuracy/mean", [(2, 0.2), (4, 0.4)]),
        (printed.AREAL, "areal", "eval-rollout/reward", [(1, 0.3), (2, 0.4)]),
    ],
)
def test_a_console_is_read_without_flags(
    tmp_path: Path, lines: list[str], trainer: str, score: str, expected: list[tuple[int, float]]
) -> None:
    curve = only(log(tmp_path / "run.log", lines))
    assert points(curve) == expected
    assert curve.y_name == score
    assert noted(curve, f"printed by {trainer}")
    assert noted(curve, f"the score is '{score}', the validation of {trainer}")
    (table,) = read_table(tmp_path / "run.log")
    assert table.trainer == trainer


def test_training_reward_serves_where_nothing_was_validated_and_the_note_warns(tmp_path: Path) -> None:
    lines = [f"step:{step} - critic/score/mean:{step / 10} - timing_s/gen:1.0" for step in (1, 2, 3)]
    curve = only(log(tmp_path / "run.log", lines))
    assert points(curve) == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert noted(curve, "training reward of verl, as its log has no validation: over repeated epochs it also rises")
    path = log(tmp_path / "validated.log", printed.VERL)
    assert noted(only(path), "--y chooses another: critic/score/mean")
    assert points(only(path, y="critic/score/mean")) == [(1, 0.3), (2, 0.35)]


def test_bytes_of_no_text_are_survived(tmp_path: Path) -> None:
    text = "".join(f"{line}\n" for line in printed.VERL).encode()
    path = tmp_path / "run.log"
    path.write_bytes(b"\xff\xfe\x00 binary \x80\n" + text.replace(b"some warning", b"\x00\xff\xc3"))
    assert points(only(path)) == [(0, 0.25), (2, 0.4)]
    rows = jsonl(tmp_path / "m.jsonl", [{"step": s, "data": {"val-core/x/acc/mean@1": s / 10}} for s in range(20)])
    rows.write_bytes(rows.read_bytes() + b'\x00\x00\xff{"step": 20, "da')
    curve = only(rows)
    assert curve.y.size == 20
    assert noted(curve, "1 broken line left out")


def test_each_set_of_validation_problems_is_a_curve(tmp_path: Path) -> None:
    scores = "val/test_score/openai/gsm8k:0.{0} - val/test_score/lighteval/MATH:0.1{0}"
    lines = [f"step:{step} - timing/gen:1.000 - {scores.format(step)}" for step in (1, 2)]
    curves = {curve.name: points(curve) for curve in read_curves(log(tmp_path / "run.log", lines))}
    assert curves == {"run/openai/gsm8k": [(1, 0.1), (2, 0.2)], "run/lighteval/MATH": [(1, 0.11), (2, 0.12)]}


def test_the_log_alone_in_a_folder_is_read(tmp_path: Path) -> None:
    log(tmp_path / "run" / "verl.log", printed.VERL)
    write(tmp_path / "run" / "notes.txt", "a few words\n")
    assert points(only(tmp_path / "run")) == [(0, 0.25), (2, 0.4)]
    log(tmp_path / "run" / "again.log", printed.VERL)
    with pytest.raises(InputError, match=r"several logs: again\.log, verl\.log; give one"):
        read_curves(tmp_path / "run")


def rows_in(printed: Printed) -> list[dict[str, float]]:
    table = table_of_printed(printed, "run")
    return list(rows_of(table, list(table.columns)))


@given(st.integers(0, 10_000), st.sampled_from([printed.VERL, printed.OPENRLHF, printed.TRL, printed.AREAL]))
def test_a_log_cut_off_anywhere_says_nothing_that_the_whole_one_does_not(
    tmp_path_factory: pytest.TempPathFactory, cut: int, lines: list[str]
) -> None:
    path = tmp_path_factory.mktemp("cut") / "run.log"
    whole = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(whole)
    full = read_printed(path)
    assert full is not None
    said = [row.items() for row in rows_in(full)]
    path.write_bytes(whole[: cut % len(whole)])
    torn = read_printed(path)
    for row in rows_in(torn)[:-1] if torn is not None else []:
        assert any(row.items() <= each or str(row) == str(dict(each)) for each in said)


def test_steps_that_no_bar_says_are_counted(tmp_path: Path) -> None:
    lines = [f"{{'loss': 0.1, 'reward': {step / 10}, 'rewards/acc/mean': 0.5}}" for step in (1, 2, 3)]
    curve = only(log(tmp_path / "run.log", lines))
    assert points(curve) == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert noted(curve, "3 lines name no step: counted one by one")


def test_a_restarted_trl_goes_back_with_its_bar(tmp_path: Path) -> None:
    def attempt(steps: range) -> list[str]:
        return [f"\r 5%| | {s}/40 [00:01<00:10]\n{{'loss': 0.1, 'reward': 0.5, 'rewards/a/mean': 0.5}}" for s in steps]

    rows = read_printed(log(tmp_path / "run.log", [*attempt(range(1, 6)), *attempt(range(3, 8))]))
    assert rows is not None
    assert [row["step"] for row in rows_in(rows)] == [1, 2, 3, 4, 5, 3, 4, 5, 6, 7]


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
