"""`rlplan train` with the real backend, in a process of its own: torch keeps its threads from the other tests."""

import json
import subprocess
import sys
from pathlib import Path

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


def train(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, "train", *args], cwd=folder, capture_output=True, text=True, check=False, env=ENV)


def test_every_metric_is_explained(tmp_path: Path) -> None:
    done = train(tmp_path, *SMALL, "--steps", "6", "--format", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [point["step"] for point in document["points"]] == [0, 2, 4, 6]
    assert 0 < document["score"] < 1
    shown = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    for line in (tmp_path / "rlplan-sweeps/sweep-1/n8-B8-s0/metrics.jsonl").read_text().splitlines():
        assert [name for name in json.loads(line)["metrics"] if f"`{name}`" not in shown] == []


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


def test_problems_of_ones_own_are_trained_on(folder: Path) -> None:
    own = ("--task", "problems.jsonl", "--model", "model", "--reward", "rewards.py:score", "--response-tokens", "4")
    size = ("-n", "4", "-B", "8", "--steps", "3", "--learning-rate", "1e-3", "--threads", "1", "--device", "cpu")
    done = train(folder, *own, *size, "--format", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["step"], document["learning_rate"]) == (3, 1e-3)
    lines = (folder / "rlplan-sweeps/sweep-1/n4-B8-s0/metrics.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["metrics"].get("reward_failures", 0) for line in lines) == 1
