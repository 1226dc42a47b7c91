"""Final runs on a real Ray by our own trainer: from a pilot's checkpoint, of a plan's row, stopped and resumed."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from planner.store import open_store
from planner.store.finals import Final
from planner.store.read_model import sweep_snapshot
from planner.store.schema import Point, Trial
from runner.training import checkpoints
from tests.rlplan.conftest import Run
from tests.rlplan.stored_rows import spent_of

pytestmark = pytest.mark.soak
COMMAND = str(Path(sys.executable).with_name("rlplan"))
FINAL = Path("rlplan-sweeps/sweep-1-final")
SMALL = "[validation]\nproblems = 16\nsamples = 2\n[pilot]\nfraction = 0.0\n"
OWN = """
[workload]
model = "model"
prompt_tokens = 4
response_tokens = 4
[hardware]
gpu = "cpu"
gpus = 1
gpus_per_trial = 1
"""
REWARD = """
calls = 0

def score(problem: dict, response: str) -> float:
    global calls
    calls += 1
    if calls == 40:  # in the first update, which can do without one
        raise ValueError("not this one")
    return float(response.strip().endswith(problem["answer"]))
"""


def launched(run: Run, *further: str) -> dict[str, Any]:
    document: dict[str, Any] = run.json("launch", "--validations", "5", *further)["final"]
    return document


def test_our_own_trainer_goes_on_from_the_pilot_and_keeps_its_best_checkpoint(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("sweep", "--task", "sum-easy", "--budget", "0.03", "--workers", "1").code == 0
    final = launched(run)
    assert final["status"] == "finished"
    assert isinstance(final["best_folder"], str)
    assert checkpoints.exists(Path(final["best_folder"]))
    with open_store("rlplan.db", read_only=True) as store, store.read() as session:
        row = session.query(Final).one()
        trial = session.query(Trial).filter(Trial.sweep_id == row.sweep_id).one()
        of_pilot, own = (
            {point.optimizer_step: point.score for point in session.query(Point).filter(Point.trial_id == number)}
            for number in (row.from_trial_id, trial.id)
        )
        assert row.from_step > 0
        assert of_pilot.items() <= own.items()
        assert max(own) > row.from_step
        assert sweep_snapshot(session, "sweep-1-final").segments[trial.id][0].charged_gpu_hours == 0.0
    assert spent_of("rlplan.db") > 0


def rlplan(folder: Path, *args: str) -> dict[str, Any]:
    """Run a command in a process of its own: torch keeps its threads from the other tests."""
    words = [COMMAND, *args, "--format", "json"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def metrics(folder: Path) -> list[dict[str, Any]]:
    """Return what the final run has written of its updates."""
    (path,) = (folder / FINAL).glob("n*/metrics.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_row_of_a_plan_is_stopped_and_resumed_and_every_metric_of_it_is_explained(tmp_path: Path) -> None:
    (tmp_path / "rlplan.toml").write_text(SMALL)
    rlplan(tmp_path, "propose", "--task", "sum-easy", "--budget", "0.02")
    words = [COMMAND, "launch", "plan-1", "--allocation", "n=8,B=8", "--seed", "3", "--validations", "4"]
    driver = subprocess.Popen(words, cwd=tmp_path)
    while not list((tmp_path / FINAL).glob("n8-B8-s3/checkpoint-*.pt")):
        assert driver.poll() is None
        time.sleep(0.1)
    driver.send_signal(signal.SIGTERM)
    assert driver.wait(60) == 130
    stopped = max(line["step"] for line in metrics(tmp_path))
    final, lines = rlplan(tmp_path, "resume")["final"], metrics(tmp_path)
    assert final["status"] == "finished"
    assert [line["step"] for line in lines] == list(range(lines[-1]["step"] + 1))
    assert lines[-1]["step"] > stopped > 0  # as far as the budget goes
    assert 0 < final["scores"][-1]["score"] <= 1
    passed = [line["metrics"]["pass_rate"] for line in lines if "pass_rate" in line["metrics"]]
    assert sum(passed[-10:]) > sum(passed[:10])  # 640 answers each: it has learned
    shown = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    assert {name for line in lines for name in line["metrics"] if f"`{name}`" not in shown} == set()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model, problems and a reward of one's own."""
    vocabulary = {"<pad>": 0, "<eos>": 1, **{character: i for i, character in enumerate("0123456789+=", start=2)}}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<pad>").save_pretrained(
        tmp_path / "model"
    )
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    ends = {"eos_token_id": 1, "bos_token_id": 1, "pad_token_id": 0}
    LlamaForCausalLM(LlamaConfig(vocab_size=14, max_position_embeddings=32, **sizes, **ends)).save_pretrained(
        tmp_path / "model"
    )
    sums = [{"prompt": f"{a}+{b}=", "answer": str(a + b)} for a in range(6) for b in range(6)]
    (tmp_path / "problems.jsonl").write_text("".join(json.dumps(line) + "\n" for line in sums))
    (tmp_path / "rewards.py").write_text(REWARD)
    (tmp_path / "rlplan.toml").write_text(SMALL + OWN)
    return tmp_path


def test_problems_of_ones_own_are_trained_on(folder: Path) -> None:
    rlplan(folder, "propose", "--budget", "0.006")
    rlplan(folder, "launch", "plan-1", "--problems", "problems.jsonl", "--reward", "rewards.py:score")
    lines = metrics(folder)
    assert lines[-1]["step"] > 0
    assert sum(line["metrics"].get("reward_failures", 0) for line in lines) == 1
