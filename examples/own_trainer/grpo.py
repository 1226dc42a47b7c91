"""GRPO in plain torch: a model is rewarded for right sums. It knows nothing of rlplan."""

import argparse
import json
import random
import signal
import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

CHARACTERS, FIRST, START, END = "0123456789+-*/=,.;:()[]<>?! \n", 3, 2, 1  # as the model knows them
flags = argparse.ArgumentParser(description=__doc__)
for name in ("group-size", "batch-size", "steps", "max-tokens", "eval-every", "eval-samples", "save-every", "seed"):
    flags.add_argument(f"--{name}", type=int)
for name in ("model", "problems", "eval-problems", "resume"):
    flags.add_argument(f"--{name}", type=Path)
flags.add_argument("--lr", type=float)
given = flags.parse_args()
train, held_out = ([json.loads(line) for line in path.open()] for path in (given.problems, given.eval_problems))
model: Any = AutoModelForCausalLM.from_pretrained(given.model, dtype=torch.float32)
optimizer = torch.optim.AdamW(model.parameters(), lr=given.lr, weight_decay=0.0)
torch.manual_seed(given.seed)
step = 0
if given.resume:
    state = torch.load(given.resume, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["random"])
    step = state["step"]
stops: list[int] = []
signal.signal(signal.SIGTERM, lambda number, _: stops.append(number))  # asked to stop: ends after this update
metrics = Path("metrics.jsonl").open("a", buffering=1)


def say(**values: float) -> None:
    metrics.write(json.dumps({"step": step, "time": time.monotonic(), **values}) + "\n")


def tokens_of(text: str) -> list[int]:
    return [FIRST + CHARACTERS.index(letter) for letter in text]


@torch.no_grad()
def sample(problems: list[dict[str, str]], answers: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return prompts with answers, which tokens of the answers count, and the rewards, a row for each problem."""
    prompts = torch.tensor([[START, *tokens_of(each["prompt"])] for each in problems])
    options = {"do_sample": True, "top_k": 0, "max_new_tokens": given.max_tokens, "eos_token_id": END}
    whole = model.generate(prompts.repeat_interleave(answers, dim=0), pad_token_id=0, **options)
    tokens = whole[:, prompts.shape[1] :]
    ends = tokens == END
    right = [[*tokens_of(each["answer"]), END] for each in problems]
    said = [row[: len(right[i // answers])].tolist() for i, row in enumerate(tokens)]
    rewards = torch.tensor([float(row == right[i // answers]) for i, row in enumerate(said)])
    return whole, (ends.cumsum(1) - ends.long()) == 0, rewards.view(len(problems), answers)


def evaluate() -> dict[str, float]:
    means = sample(held_out, given.eval_samples)[2].mean(1)
    return {"accuracy": means.mean().item(), "accuracy_error": (means.std() / len(held_out) ** 0.5).item()}


def save() -> None:
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save({**state, "random": torch.get_rng_state()}, "checkpoint.writing")
    Path("checkpoint.writing").rename(f"checkpoint-{step}.pt")


say()  # stands where it begins
if step == 0:
    say(**evaluate())
while step < given.steps and not stops:
    batch = random.Random(f"{given.seed}/{step}").sample(train, given.batch_size)
    whole, counts, rewards = sample(batch, given.group_size)
    advantages = ((rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-6)).flatten()
    logits = model(whole).logits[:, -counts.shape[1] - 1 : -1]
    chosen = logits.log_softmax(-1).gather(-1, whole[:, -counts.shape[1] :, None])[..., 0]
    loss = -(advantages[:, None] * chosen * counts).sum() / counts.sum()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    step += 1
    scores = evaluate() if step % given.eval_every == 0 else {}
    say(loss=loss.item(), reward=rewards.mean().item(), length=counts.sum(1).float().mean().item(), **scores)
    if step % given.save_every == 0 and step < given.steps:
        save()
save()
