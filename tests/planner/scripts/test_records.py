"""What runs did, step by step."""

from pathlib import Path

import pytest

from budgets.errors import InputError
from planner.scripts.records import Step, gpu_hours, progress_of, read_run, timed
from tests.planner.curves.reading_samples import events, jsonl
from tests.planner.logs import printed
from tests.planner.logs.printed import log


def test_a_run_of_verl(tmp_path: Path) -> None:
    run = read_run(log(tmp_path / "run.log", printed.VERL))
    assert (run.trainer, run.score, run.problems, run.samples) == (
        "verl",
        "val-core/openai/gsm8k/reward/mean@4",
        "gsm8k",
        4,
    )
    assert [(each.step, each.score) for each in run.steps] == [(0, 0.25), (1, None), (2, 0.4)]
    assert [each.took for each in run.steps[1:]] == [20.0, 28.0]  # a validation lies outside of verl's step
    assert run.steps[1].seconds == {
        "generate": 10.5,
        "reward": 1.0,
        "logprob": 2.0,
        "reference": 1.5,
        "update": 4.0,
        "step": 20.0,
    }
    assert run.typical("response_tokens") == 125.5
    assert run.phases()["generate"] == 11.0


@pytest.mark.parametrize(
    ("timed", "took"),
    [
        ("timing/step:37.5 - timing/testing:20.0 - timing/save_checkpoint:7.0", 37.5),  # as its first versions timed
        ("timing_s/step:10.5 - timing_s/testing:20.0 - timing_s/save_checkpoint:7.0", 37.5),
        ("timing_s/step:17.5 - timing_s/testing:20.0 - timing_s/save_checkpoint:7.0", 37.5),  # 0.9: it saves within
    ],
)
def test_a_validation_counts_once_whether_or_not_verls_step_holds_it(tmp_path: Path, timed: str, took: float) -> None:
    line = f"step:1 - timing_s/gen:5.0 - timing_s/update_actor:5.0 - val-core/x/acc/mean@1:0.1 - {timed}"
    (step,) = read_run(log(tmp_path / "run.log", [line])).steps
    assert step.took == took


def test_updates_that_are_counted_from_0(tmp_path: Path) -> None:
    lines = [
        "\"Initial validation metrics: {'test_score/openai/gsm8k': 0.1}\"",
        "step:0 - timing/gen:5.000 - timing/update_actor:5.000 - critic/score/mean:0.100",
        "step:1 - timing/gen:5.000 - timing/update_actor:5.000 - timing/testing:2 - val/test_score/openai/gsm8k:0.2",
        "step:2 - timing/gen:5.000 - timing/update_actor:5.000 - critic/score/mean:0.300",
        "step:3 - timing/gen:5.000 - timing/update_actor:5.000 - val/test_score/openai/gsm8k:0.300",
    ]
    run = read_run(log(tmp_path / "run.log", lines))
    assert [(each.step, each.score) for each in run.scores] == [(0, 0.1), (2, 0.2), (4, 0.3)]
    assert [each.took for each in run.steps[1:]] == [10.0, 12.0, 10.0, 10.0]
    assert run.last_step == 4


def test_prime_rls_two_files_are_one_run(tmp_path: Path) -> None:
    orchestrator = [
        {"step": s, "time": 100.0 + 10 * s, "progress/total_rollouts": 64 * s, "time/step": 10.0} for s in range(1, 6)
    ]
    orchestrator += [{"step": s, "time": 105.0 + 10 * s, "eval/aime/all/solver/avg@4": s / 10} for s in (1, 3, 5)]
    trainer = [{"step": s, "time": 108.0 + 10 * s, "optim/lr": 1e-6, "time/forward_backward": 4.0} for s in range(1, 6)]
    jsonl(tmp_path / "orchestrator" / "metrics.jsonl", sorted(orchestrator, key=lambda row: row["time"]))
    jsonl(tmp_path / "trainer" / "metrics.jsonl", trainer)
    run = read_run(tmp_path)
    assert (run.trainer, run.problems, run.samples, run.last_step) == ("prime-rl", "aime", 4, 5)
    assert [(each.step, each.score) for each in run.scores] == [(1, 0.1), (3, 0.3), (5, 0.5)]
    assert run.phases() == {"update": 4.0, "step": 10.0}


def test_a_step_whose_phases_overlap_takes_no_longer_than_it_was_timed(tmp_path: Path) -> None:
    generator = [{"step": s, "progress/total_rollouts": 64 * s, "time/generate_completions": 33.0} for s in (1, 2)]
    trainer = [{"step": s, "time/step": 35.0, "time/forward_backward": 30.0, "optim/lr": 1e-6} for s in (1, 2)]
    jsonl(tmp_path / "orchestrator" / "metrics.jsonl", generator)
    jsonl(tmp_path / "trainer" / "metrics.jsonl", trainer)
    run = read_run(tmp_path)
    assert [each.took for each in run.steps] == [35.0, 35.0]
    assert run.phases() == {"generate": 33.0, "update": 30.0, "step": 35.0}


def test_the_clock_serves_where_nothing_is_timed(tmp_path: Path) -> None:
    scalars = [(1000.0 + 30 * step, step, "rollout/raw_reward", 0.1) for step in range(1, 5)]
    scalars += [(1001.0 + 30 * step, step, "eval/aime", step / 10) for step in range(2, 5)]
    run = read_run(events(tmp_path / "run", scalars))
    assert run.trainer == "slime"
    assert sum(each.took or 0.0 for each in run.steps) == pytest.approx(120.0, abs=2)


