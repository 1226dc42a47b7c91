"""Files of every reader, damaged by chance, and commands that read them, each within limits of time and memory.

How many and which are set by RLPLAN_FUZZ_FILES and RLPLAN_FUZZ_SEED (tests/security/test_fuzzing.py).
"""

import json
import random
import re
import resource
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from rlplan.cli import app
from tests.planner.logs import printed
from tests.planner.replay.tables import grid
from tests.rlplan.adopted_runs import rising, verl_folder
from tests.rlplan.recommend_sweeps import ended
from tests.rlplan.test_replay_command import write as write_table
from tests.security.limits import SECONDS, TooLongError, limited

ALLOWED = {0, 2, 3, 4, 5}  # exit codes that are no bug
LONG = "x" * 131_073
NUMBERS = [
    "1e308",
    "-1e308",
    "1e400",
    "nan",
    "-inf",
    "0",
    "-1",
    "1e-320",
    "9" * 400,
    "9" * 5000,
    str(2**63),
    "",
    "1e18",
]
PIECES = [
    LONG,
    LONG.replace("x", "7"),
    "[" * 100_000,
    '{"a":' * 5_000,
    "\0",
    '"',
    "\n",
    ",",
    "\xff",
    "${A[@]} ",
    "a." * 5_000,
]
VALUES: list[Any] = [None, [], {}, "", "x", True, 1e308, -1e308, 10**400, -1, 0, 1e-320, float("nan"), [[]], {"a": {}}]
VALUES += [LONG]
READERS = {
    "fit": "fit FILE",
    "compare": "compare FILE FILE",
    "adopt": "adopt FILE --gpu h100 -n 8 -B 64 --model qwen3-8b --gpus 8 --learning-rate 1e-6",
    "watch": "watch FILE --once",
    "from-log": "propose --budget 500 --from-log FILE",
    "pass-rates": "propose --budget 500 --pass-rates-file FILE",
    "learn-from": "propose --budget 500 --learn-from FILE",
    "price": "price FILE",
    "replay": "replay FILE --budget 20 --target 20 --policy asha",
    "check": "check FILE",
    "config": "propose --budget 500 --config FILE",
    "recipe": "propose --budget 500 --recipe FILE",
}
OF_LOGS = ("fit", "compare", "adopt", "watch", "from-log")
OF_STORED = (
    *("status", "rank", "recommend", "decisions", "report FOLDER/out.html", "export - --what all", "rank plan-1"),
    "propose --budget 500 --learn-from FILE",
)
DOCUMENTS = (
    *(("plans", column) for column in ("config", "workload", "hardware", "axes")),
    *(("sweeps", column) for column in ("config", "spent", "stop")),
    *(("decisions", column) for column in ("seen", "alternatives")),
    *(("recommendations", "details"), ("points", "metrics"), ("trials", "config"), ("candidates", "axes")),
    *(("fits", "parameters"), ("cost_records", "seconds"), ("segments", "cost")),
)
SCRIPT = """#!/bin/bash
N=${N:-8}
ARGS=(data.train_batch_size=64 actor_rollout_ref.rollout.n=$N)
python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo "${ARGS[@]}" data.max_response_length=1024 \\
    actor_rollout_ref.model.path=Qwen/Qwen3-8B actor_rollout_ref.actor.optim.lr=1e-6 trainer.n_gpus_per_node=8
"""
PYTHON = """from trl import GRPOConfig, GRPOTrainer
args = GRPOConfig(num_generations=8, per_device_train_batch_size=8, gradient_accumulation_steps=4, learning_rate=1e-6,
                  max_completion_length=1024, max_steps=200, save_steps=50)
GRPOTrainer(model="Qwen/Qwen3-8B", args=args, reward_funcs=[lambda **_: 0.0])
"""
YAML = """base: &base {num_generations: 8, per_device_train_batch_size: 8}
args: {<<: *base, learning_rate: 1.0e-6, max_completion_length: 1024, gradient_accumulation_steps: 4}
model_name_or_path: Qwen/Qwen3-8B
num_generations: 8
per_device_train_batch_size: 8
gradient_accumulation_steps: 4
num_processes: 8
"""
CONFIG = """budget.gpu_hours = 500
[workload]
model = "qwen3-8b"
response_tokens = 4096
pass_rate = 0.4
[hardware]
gpu = "h100"
gpus = 32
[proposal]
baseline = "n=8,B=64"
"""
PRICES = """row_id,framework,model,model_shape,gpu_kind,gpu_count,generator_gpus,trainer_gpus,mode,rollouts_per_prompt,\
prompts_per_batch,rollouts_per_step,optimizer_updates_per_step,max_response_tokens,mean_prompt_tokens,\
mean_response_tokens,tokens_per_second_per_gpu,seconds_per_step,generate_seconds,micro_batch,lora_rank
a,verl,Qwen3-8B,qwen3-8b,h100,16,,,colocated_sync,32,64,2048,4,8192,132,1060,1562,97.7,50,2,
b,NeMo-RL,Qwen3-8B,qwen3-8b,h100,16,8,8,split_async,32,64,2048,,8192,130,,2161,74.6,,,16
"""


