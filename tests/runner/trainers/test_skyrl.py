"""What rlplan knows of SkyRL: its keys, its traps, and what our program in it says. SkyRL is not needed."""

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import runner.trainers.skyrl
from budgets.errors import InputError
from runner.ports.trial import Machine, TaskChoice, TrialConfig
from runner.trainers.driver import Attempt
from runner.trainers.driving import opened_task
from runner.trainers.skyrl.driver import SkyRlDriver
from runner.trainers.skyrl.keys import keys_of, overrides
from runner.trainers.skyrl.options import SkyRlOptions
from tests.runner.trainers.followed import attempt, strict, trial

DRIVER = SkyRlDriver()
START = Path(runner.trainers.skyrl.__file__).with_name("start.py")


def keys(config: TrialConfig, start: Attempt, **options: Any) -> dict[str, Any]:
    return keys_of(config, opened_task(config), start, SkyRlOptions(**options))


def start_module() -> Any:
    spec = spec_from_file_location("skyrl_start", START)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_resumed_trial_is_not_scored_again_and_goes_on_from_the_checkpoint_that_was_chosen(tmp_path: Path) -> None:
    config = trial("skyrl")
    checkpoint = tmp_path / "checkpoints/global_step_6"
    fresh = keys(config, attempt(tmp_path))
    later = keys(config, attempt(tmp_path, from_step=6, to_step=12, checkpoint=checkpoint))

    assert (fresh["trainer.eval_before_train"], fresh["trainer.resume_mode"]) == (True, "none")
    assert (later["trainer.eval_before_train"], later["trainer.resume_mode"]) == (False, "from_path")
    assert later["trainer.resume_path"] == str(checkpoint)
    names = ("max_training_steps", "eval_before_train", "resume_mode", "resume_path")
    changed = {f"trainer.{name}" for name in names}
    assert {name for name in fresh if fresh[name] != later[name]} == changed  # nothing else depends on the segment


def test_defaults_of_skyrl_that_would_train_otherwise_are_set(tmp_path: Path) -> None:
    given = keys(trial("skyrl"), attempt(tmp_path))

    assert given["trainer.policy_mini_batch_size"] == given["trainer.train_batch_size"] == 8  # one update for a batch
    assert given["trainer.algorithm.use_kl_loss"] is False  # its own is a term of 0.001
    assert given["trainer.policy.optimizer_config.weight_decay"] == 0.0  # its own is 0.01
    assert given["generator.eval_sampling_params.temperature"] == 1.0  # its own is 0
    assert given["generator.batched"] is True  # else it does not leave out groups without signal
    assert given["data.dataloader.num_workers"] == 0
    assert given["trainer.logger"] == "console"  # its own wants an account
    assert given["trainer.ckpt_interval"] > 2000  # it saves at a segment's end anyway


def test_several_updates_for_a_batch_are_one_of_its_steps(tmp_path: Path) -> None:
    config = trial("skyrl", "gspo")
    start = attempt(tmp_path, from_step=4, to_step=10)
    given = keys(config, start)
    launch = DRIVER.launch(config, start, 0)
    assert launch is not None

    assert (given["trainer.train_batch_size"], given["trainer.policy_mini_batch_size"]) == (32, 8)
    assert given["trainer.max_training_steps"] == 3
    assert json.loads(launch.files["run.json"])["from_step"] == 1
    assert launch.files["checkpoints/latest_ckpt_global_step.txt"] == "1"


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [
        ("grpo", {"use_kl_loss": True, "kl_loss_coef": 0.04, "loss_reduction": "sequence_mean"}),
        ("dr-grpo", {"grpo_norm_by_std": False, "loss_reduction": "seq_mean_token_sum_norm", "max_seq_len": 6}),
        ("hard", {"off_policy_correction.tis_ratio_type": "token"}),
        ("gspo", {"policy_loss_type": "gspo", "eps_clip_low": 3e-4}),
        ("cispo", {"policy_loss_type": "cispo", "cispo.cispo_eps_clip_low": 1.0, "cispo.cispo_eps_clip_high": 4.0}),
        ("dapo", {"dynamic_sampling.type": "filter", "eps_clip_high": 0.28, "loss_reduction": "token_mean"}),
        ("minimax", {"loss_reduction": "prompt_mean", "zero_variance_filter": True}),
    ],
)
def test_a_recipe_becomes_skyrls_keys(recipe: str, settings: dict[str, object], tmp_path: Path) -> None:
    config = trial("skyrl", recipe)
    DRIVER.check(config)
    given = keys(config, attempt(tmp_path))
    assert {name: given[f"trainer.algorithm.{name}"] for name in settings} == settings


