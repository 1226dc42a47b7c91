"""Tasks of another kind than sums, for AllocBench alone: problem files and a base model of a user's own."""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.base_models.measuring import new_model, sampled
from bench.base_models.teaching import PROBE_PROBLEMS, Design, Example, Habit, two_lessons
from budgets.errors import InputError
from runner.ports.task import Problem
from runner.tasks.embedded import TRAIN_PROBLEMS, VALIDATION_PROBLEMS, Draw, drawing
from runner.tasks.tokenizers import END_ID, CharacterTokenizer, character_tokenizer_files

SAMPLES = 4  # of each train problem: they give the plan its pass rates


# What the configuration of an embedded task says: its grid, its recipe and the model's shape.
SETTINGS = """\
[models.tiny]
hidden = 96
layers = 3
heads = 3
kv_heads = 3
head_dim = 32
intermediate = 256
vocabulary = 32
context = 64
tied_embeddings = true
[workload]
model = "tiny"
difficulty = "easy"
prompt_tokens = {prompt}
response_tokens = {longest}
mean_response_tokens = {mean}
response_spread = 0.0
prompt_set_size = 4096
pass_rates_file = "{rates}"
[hardware]
gpu = "cpu"
gpus = 1
gpus_per_trial = 1
[recipe]
name = "easy"
learning_rate = 3e-4
learning_rate_rollouts = 256
[grid]
fewest_rollouts_per_prompt = 2
most_rollouts_per_prompt = 128
fewest_prompts_per_batch = 2
most_prompts_per_batch = 64
fewest_rollouts_per_step = 32
most_rollouts_per_step = 1024
"""


@dataclass(frozen=True, slots=True)
class OwnTask:
    """What is asked about a row of digits, and how its base model is taught."""

    digits: int
    rule: Callable[[str], str]
    slip: float  # of each digit of a lesson's wrong answers: another one in its place, chance among all ten

    @property
    def design(self) -> Design:
        """The two lessons; of the habit only the slips mean anything here."""
        return Design(Habit(0.0, self.slip), pass_rates=(0.1, 0.5), most_steps=2000, settling_steps=100)

    @property
    def max_response_tokens(self) -> int:
        """The answer and its end."""
        return self.digits + 2

    def row(self, draw: Draw) -> str:
        """Draw digits."""
        return "".join(str(draw(0, 9)) for _ in range(self.digits))


def sort_digits(row: str) -> str:
    """Return the digits in rising order."""
    return "".join(sorted(row))


def rewrite_digits(row: str) -> str:
    """Return the digits from behind, each raised by one, 9 to 0."""
    return "".join(str((int(digit) + 1) % 10) for digit in reversed(row))


OWN_TASKS: Mapping[str, OwnTask] = {
    "sort": OwnTask(5, sort_digits, slip=0.3),
    "rewrite": OwnTask(6, rewrite_digits, slip=0.28),
}


def own_problems(name: str) -> tuple[list[Problem], list[Problem]]:
    """Return the train and the validation problems, which are all different."""
    task, draw = OWN_TASKS[name], drawing(name)
    rows: dict[str, None] = {}
    while len(rows) < TRAIN_PROBLEMS + VALIDATION_PROBLEMS:
        rows.setdefault(task.row(draw))
    problems = [Problem(f"{name}/{number}", f"{row}=", task.rule(row)) for number, row in enumerate(rows)]
    return problems[VALIDATION_PROBLEMS:], problems[:VALIDATION_PROBLEMS]


def own_model(name: str, probe: list[Problem]) -> Any:
    """Return a model that knows the rule and has the habit of slipped digits."""
    task, tokenizer = OWN_TASKS[name], CharacterTokenizer()
    rng = random.Random(task.design.seed)

    def example(slip: float) -> Example:
        row = task.row(rng.randint)
        answer = [str(rng.randrange(10)) if rng.random() < slip else digit for digit in task.rule(row)]
        return tokenizer.encode_prompt(f"{row}="), [*tokenizer.encode("".join(answer)), END_ID]

    model = new_model(task.design.seed)
    two_lessons(model, task.design, (lambda: example(0.0), lambda: example(task.slip)), probe)
    return model


@dataclass(frozen=True)
class OwnFiles:
    """Where the files of a task of one's own lie."""

    folder: Path
    name: str

    @property
    def model(self) -> Path:
        """The checkpoint."""
        return self.folder / "model"

    @property
    def rates(self) -> Path:
        """The pass rates of the train problems."""
        return self.folder / "pass-rates.txt"

    @property
    def settings(self) -> str:
        """What the configuration file says beside what all tasks share."""
        task = OWN_TASKS[self.name]
        return SETTINGS.format(
            prompt=task.digits + 2,
            longest=task.max_response_tokens,
            mean=task.digits + 1,
            rates=self.rates,
        )

    @property
    def flags(self) -> list[str]:
        """What tells `rlplan sweep` to train on it."""
        train, validation = (str(self.folder / f"{part}.jsonl") for part in ("train", "validation"))
        return ["--problems", train, "--validation", validation, "--model", str(self.model), "--reward", "exact"]


def make_own_task(files: OwnFiles) -> None:
    """Write problems, model and pass rates, unless they are there; refuse a model that is not in its band."""
    import torch

    from bench.base_models.__main__ import ship, write_pass_rates
    from runner.policy.model import load_model

    if files.rates.is_file():
        return
    torch.set_num_threads(1)
    task = OWN_TASKS[files.name]
    train, validation = own_problems(files.name)
    files.folder.mkdir(parents=True, exist_ok=True)
    for part, problems in (("train", train), ("validation", validation)):
        lines = [json.dumps({"id": one.id, "prompt": one.prompt, "answer": one.answer}) for one in problems]
        (files.folder / f"{part}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    ship(own_model(files.name, train[:PROBE_PROBLEMS]), files.model)
    for name, text in character_tokenizer_files().items():
        (files.model / name).write_text(text, encoding="utf-8")
    model = load_model(str(files.model))
    rates = sampled(model, train, SAMPLES, task.max_response_tokens, task.design.seed).pass_rates
    mean, (low, high) = sum(rates) / len(rates), task.design.pass_rates
    if not low <= mean <= high:
        raise InputError(f"{files.name}: the mean pass rate is {mean:.3f}, not within {low} to {high}: adjust its slip")
    write_pass_rates(rates, SAMPLES, files.name, files.rates)
