"""`rlplan check`: a script as people have it, its answer on one screen and as data, and its copy with changes."""

import re
from pathlib import Path

import pytest

import rlplan
from rlplan.actions.script_copy import _in_tables, _in_words
from tests.planner.scripts.test_forks import FORKS
from tests.rlplan.conftest import Run
from tests.rlplan.test_screens import check, next_of

SCRIPT = """\
#!/bin/bash
# one node
MODEL=${MODEL:-Qwen/Qwen2.5-7B}
python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo \\
    data.train_files=data/gsm8k/train.parquet \\
    data.train_batch_size=256 \\
    data.max_prompt_length=512 \\
    data.max_response_length=4096 \\
    actor_rollout_ref.model.path=$MODEL \\
    actor_rollout_ref.actor.optim.lr=1e-6 \\
    actor_rollout_ref.actor.ppo_mini_batch_size=64 \\
    actor_rollout_ref.rollout.n=2 \\
    trainer.n_gpus_per_node=8 \\
    trainer.nnodes=1 \\
    trainer.save_freq=20 \\
    trainer.test_freq=5 \\
    trainer.total_epochs=5
"""
SOUND = SCRIPT.replace("rollout.n=2", "rollout.n=8").replace("save_freq=20", "save_freq=50")
KNOWN = ("--mean-response-tokens", "3400", "--gpu", "h100", "--pass-rate", "0.18")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "run_grpo.sh"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


def test_a_screen_ends_with_what_works_and_a_sound_script_with_0(run: Run, script: Path) -> None:
    ran = run("check", script.name, *KNOWN)
    check(ran.out)
    assert not Path("rlplan.db").exists()
    assert [run(*words[1:]).code for words in next_of(ran.out)] == [5, 0]
    script.write_text(SOUND)
    ran = run("check", script.name, "--mean-response-tokens", "600", "--pass-rate", "0.4")
    assert (ran.code, "No red flag." in ran.out) == (0, True)
    check(ran.out)


def test_python_has_the_answer_of_the_command(run: Run, script: Path) -> None:
    document = run("check", script.name, *KNOWN, "--budget", "500", "--format", "json").json
    answer = rlplan.check(script.name, budget=500, mean_response_tokens=3400, gpu="h100", pass_rate=0.18)
    assert answer.to_dict() == document


@pytest.mark.parametrize(
    ("files", "prompts"),
    [("$HOME/data/gsm8k/train.parquet", 7473), ("\"['$DATA/gsm8k/train.parquet','$DATA/math/train.parquet']\"", 14973)],
)
def test_a_data_set_is_known_by_its_name_wherever_it_lies(run: Run, script: Path, files: str, prompts: int) -> None:
    script.write_text(SCRIPT.replace("data/gsm8k/train.parquet", files))

    assert run("check", script.name, *KNOWN, "--format", "json").json["steps"] == 5 * prompts // 256


def test_fix_writes_a_copy_in_which_the_values_of_keys_differ_alone(run: Run, script: Path) -> None:
    ran = run("check", script.name, *KNOWN, "--fix")

    copy = script.with_name("run_grpo.checked.sh").read_text()
    assert script.read_text() == SCRIPT
    pairs = zip(SCRIPT.splitlines(), copy.splitlines(), strict=True)
    differing = [(old.strip(" \\"), new.strip(" \\")) for old, new in pairs if old != new]
    changed = ["data.max_response_length=4096", "actor_rollout_ref.rollout.n=2", "trainer.test_freq=5"]
    assert [old for old, _ in differing] == changed
    assert all(old.partition("=")[0] == new.partition("=")[0] for old, new in differing)
    check(ran.out)
    again = run(*next_of(ran.out)[0][1:])
    assert "cut off at" not in again.out
    script.with_name("run_grpo.checked.sh").write_text("mine")
    assert (kept := run("check", script.name, *KNOWN, "--fix")).code == 2, kept.err


def test_what_a_script_does_not_say_is_asked_for_or_guessed_and_said(run: Run, script: Path) -> None:
    assert "Guessed: h100 (--gpu), a pass rate" in run("check", script.name).out
    script.write_text(SCRIPT.replace("Qwen/Qwen2.5-7B", "corp/secret-12b"))
    refused = run("check", script.name)
    assert (refused.code, "--model" in refused.err) == (2, True)
    assert run("check", script.name, "--model", "qwen2.5-14b", *KNOWN).code == 5
    assert run("check", "nothing.sh").code == 3


