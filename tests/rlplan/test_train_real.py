"""`rlplan train` with the real backend, in a process of its own: torch keeps its threads from the other tests."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

pytestmark = pytest.mark.soak
COMMAND = str(Path(sys.executable).with_name("rlplan"))
SMALL = ("--task", "sum-easy", "-n", "8", "-B", "8", "--problems", "16", "--samples", "2", "--validate-every", "128")
ENV = {"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "HOME": "/tmp"}
REWARD = """
calls = 0

def score(problem: dict, response: str) -> float:
    global calls
    calls += 1
    if calls == 40:  # in the first update, which can do without one
        raise ValueError("not this one")
    return float(response.strip().endswith(problem["answer"]))
"""


FROM_PILOT = """
from pathlib import Path
from rlplan.actions.train_request import TrainRequest, new_run
from rlplan.actions.training import train
from runner.ports.executor import Work
from runner.sweep.worker import Worker

size = dict(rollouts_per_prompt=8, prompts_per_batch=8, problems=16, samples=2, validate_every=128, steps=6)
folder = Path("trial").absolute()
request = TrainRequest(task="sum-easy", **size, out=Path("final"), from_pilot=folder)
worker = Worker("w1", lambda: 0.0, lambda event: None)
config = new_run(request)[0].trial.model_dump(mode="json")
assert worker.run(Work(1, 1, 1, config, str(folder), 0, 4, 1e9), lambda: False)
worker.close()
final = train(request)
assert [point.optimizer_step for point in final.history.scored] == [0, 2, 4, 6]
"""


def train(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, "train", *args], cwd=folder, capture_output=True, text=True, check=False, env=ENV)


def without_times(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        del line["seconds"], line["gpu_hours"], line["metrics"]["seconds"]
    return lines


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run of 6 updates."""
    folder = tmp_path_factory.mktemp("whole")
    done = train(folder, *SMALL, "--steps", "6", "--out", "here", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert [line.split(" ")[0] for line in done.stderr.splitlines()] == ["sum-easy,", *["step"] * 4], done.stderr
    document = json.loads(done.stdout)
    assert [point["step"] for point in document["points"]] == [0, 2, 4, 6]
    assert 0 < document["final"]["score"] < 1
    assert document["final"]["rollouts"] == 6 * 64
    return folder / "here"


def test_an_interrupted_run_goes_on_to_be_the_whole_run(whole: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [COMMAND, "train", *SMALL, "--steps", "6", "--out", "here"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=ENV,
    )
    assert process.stderr is not None
    assert any("step 2/6" in line for line in process.stderr)
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=60)
    if process.returncode != 0:  # a fast machine may have been done before the signal came
        assert process.returncode == 130
        assert train(tmp_path, "--resume", "--out", "here").returncode == 0
    assert without_times(tmp_path / "here") == without_times(whole)


def test_pilot_and_final_together_are_the_whole_run(whole: Path, tmp_path: Path) -> None:
    """A worker's 4 updates and 2 more are an undisturbed run of 6."""
    command = [sys.executable, "-c", FROM_PILOT]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=ENV)
    assert done.returncode == 0, done.stderr
    assert without_times(tmp_path / "final") == without_times(whole)


def test_every_metric_is_explained(whole: Path) -> None:
    shown = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    for line in without_times(whole):
        assert [name for name in line["metrics"] if f"`{name}`" not in shown] == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
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
    return tmp_path


def test_problems_of_ones_own_are_trained_on_and_resumed_from_another_directory(folder: Path, tmp_path: Path) -> None:
    own = ("--task", "problems.jsonl", "--model", "model", "--reward", "rewards.py:score", "--response-tokens", "4")
    size = ("-n", "4", "-B", "8", "--steps", "3", "--learning-rate", "1e-3", "--threads", "1", "--device", "cpu")
    done = train(folder, *own, *size, "--out", "here", "--format", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["task"] == str(folder / "problems.jsonl")
    assert document["learning_rate"] == 1e-3
    assert "reward-failures: " in done.stderr
    assert "reward-failures" in [flag["flag"] for flag in document["flags"]]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    resumed = train(elsewhere, "--resume", "--out", str(folder / "here"), "--steps", "4", "--format", "csv")
    assert resumed.returncode == 0, resumed.stderr
    assert [line.split(",")[0] for line in resumed.stdout.splitlines()[1:]] == ["0", "1", "2", "3", "4"]
