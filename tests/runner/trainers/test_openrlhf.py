"""What rlplan knows of OpenRLHF: its flags, its traps, and what our programs in it say. OpenRLHF is not needed."""

import json
import math
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import runner.trainers.openrlhf
from budgets.errors import InputError
from planner.recipes import load_recipe
from runner.ports.trial import Machine, TrialConfig
from runner.trainers.ability import degree
from runner.trainers.driver import Attempt
from runner.trainers.driving import opened_task
from runner.trainers.horizon import reaching
from runner.trainers.openrlhf.driver import OpenRlhfDriver
from runner.trainers.openrlhf.flags import flags_of, words
from runner.trainers.openrlhf.options import options_of
from runner.training.building import open_stream
from tests.runner.trainers.followed import attempt, strict, trial

DRIVER = OpenRlhfDriver()
START = Path(runner.trainers.openrlhf.__file__).with_name("start.py")


def flags(config: TrialConfig, start: Attempt) -> dict[str, Any]:
    return flags_of(config, opened_task(config), start, options_of(config))


def start_module() -> Any:
    spec = spec_from_file_location("openrlhf_start", START)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_warm_up_is_so_many_updates_although_openrlhf_knows_a_share_of_the_file_alone(tmp_path: Path) -> None:
    for steps in (0, 1, 7, 10, 320, 2000):
        config = trial("openrlhf", warmup_steps=steps)
        given = flags(config, attempt(tmp_path))
        rows = json.loads(DRIVER.launch(config, attempt(tmp_path), 0).files["run.json"])["order"]["rows"]
        updates = rows * given["rollout.n_samples_per_prompt"] // given["train.batch_size"]  # its prepare_datasets
        assert math.ceil(updates * given["actor.lr_warmup_ratio"]) == steps
    assert given["actor.lr_scheduler"] == "constant_with_warmup"


def test_neither_a_pause_nor_its_end_changes_the_file_the_order_or_the_rate(tmp_path: Path) -> None:
    config = trial("openrlhf")
    whole = json.loads(DRIVER.launch(config, attempt(tmp_path, to_step=40), 0).files["run.json"])
    checkpoint = tmp_path / "checkpoints/_actor/global_step6"
    resumed = DRIVER.launch(config, attempt(tmp_path, number=2, from_step=6, checkpoint=checkpoint), 0)
    part = json.loads(resumed.files["run.json"])

    assert part["order"] == whole["order"]
    assert [word for word in part["arguments"] if word != "--ckpt.load_enable"] == whole["arguments"]
    assert resumed.files["checkpoints/_actor/latest"] == "global_step6"  # what another attempt wrote does not count
    assert (part["from_step"], part["to_step"]) == (6, 6)


def test_the_prompts_come_in_the_order_that_the_builtin_trainer_has(tmp_path: Path) -> None:
    from runner.trainers.inside import ordered_problems

    config = trial("openrlhf", options={"horizon_steps": 30})
    run = json.loads(DRIVER.launch(config, attempt(tmp_path), 0).files["run.json"])

    assert ordered_problems(run) == open_stream(config, opened_task(config)).take(30 * config.prompts_per_batch)


def test_a_segment_beyond_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"step 31 lies beyond .*horizon_steps = 30"):
        DRIVER.launch(trial("openrlhf", options={"horizon_steps": 30}), attempt(tmp_path, to_step=31), 0)


def test_defaults_of_openrlhf_that_would_train_otherwise_are_set(tmp_path: Path) -> None:
    given = flags(trial("openrlhf"), attempt(tmp_path))

    assert given["algo.advantage.estimator"] == "dr_grpo"  # its own is gae, with a critic
    assert given["algo.kl.init_coef"] == 0.0  # its own puts a KL term into the reward
    assert given["eval.temperature"] == 1.0  # its own is 0.6
    assert given["ckpt.best_metric_key"] == "none"  # its own keeps one more checkpoint, by the score
    assert given["train.batch_size"] == 32  # one update for each batch of 8 · 4 rollouts
    assert given["train.num_episodes"] == 1
    assert "ckpt.load_enable" not in given