@pytest.mark.parametrize(
    ("replaced", "by", "said"),
    [
        ("MODEL=${MODEL:-Qwen/Qwen2.5-7B}", "", "no model (actor_rollout_ref.model.path=$MODEL is set by nobody)"),
        ("rollout.n=2", "rollout.n_agent=1", "1 rollout of each prompt (actor_rollout_ref.rollout.n_agent)"),
        ("actor_rollout_ref.rollout.n=2", "", "1 rollout of each prompt (as verl does by itself): PPO with a critic"),
    ],
)
def test_what_cannot_be_checked_is_refused_with_what_the_script_says(
    run: Run, script: Path, replaced: str, by: str, said: str
) -> None:
    script.write_text(SCRIPT.replace(replaced, by))
    refused = run("check", script.name)
    assert (refused.code, said in refused.err) == (2, True), refused.err


def test_a_response_beyond_the_context_that_the_catalogue_has_is_a_longer_variant_s(run: Run, script: Path) -> None:
    script.write_text(SOUND.replace("max_response_length=4096", "max_response_length=160000"))
    ran = run("check", script.name, "--mean-response-tokens", "9000", "--format", "json")
    assert (ran.code, ran.json["response_tokens"]) == (0, 160_000), ran.err


TRL = """\
from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig(
    learning_rate=1e-6,
    per_device_train_batch_size=8,
    gradient_accumulation_steps=4,
    num_generations=2,
    max_completion_length=2048,
    eval_strategy="steps",
    eval_steps=10,
    save_strategy="no",
    max_steps=500,
)
trainer = GRPOTrainer(
    model="Qwen/Qwen2.5-1.5B", args=args, reward_funcs=len, train_dataset=load_dataset("openai/gsm8k", split="train")
)
trainer.train(resume_from_checkpoint=True)
"""
OPENRLHF = """\
python3 -m openrlhf.cli.train_ppo_ray --actor_num_gpus_per_node 8 --vllm_num_engines 4 --colocate_all_models \\
   --vllm_tensor_parallel_size 2 --pretrain Qwen/Qwen2.5-7B --prompt_data data/gsm8k/train.jsonl --num_episodes 2 \\
   --rollout_batch_size 64 --n_samples_per_prompt 8 --train_batch_size 100 --micro_train_batch_size 1 \\
   --generate_max_len 4096 --prompt_max_len 512 --save_steps 1 --eval_steps 1 --advantage_estimator group_norm
"""
VERL = SCRIPT.replace("ppo_mini_batch_size=64", "ppo_mini_batch_size=100").replace("    trainer.save_freq=20 \\\n", "")
ALL_WRONG = VERL.replace("lr=1e-6", "lr=1e-4").replace("test_freq=5", "test_freq=1 trainer.save_freq=1")


@pytest.mark.parametrize(
    ("name", "text", "names"),
    [
        ("run.py", TRL, {"dead", "resume", "data"}),
        ("run.py", TRL.replace("num_generations=2", "num_generations=7"), {"sizes", "resume", "data"}),
        ("run.py", TRL.replace("learning_rate=1e-6", "learning_rate=1e-4"), {"rate", "dead", "resume", "data"}),
        ("run.sh", OPENRLHF, {"sizes", "saving", "data"}),
        ("run.sh", VERL, {"sizes", "dead", "saves", "validation"}),
        ("run.sh", ALL_WRONG, {"sizes", "rate", "dead", "saving", "validation"}),
    ],
)
def test_fix_leaves_a_script_that_check_accepts(
    run: Run, tmp_path: Path, name: str, text: str, names: set[str]
) -> None:
    (tmp_path / name).write_text(text)
    flags = ("--gpu", "h100", "--gpus", "8", "--mean-response-tokens", "900", "--pass-rate", "0.3")
    before = run("check", name, *flags, "--fix", "--format", "json")
    assert {flag["name"] for flag in before.json["red_flags"]} == names
    copy = tmp_path / name.replace(".", ".checked.")
    assert before.json["fixed"]["paths"] == [copy.name]

    after = run("check", copy.name, *flags, "--format", "json")
    assert (after.code, after.json["red_flags"]) == (0, []), copy.read_text()


def test_the_worse_a_script_is_the_more_is_said_of_what_is_wrong_and_what_is_left_out_is_counted(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "run.sh").write_text(ALL_WRONG)
    ran = run("check", "run.sh", *KNOWN)
    check(ran.out)
    lines = ran.out.splitlines()
    document = run("check", "run.sh", *KNOWN, "--format", "json").json
    said = " ".join(" ".join(lines).split())
    assert all(flag["why"] in said for flag in document["red_flags"])
    assert lines[1].startswith("!")
    facts = len(run("check", "run.sh", *KNOWN, "--format", "csv").out.splitlines()) - 1
    shown = sum(line.startswith(("Fits", "A step", "The run", "Score", "Responses", "Dead groups")) for line in lines)
    assert f"{facts - shown} facts" in said
    assert "more: --explain." in said