def test_trackers_put_the_names_of_some_trainers_into_folders(tmp_path: Path) -> None:
    scalars = [(1000.0 + 30 * step, step, "train/timing/step_total", 20.0) for step in (1, 2, 3)]
    scalars += [(1001.0 + 30 * step, step, "train/response_length", 500.0) for step in (1, 2, 3)]
    scalars += [(1002.0 + 30 * step, step, "eval/eval_math_pass1", step / 4) for step in (1, 2, 3)]
    run = read_run(events(tmp_path / "run", sorted(scalars)))
    assert (run.trainer, run.problems, run.typical("response_tokens")) == ("openrlhf", "math", 500.0)
    assert [(each.score, each.took) for each in run.steps] == [(0.25, 20.0), (0.5, 20.0), (0.75, 20.0)]


def test_the_history_that_is_downloaded_from_a_tracker(tmp_path: Path) -> None:
    rows = [{"_step": s, "_timestamp": 50.0 + 9 * s, "val-core/x/acc/mean@1": s / 10} for s in (1, 2, 3)]
    run = read_run(jsonl(tmp_path / "history.jsonl", rows))
    assert [(each.step, each.score) for each in run.steps] == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert [each.took for each in run.steps] == [9.0, 9.0, 9.0]


def test_runs_without_any_time_take_what_one_says(tmp_path: Path) -> None:
    lines = [f"step:{step} - val-core/x/acc/mean@1:0.{step}" for step in (2, 4, 6)]
    run = read_run(log(tmp_path / "run.log", lines))
    assert [each.took for each in run.steps] == [None, None, None]
    assert gpu_hours(timed(run, 36.0).steps, 8) == pytest.approx([0.16, 0.32, 0.48])


def test_a_base_validation_that_was_timed_says_nothing_of_updates(tmp_path: Path) -> None:
    lines = ["step:0 - timing_s/testing:30.0 - val-core/x/acc/mean@1:0.1"]
    run = read_run(log(tmp_path / "run.log", [*lines, *(f"step:{s} - val-core/x/acc/mean@1:0.2" for s in (2, 4))]))
    assert [each.took for each in timed(run, 36.0).steps] == [30.0, 72.0, 72.0]


def test_a_run_that_began_again_is_taken_at_its_newest(tmp_path: Path) -> None:
    lines = [f"step:{s} - val-core/x/acc/mean@1:0.1 - timing_s/step:10.0" for s in range(1, 7)]
    lines += [f"step:{s} - val-core/x/acc/mean@1:0.2 - timing_s/step:20.0" for s in range(4, 9)]
    run = read_run(log(tmp_path / "run.log", lines))
    assert [(each.step, each.score) for each in run.steps] == [(s, 0.1 if s < 4 else 0.2) for s in range(1, 9)]
    assert any("restarted at step 4" in note for note in run.notes)


def test_a_reward_of_training_is_no_score_unless_it_is_asked_for(tmp_path: Path) -> None:
    path = log(tmp_path / "run.log", [f"step:{step} - critic/score/mean:0.{step}" for step in (1, 2, 3)])
    run = read_run(path)
    assert (run.score, run.scores, run.others) == (None, [], ("critic/score/mean",))
    asked = read_run(path, ["eval_reward", "critic/score/mean"])
    assert [each.score for each in asked.steps] == [0.1, 0.2, 0.3]


def test_several_sets_of_problems_are_for_a_person_to_choose_from(tmp_path: Path) -> None:
    lines = [f"step:{step} - val-core/a/acc/mean@1:0.1 - val-core/b/acc/mean@1:0.2" for step in (1, 2)]
    path = log(tmp_path / "run.log", lines)
    with pytest.raises(InputError, match=r"val-core/a/acc/mean@1, val-core/b/acc/mean@1\. Choose one with --score"):
        read_run(path)
    assert read_run(path, ["val-core/b/acc/mean@1"]).problems == "b"


def test_time_and_cost_go_on_as_the_newest_steps_do_and_the_best_is_named() -> None:
    early = [Step(step, None, {}, 200.0, {"zero_variance_share": 1.0}) for step in range(1, 11)]
    late = [Step(step, 0.5 if step != 20 else 0.7, {}, 90.0, {"zero_variance_share": 0.4}) for step in range(11, 31)]
    found = progress_of([*early, *late], 50, 8, 2.0)
    assert found is not None
    assert (found.step, found.best, found.now, found.dead_groups) == (30, (20, 0.7), (30, 0.5), 0.4)
    assert (found.seconds, found.seconds_per_step, found.seconds_left) == (3800.0, 90.0, 1800.0)
    assert found.gpu_hours == (3800 * 8 / 3600, 5600 * 8 / 3600)


def test_what_no_log_says_is_not_made_up() -> None:
    found = progress_of([Step(1, None, {}, None, {})], None, 8)
    assert found is not None
    assert (found.seconds_per_step, found.seconds_left, found.gpu_hours, found.best) == (None, None, None, None)
    assert progress_of([Step(0, 0.2, {}, None, {})], None) is None