def test_several_updates_for_a_batch_are_one_of_its_steps(tmp_path: Path) -> None:
    config = trial("openrlhf", "gspo")
    given = flags(config, attempt(tmp_path))
    run = json.loads(DRIVER.launch(config, attempt(tmp_path, from_step=4, to_step=10), 0).files["run.json"])
    saved = tmp_path / "checkpoints/_actor/global_step3"
    saved.mkdir(parents=True)
    (saved / "complete.json").touch()

    assert (given["rollout.batch_size"], given["train.batch_size"]) == (32, 32)
    assert (run["from_step"], run["to_step"]) == (1, 3)
    assert [each.step for each in DRIVER.checkpoints(config, tmp_path)] == [12]


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [
        ("hard", {"actor.loss_agg_mode": "seq-mean-token-mean", "algo.advantage.is_correction_threshold": [0.0, 2.0]}),
        ("easy", {"algo.kl.use_loss": True, "algo.kl.estimator": "k3", "actor.entropy_coef": 1e-3}),
        ("gspo", {"actor.policy_loss_type": "gspo", "actor.eps_clip_low_high": [3e-4, 4e-4]}),
        ("dapo", {"algo.dynamic_filtering_enable": True, "actor.eps_clip_low_high": [0.2, 0.28]}),
    ],
)
def test_a_recipe_becomes_openrlhfs_flags(recipe: str, settings: dict[str, object], tmp_path: Path) -> None:
    config = trial("openrlhf", recipe)
    DRIVER.check(config)
    run = json.loads(DRIVER.launch(config, attempt(tmp_path), 0).files["run.json"])
    line = " ".join(run["arguments"])
    for part in (words({name: value}) for name, value in settings.items()):
        assert " ".join(part) in line