@pytest.mark.parametrize(("script", "flagged"), [("slow_rate.sh", True), ("good_rate.sh", False)])
def test_the_demo_s_script_is_checked_on_its_task(run: Run, script: str, flagged: bool) -> None:
    path = Path(__file__).parents[2] / "examples" / "sum_hard" / script
    document = run("check", str(path), "--task", "sum-hard", "--format", "json").json

    assert document["model"] == "tiny-sums"
    assert ("rate" in [flag["name"] for flag in document["red_flags"]]) == flagged
    rates = [each["after"] for each in document["changes"] if each["name"] == "learning_rate"]
    assert rates == ([pytest.approx(document["rule_learning_rate"], rel=0.05)] if flagged else [])
    assert "--task" in run("check", str(path)).err


def test_nothing_in_a_script_is_executed(run: Run, script: Path, tmp_path: Path) -> None:
    script.write_text(SCRIPT.replace("# one node", "X=$(touch hacked) ; `touch hacked`"))
    assert run("check", script.name, *KNOWN).code == 5
    assert not (tmp_path / "hacked").exists()


def test_fits_answers_for_memory_alone(run: Run) -> None:
    large = run("fits", "qwen2.5-72b", "--gpus", "8", "--gpu", "h100")
    assert (large.code, "does not fit" in large.out) == (5, True)
    check(large.out)
    document = run("fits", "qwen2.5-72b", "--gpus", "8", "--gpu", "h100", "--lora-rank", "32", "--format", "json").json
    assert document["fits"]
    assert document["fewest_by_gpu"]["h100"] == document["memory"]["fewest_gpus"] <= 8


def test_a_plan_takes_the_workload_of_a_script_and_stands_beside_its_n_and_b(run: Run, script: Path) -> None:
    plan = run(
        "propose", "--budget", "800", "--from", str(script), "--mean-response-tokens", "3400", "--format", "json"
    ).json
    assert (plan["workload"]["model"], plan["workload"]["response_tokens"]) == ("qwen2.5-7b", 4096)
    assert plan["hardware"]["gpus"] == 8
    assert [each["asked"] for each in plan["baselines"]] == [{"rollouts_per_prompt": 2, "prompts_per_batch": 64}]
    same = rlplan.propose(budget=800, script=script, mean_response_tokens=3400)
    assert same.to_dict()["candidates"] == plan["candidates"]
    of_task = run.json("propose", "--budget", "0.3", "--from", str(script), "--task", "sum-easy")
    assert of_task["workload"]["model"] == "tiny-sums"  # the script has the champion, the task all else
    champion = of_task["champion"]
    assert (champion["rollouts_per_prompt"], champion["prompts_per_batch"]) == (2, 64)


def test_a_plan_expects_the_responses_that_the_check_of_its_script_does(run: Run, script: Path) -> None:
    script.write_text(SCRIPT.replace("Qwen/Qwen2.5-7B", "/models/Qwen2.5-7B-Instruct"))
    checked, plan = (
        run(*command, str(script), "--format", "json").json
        for command in (["check"], ["propose", "--budget", "800", "--from"])
    )
    assert plan["workload"]["mean_response_tokens"] == checked["mean_response_tokens"]
    sources = [each["source"] for found in (checked, plan) for each in found["assumptions"]]
    assert sum(each.startswith("expected of an instruct model within × 3.") for each in sources) == 2


N = "actor_rollout_ref.rollout.n"


@pytest.mark.parametrize(
    ("line", "key", "changed"),
    [
        (f"    {N}=5 \\", N, f"    {N}=8 \\"),
        (f'    "{N}=${{N:-5}}" \\', N, f'    "{N}=8" \\'),
        (f"    +{N}=$((2 * N)) # often 5", N, f"    +{N}=8 # often 5"),
        ("python train.py --num_generations 5 --x 1", "num_generations", "python train.py --num_generations 8 --x 1"),
        ("--num-generations=5", "num_generations", "--num-generations=8"),
        (
            "args = GRPOConfig(num_generations=5, beta=0.0)",
            "num_generations",
            "args = GRPOConfig(num_generations=8, beta=0.0)",
        ),
        (f"# {N}=5", N, None),
        ("my_num_generations=5", "num_generations", None),
    ],
)
def test_a_value_is_changed_where_it_stands_in_a_script(line: str, key: str, changed: str | None) -> None:
    around = "set -x\n{}\necho done\n"
    assert _in_words(around.format(line), key, "8") == (None if changed is None else around.format(changed))


def test_the_last_of_several_counts() -> None:
    assert _in_words(f"{N}=4\n{N}=5\n", N, "8") == f"{N}=4\n{N}=8\n"