@dataclass(frozen=True)
class Call:
    """What a call took."""

    reader: str
    code: int
    seconds: float
    grown: int  # bytes of address space
    why: str  # it is broken; '' where it is not


class Corpus:
    """Sound files for each reader, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rows = [
            {"step": s, "score": 0.3 + s / 400, "train/reward": 0.4, "num_tokens": 900.0 * s, "loss": 0.1}
            for s in range(0, 60, 3)
        ]
        lines = ["step,gpu_hours,score,run"] + [f"{s},{s / 8},{0.3 + s / 300},{'ab'[s % 2]}" for s in range(40)]
        table, csv = "\n".join(lines) + "\n", Path(write_table(folder / "runs.csv", grid(cells=4, seeds=1, points=8)))
        run = verl_folder(folder / "run", rising(8, 64, 0.6, steps=30))
        verl, recipe = (
            (run / "train.log").read_text("utf-8"),
            Path("planner/recipes/dapo.toml").resolve().read_text("utf-8"),
        )
        logs = {
            "a.csv": table,
            "b.csv": table.replace(".", "·").replace(",", ";").replace("·", ","),
            "wandb.csv": "Step,r1 - eval/score,r1 - eval/score__MIN\n"
            + "".join(f"{s},{s / 99},0\n" for s in range(30)),
            "c.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
            "verl.jsonl": "".join(
                json.dumps({"step": s, "data": {"val-core/x/acc/mean@4": s / 99}}) + "\n" for s in range(30)
            ),
            "trainer_state.json": json.dumps({"log_history": [{**row, "eval_reward": row["score"]} for row in rows]}),
            "verl.log": verl,
            "openrlhf.log": "\n".join(printed.OPENRLHF) + "\n",
            "trl.log": "\n".join(printed.TRL) + "\n",
        }
        scripts = {
            "run.sh": SCRIPT,
            "train.py": PYTHON,
            "args.yaml": YAML,
            "args.json": json.dumps(
                {"num_generations": 8, "per_device_train_batch_size": 64, "model_name_or_path": "Qwen/Qwen3-8B"}
            ),
        }
        rates = {
            "rates.txt": "0.1\n0.5\n# note\n0.7\n",
            "rates.csv": "id,pass_rate\n1,0.3\n2,0.6\n",
            "rates.json": "[0.1, 0.4]",
            "rates.jsonl": '{"id": 1, "pass_rate": 0.4}\n{"id": 2, "pass_rate": 0.5}\n',
        }
        self.files: dict[str, dict[str, str]] = {
            **dict.fromkeys(OF_LOGS, logs),
            "pass-rates": rates,
            "price": {"prices.csv": PRICES},
            "replay": {"table.csv": csv.read_text("utf-8")},
            "check": {**scripts, "args.toml": CONFIG},
            "config": {"rlplan.toml": CONFIG},
            "recipe": {"recipe.toml": recipe},
        }
        self.database = ended(folder / "sound.db")

    def calls(self, seed: int) -> Iterator[tuple[str, list[str]]]:
        """Damage one file by chance, and yield the commands that read it."""
        chance = random.Random(seed)
        own = self.folder / f"seed-{seed}"
        own.mkdir()
        readers = [*self.files, "learn-from", "stored", "stored"]
        reader = readers[seed % len(readers)]
        if reader in self.files:
            name, text = chance.choice(list(self.files[reader].items()))
            path = own / name
            path.write_bytes(damaged(text, chance, path.suffix))
            lines = [READERS[reader]]
        else:
            path = own / "rlplan.db"
            shutil.copyfile(self.database, path)
            _damage_rows(path, chance)
            lines = chance.sample(OF_STORED, 3) if reader == "stored" else [READERS[reader]]
        for line in lines:
            words = line.replace("FILE", str(path)).replace("FOLDER", str(own)).split()
            database = [] if words[0] in ("fit", "compare", "watch", "replay") else ["--db", str(own / "rlplan.db")]
            yield reader, [*words, *database]


def damaged(text: str, chance: random.Random, suffix: str) -> bytes:
    """Change a text in one to three places: its values where it is JSON, its cells, numbers, lines or bytes."""
    content = text
    for _ in range(chance.randint(1, 3)):
        kind = chance.randrange(8)
        lines = content.splitlines(keepends=True) or [""]
        place, row = chance.randrange(len(content) + 1), chance.randrange(len(lines))
        if kind < 2 and suffix in (".json", ".jsonl"):
            content = _other_json(content, chance)
        elif kind < 3:  # a number
            content = _other_number(content, chance)
        elif kind == 3:
            content = content[:place] + chance.choice(PIECES) + content[place:]
        elif kind == 4:
            content = content[:place] + content[place + chance.randint(1, 30) :]
        elif kind == 5:
            lines[row] = chance.choice(["", lines[row] * 2, lines[chance.randrange(len(lines))]])
            content = "".join(lines)
        elif kind == 6:
            content = content[:place]
        else:
            content = content[:place] + chr(chance.randrange(256)) + content[place + 1 :]
    return content.encode("latin-1", errors="replace") if chance.random() < 0.1 else content.encode()


def _other_number(content: str, chance: random.Random) -> str:
    numbers = list(re.finditer(r"(?<![\w.])-?\d[\d.e+-]*", content))
    if not numbers:
        return content
    number = chance.choice(numbers)
    return content[: number.start()] + chance.choice(NUMBERS) + content[number.end() :]


def _other_json(content: str, chance: random.Random) -> str:
    lines = content.splitlines() if content.count("\n{") else [content]
    row = chance.randrange(len(lines))
    try:
        document = json.loads(lines[row])
    except (ValueError, RecursionError):
        return content
    lines[row] = json.dumps(other_document(document, chance))
    return "\n".join(lines)


def other_document(document: Any, chance: random.Random) -> Any:
    """Take a value out of a document, or put another in its place."""
    places: list[tuple[Any, Any]] = []
    pending = [document]
    while pending:
        inner = pending.pop()
        keys = list(inner) if isinstance(inner, dict) else range(len(inner)) if isinstance(inner, list) else []
        places += [(inner, key) for key in keys]
        pending += [inner[key] for key in keys]
    if not places:
        return chance.choice(VALUES)
    inner, key = chance.choice(places)
    if chance.random() < 0.4:
        del inner[key]
    else:
        inner[key] = chance.choice(VALUES)
    return document


def _damage_rows(path: Path, chance: random.Random) -> None:
    with closing(sqlite3.connect(path)) as store, store:
        store.execute("PRAGMA ignore_check_constraints = ON")
        filled = []
        for table, column in DOCUMENTS:
            try:
                rows = store.execute(f"SELECT rowid, {column} FROM {table} WHERE {column} IS NOT NULL").fetchall()
            except sqlite3.OperationalError:
                continue
            if rows:
                filled.append((table, column, rows))
        table, column, rows = chance.choice(filled)
        row, text = chance.choice(rows)
        changed = json.dumps(other_document(json.loads(text), chance))
        store.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (changed, row))


def called(reader: str, words: list[str]) -> Call:
    """Call a command, and say what it took and what is wrong with how it ended."""
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    code, why = 1, ""
    try:
        with limited():
            result = CliRunner().invoke(app, words, env={"COLUMNS": "80"})
        code = result.exit_code
        if code not in ALLOWED:
            why = result.stderr.strip() or repr(result.exception)
    except TooLongError:
        why = f"more than {SECONDS:g} s"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    return Call(reader, code, time.process_time() - began, grown, why)


def read_all(seeds: range, folder: Path, seen: Callable[[int, Call], None]) -> None:
    """Read a file for each seed with the commands of its reader."""
    corpus = Corpus(folder)
    for seed in seeds:
        for reader, words in corpus.calls(seed):
            seen(seed, called(reader, words))
        shutil.rmtree(folder / f"seed-{seed}")