def test_what_it_does_otherwise_is_named_and_run_only_where_that_is_wanted() -> None:
    with pytest.raises(InputError, match=r"advantage.epsilon = 0.0001, but its is 1e-09.*--approximate"):
        DRIVER.check(strict(trial("openrlhf", "hard")))
    with pytest.raises(InputError, match=r"objective.clip = 'cispo', which it has not"):
        DRIVER.check(trial("openrlhf", "cispo"))
    DRIVER.check(strict(trial("openrlhf")))
    assert degree(DRIVER.differences(load_recipe("magistral"))) == "approximate"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"machine": Machine()}, "trains on GPUs, with vLLM"),
        ({"prompts_per_batch": 7, "rollouts_per_prompt": 3}, "n · B = 21 rollouts on 4 GPUs"),
        ({"options": {"vllm_gpus": 4}}, "vllm_gpus = 4 of 4 GPUs: at least one must train"),
        ({"options": {"tensor_parallel": 3}}, "tensor_parallel = 3: it must divide the 4 GPUs"),
        ({"options": {"settings": {"rollout.batch_size": 4}}}, "rollout.batch_size: rlplan sets that itself"),
        ({"options": {"horizon": 4}}, "unknown key 'horizon'"),
    ],
)
def test_what_cannot_be_run_is_refused(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        DRIVER.check(trial("openrlhf", **changes))


def test_vllm_has_gpus_of_its_own_where_that_is_wanted(tmp_path: Path) -> None:
    config = trial("openrlhf", options={"vllm_gpus": 2}, machine=Machine(gpus=8, device="cuda", engine="vllm"))
    given = flags(config, attempt(tmp_path))
    names = ("actor.num_nodes", "actor.num_gpus_per_node", "vllm.num_engines", "train.colocate_all")
    assert [given[name] for name in names] == [1, 6, 2, False]
    assert "--train.colocate_all" not in words(given)


def test_every_host_starts_a_node_of_the_trials_own_ray_and_the_head_alone_openrlhf(tmp_path: Path) -> None:
    config = trial("openrlhf", machine=Machine(gpus=4, nodes=2, device="cuda", engine="vllm"))
    head, other = (DRIVER.launch(config, attempt(tmp_path), rank) for rank in (0, 1))
    assert head is not None
    assert other is not None
    assert head.argv[-2:] == ("/opt/its/bin/python", "start.py")
    assert "start.py" not in other.argv
    assert other.environment["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert other.environment["PYTHONPATH"].startswith(str(tmp_path / "parts"))
    assert {"start.py", "agent.py", "parts/runner/trainers/rewarding.py", "problems.jsonl"} <= head.files.keys()


class Base:
    """OpenRLHF's trainer as far as it is derived from; tests/trainers_openrlhf has the real one."""

    def __init__(self, pretrain: str, strategy: Any, **generating: Any) -> None:
        self.args, self.loaded = strategy.args, strategy.setup_dataloader("data", 1, True, True, None)
        self.samples_generator = SimpleNamespace(generate_samples=lambda **_: ("more",), generate_eval_samples=answers)

    def init_checkpoint_states(self) -> dict[str, int]:
        return dict(self.args.stands)

    def save_logs_and_checkpoints(self, global_step: int, logs: Any = None, states: Any = None) -> None:
        if global_step % self.args.ckpt.save_steps == 0:
            (Path(self.args.ckpt.path) / "_actor" / f"global_step{global_step}").mkdir(parents=True)

    def evaluate(self, global_step: int, **generating: Any) -> dict[str, float]:
        self.samples_generator.generate_eval_samples(**generating)
        return {}


def answers(**asked: Any) -> list[Any]:
    assert asked["temperature"] == 1.0
    scores = {101: [1.0, 0.0], 100: [1.0, 1.0]}
    return [SimpleNamespace(labels=[str(n)], scores=[each]) for n, group in scores.items() for each in group]


def derived(tmp_path: Path, stands: dict[str, int], **run: Any) -> Any:
    given = {"from_step": 0, "to_step": 4, "metrics": "attempt-1.metrics.jsonl", "save_seconds": 600.0, **run}
    args = SimpleNamespace(
        stands=stands,
        eval=SimpleNamespace(steps=3, temperature=1.0, n_samples_per_prompt=2),
        ckpt=SimpleNamespace(path=str(tmp_path / "checkpoints"), save_steps=1),
    )
    strategy = SimpleNamespace(args=args, loads=lambda *given: given)
    strategy.setup_dataloader = strategy.loads
    return start_module().followed(Base, given, tmp_path)("model", strategy, temperature=0.7, max_len=20)


def test_the_base_model_is_scored_each_step_said_and_the_segments_end_saved(tmp_path: Path) -> None:
    trainer = derived(tmp_path, {"global_step": 0})
    trainer.init_checkpoint_states()
    for step in range(1, 5):
        assert trainer.samples_generator.generate_samples() == ("more",)
        logs = {"policy_loss": 0.5, "rollout/response_length_mean": 6.0, "timing/generation": 2.0, "kind": "text"}
        trainer.save_logs_and_checkpoints(step, logs, {})
        if step == 3:
            trainer.evaluate(step, temperature=1.0)
    assert trainer.samples_generator.generate_samples() == ([], None, 0, True)  # its end of the data

    config = trial("openrlhf")
    (source,) = DRIVER.sources(config, attempt(tmp_path))
    said = source.read()
    assert [(each.step, each.score, each.whole) for each in said] == [
        *[(0, None, False), (0, 0.75, True), (1, None, True), (2, None, True)],
        *[(3, None, False), (3, 0.75, True), (4, None, True)],
    ]
    assert said[1].score_standard_error == pytest.approx(0.25)  # of the problems' means, 1 and 1/2
    assert said[2].response_tokens == 6.0
    assert said[2].metrics == {"loss": 0.5}
    assert said[2].seconds["generate"] == 2.0
    assert [each.step for each in DRIVER.checkpoints(config, tmp_path)] == [4]
    assert trainer.loaded[3] is False  # shuffled by OpenRLHF, the order would be that of neither trial nor seed


def test_a_resumed_trainer_is_not_scored_again_and_one_that_stands_elsewhere_is_refused(tmp_path: Path) -> None:
    derived(tmp_path, {"global_step": 3}, from_step=3).init_checkpoint_states()
    (line,) = (tmp_path / "attempt-1.metrics.jsonl").read_text().splitlines()
    assert json.loads(line)["step"] == 3
    with pytest.raises(RuntimeError, match="rlplan checkpoint: it stands at step 0 instead of 3") as refused:
        derived(tmp_path, {}, from_step=3).init_checkpoint_states()
    kind, _ = DRIVER.classify(1, f"RuntimeError: {refused.value}\n") or ("", "")
    assert kind == "checkpoint"


def test_a_checkpoint_that_is_not_marked_is_torn(tmp_path: Path) -> None:
    for step in (2, 4):
        (tmp_path / f"checkpoints/_actor/global_step{step}").mkdir(parents=True)
    (tmp_path / "checkpoints/_actor/best_global_step4").mkdir()
    (tmp_path / "checkpoints/_actor/global_step2/complete.json").touch()
    assert [each.step for each in DRIVER.checkpoints(trial("openrlhf"), tmp_path)] == [2]


def test_a_prompt_is_shown_as_the_model_expects_it() -> None:
    text_of = start_module().text_of

    class Begins:
        chat_template, bos_token, bos_token_id = None, "<s>", 1

        def __call__(self, text: str) -> dict[str, list[int]]:
            return {"input_ids": [1, 5]}

    assert text_of(Begins(), "1+1=") == "<s>1+1="
    chat = SimpleNamespace(chat_template="t", apply_chat_template=lambda turns, **_: f"<{turns[0]['content']}>")
    assert text_of(chat, "1+1=") == "<1+1=>"
    with pytest.raises(SystemExit, match="rlplan input"):
        text_of(Begins(), [{"role": "user", "content": "1+1="}])


@pytest.mark.parametrize(("trainer", "changed"), [("openrlhf", True), ("skyrl", True), ("verl", False)])
def test_a_final_run_beyond_the_data_file_gets_a_longer_one(trainer: str, changed: bool) -> None:
    config = trial(trainer)
    assert reaching(config, 2000) is config
    longer = reaching(config, 2001)
    assert (longer != config) is changed
    assert (longer.trainer is not None and longer.trainer.options.get("horizon_steps") == 2001) is changed