def test_what_it_does_otherwise_is_named_and_run_only_where_that_is_wanted() -> None:
    with pytest.raises(InputError, match=r"rewards.overlong_share = 0.2, but a reward of it.*--approximate"):
        DRIVER.check(strict(trial("skyrl", "dapo")))
    DRIVER.check(strict(trial("skyrl")))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"machine": Machine()}, "SkyRL trains on GPUs, with vLLM"),
        ({"options": {"settings": {"trainer.seed": 4}}}, r"trainer.seed: rlplan sets that itself"),
        ({"options": {"held": 4}}, "unknown key 'held'"),
        ({"task": TaskChoice(name="sum-eazy")}, "did you mean 'sum-easy'"),
    ],
)
def test_what_cannot_be_run_is_refused(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        DRIVER.check(trial("skyrl", **changes))


def test_values_are_written_as_its_command_line_reads_them() -> None:
    given = {"a": True, "b": None, "c": 1e-05, "d": [0.9, 0.95], "e": "/tmp/x y"}
    assert overrides(given) == ["a=true", "b=null", "c=1e-05", "d=[0.9, 0.95]", 'e="/tmp/x y"']


def test_what_lies_beyond_its_tracker_is_torn(tmp_path: Path) -> None:
    for step in (2, 4, 6):
        path = tmp_path / f"checkpoints/global_step_{step}"
        path.mkdir(parents=True)
        for name in ("trainer_state.pt", "data.pt")[: 1 if step == 2 else 2]:
            (path / name).touch()
    (tmp_path / "checkpoints/latest_ckpt_global_step.txt").write_text("4")
    assert [each.step for each in DRIVER.checkpoints(trial("skyrl"), tmp_path)] == [4]


class Callback:
    """SkyRL's base of callbacks; tests/trainers_skyrl has the real one."""


def test_each_step_is_said_and_a_scored_one_with_every_samples_score(tmp_path: Path) -> None:
    run = {"from_step": 0, "metrics": "attempt-1.metrics.jsonl", "save_seconds": 0.0}
    called = start_module().follower(Callback, run, tmp_path)()
    exports = SimpleNamespace(cfg=SimpleNamespace(trainer=SimpleNamespace(export_path=str(tmp_path / "exports"))))
    dumped(tmp_path, 0, {100: [1.0, 0.0], 101: [1.0, 1.0]})
    control = SimpleNamespace(should_save=False)

    called.on_train_start(exports, SimpleNamespace(global_step=0), control)
    called.on_log(exports, SimpleNamespace(global_step=0, logs={"eval/all/avg_score": 0.75}), control)
    logs = {"policy/final_loss": 0.5, "generate/avg_num_tokens": 6.0, "timing/generate": 2.0, "kind": "text"}
    called.on_step_end(exports, SimpleNamespace(global_step=1), control)
    called.on_log(exports, SimpleNamespace(global_step=1, logs=logs), control)

    (source,) = DRIVER.sources(trial("skyrl"), attempt(tmp_path))
    stands, scored, trained = source.read()
    assert (stands.step, stands.score, dict(stands.metrics)) == (0, None, {})
    assert (scored.score, scored.score_standard_error) == (0.75, pytest.approx(0.25))
    assert (trained.step, trained.response_tokens, trained.whole) == (1, 6.0, True)
    assert trained.metrics == {"loss": 0.5}
    assert trained.seconds == {"generate": 2.0}
    assert control.should_save


def test_a_trainer_that_stands_elsewhere_is_refused(tmp_path: Path) -> None:
    called = start_module().follower(Callback, {"from_step": 3, "metrics": "m", "save_seconds": 1.0}, tmp_path)()
    with pytest.raises(RuntimeError, match="it stands at step 0 instead of 3") as refused:
        called.on_train_start(None, SimpleNamespace(global_step=0), None)
    kind, _ = DRIVER.classify(1, f"ray.exceptions.RayTaskError: RuntimeError: {refused.value}\n") or ("", "")
    assert kind == "checkpoint"


def dumped(folder: Path, step: int, groups: dict[int, list[float]]) -> None:
    path = folder / f"exports/dumped_evals/global_step_{step}_evals/rlplan.jsonl"
    path.parent.mkdir(parents=True)
    rows = [{"score": [0.0, score], "env_extras": {"number": n}} for n, group in groups.items() for score in group]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