def test_in_tables() -> None:
    toml = "[orchestrator]\nbatch_size = 64\n[orchestrator.train]\nbatch_size = 128  # rollouts\n"
    yaml = "grpo:\n  # how many\n  num_generations: 16 # of each\n  other:\n    num_generations: 2\nseed: 1\n"

    assert _in_tables(toml, "orchestrator.train.batch_size", "256") == toml.replace("128", "256")
    assert _in_tables(yaml, "grpo.num_generations", "32") == yaml.replace("16", "32")
    assert _in_tables(yaml, "grpo.seed", "2") is None


AGENTIC = SCRIPT.replace("rollout.n=2", "rollout.n=8").rstrip() + " actor_rollout_ref.agent.max_turns=6\n"


def test_the_first_screen_has_turns_the_trainer_s_defaults_and_ends_with_a_plan_around_the_script(
    run: Run, script: Path
) -> None:
    script.write_text(AGENTIC.replace("actor_rollout_ref.actor.optim.lr=1e-6", ""))
    ran = run("check", script.name, *KNOWN)
    check(ran.out)
    without = re.search(r"Turns +3.6 of up to 6; (\d+) s a step without 1 s of tools", ran.out)
    assert without is not None
    priced = run("check", script.name, *KNOWN, "--format", "json").json["seconds_per_step"]["median"]
    assert 3 <= priced - float(without[1]) < 20
    assert "Not in the script, verl's own: learning rate = 1e-6." in ran.out
    plan = next(words for words in next_of(ran.out) if words[1] == "propose")
    document = run(*plan[1:], "--format", "json").json
    assert document["champion"]["rollouts_per_prompt"] == 8
    assert run("check", script.name, *KNOWN, "--format", "json").json["turns"] == 6


@pytest.mark.parametrize(
    ("fork", "turns"),
    [
        ("verl-agent", "6 of up to 10, at most 300 tokens each"),
        ("verl-agent with env.max_steps=300", "180 of up to 300, at most 300 tokens each"),
        ("search-r1", "1.8 of up to 3, at most 300 tokens each, tools answer up to 200"),
        ("skyrl", "2.4 of up to 4, at most 500 tokens each"),
        ("nemo-rl", "30 of up to 50"),
    ],
)
def test_the_first_screen_of_an_agentic_script_has_its_turns_and_the_price_without_tools(
    fork: str, turns: str, run: Run, tmp_path: Path
) -> None:
    trainer, _, longer = fork.partition(" with ")
    name, text, _, _ = FORKS[trainer]
    (tmp_path / name).write_text(f"{text.replace('org/m', 'Qwen/Qwen2.5-3B-Instruct').rstrip()} {longer}\n")
    ran = run("check", name)
    check(ran.out)
    found = re.search(rf"Turns +{turns}; ([\d,]+) s a step without 1 s of tools", " ".join(ran.out.split()))
    assert found is not None, ran.out
    with_tools = run("check", name, "--format", "json").json["seconds_per_step"]["median"]
    assert with_tools > float(found[1].replace(",", ""))


def test_images_are_tokens_of_the_prompt_and_cost_what_the_encoder_takes(run: Run, script: Path) -> None:
    def seconds(pixels: int) -> float:
        text = SOUND.replace("Qwen2.5-7B", "Qwen2.5-VL-7B-Instruct").rstrip()
        script.write_text(f"{text} +data.max_pixels={pixels}\n")
        return float(run("check", script.name, "--format", "json").json["seconds_per_step"]["median"])

    few, many = seconds(78_400), seconds(235_200)
    assert "300 of the 556 tokens of a prompt" in run("check", script.name).out
    assert many > 1.1 * few


@pytest.mark.parametrize(
    "word",
    [
        "+data.apply_chat_template_kwargs.enable_thinking=False",
        "+rllm.disable_thinking=True",
        "++data.chat_template=templates/qwen3_no_think.jinja",
        "+data.system_prompt='Answer. /no_think'",
    ],
)
def test_a_template_that_keeps_a_model_from_thinking_makes_its_answers_short(word: str, run: Run, script: Path) -> None:
    script.write_text(SOUND.replace("Qwen2.5-7B", "Qwen3-8B").rstrip() + f" {word}\n")
    assert "tokens on average, without thinking" in " ".join(run("check", script.name).out.split())
    silenced = run("check", script.name, "--format", "json").json["mean_response_tokens"]
    script.write_text(script.read_text().replace(word, ""))
    thinking = run("check", script.name, "--format", "json").json["mean_response_tokens"]
    assert (silenced < 800, thinking > 2000) == (True, True)


def test_a_price_that_no_budget_has_is_a_doubt_and_no_red_flag(run: Run, script: Path) -> None:
    script.write_text(SOUND.rstrip() + " trainer.total_training_steps=7000000 trainer.total_epochs=1000000\n")
    ran = run("check", script.name, "--mean-response-tokens", "600", "--pass-rate", "0.4", "--prompts", "9000000")
    assert ran.code == 0, ran.out
    assert "a limit that is never reached, or misread" in " ".join(ran.out.split())
