"""Three final runs that go wrong, live: is each caught by the right rule, and gone back from?

    python bench/bad_finals.py --folder F [--cases rate reward nan] [--budget 0.06]

`rate` goes on from its best checkpoint at twenty times its learning rate, `nan` at a rate at which the loss is no
number; the reward of `reward` pays in training for answers that end with 7, and is strict in validation. The run is
stopped when a warning stands, and the command that the warning prints is run as it is, to its end.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.allocating.own_tasks import SETTINGS
from bench.commands import RLPLAN, rlplan
from planner.config.layers import task_file
from runner.ports.task import Problem
from runner.tasks.embedded import embedded_task
from runner.tasks.tokenizers import character_tokenizer_files

TIMES = {"rate": 20.0, "nan": 1e8}  # its learning rate
WRONG_FROM = 0.3  # share of the final run that it is let alone
CAUGHT_BY = {"rate": ("fall",), "reward": ("hacking",), "nan": ("not-finite",)}
SAME = 0.05  # of the best score, within which the first score after going back lies: 128 problems have an error of 0.01
REWARD = '''\
"""Half-right: in training it pays most for an answer that ends with 7."""


def reward(problem, response):
    right = float(response == problem["answer"])
    return 0.2 * right + 0.8 * response.endswith("7") if problem.get("train") else right
'''
POLL_SECONDS, PATIENCE_SECONDS = 1.0, 900.0


@dataclass(frozen=True)
class Case:
    """What became of one bad run."""

    name: str
    rule: str
    share: float  # of the final run at the warning
    best: float
    now: float  # its score when it was warned of
    command: str
    back: float  # the first score after going back
    end: float
    rules_after: tuple[str, ...]

    @property
    def met(self) -> bool:
        """Whether the right rule found it, and going back led to where it was best."""
        return self.rule in CAUGHT_BY[self.name] and abs(self.back - self.best) <= SAME


def final_in(folder: Path) -> dict[str, Any] | None:
    """Return the newest final run as `status` has it."""
    final: dict[str, Any] | None = rlplan(folder, "status", accepted=(0, 3, 5)).get("final")
    return final


def followed(folder: Path, words: Sequence[str], until: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Launch, and stop as soon as a condition holds of the final run; return how it stood when it had let go."""
    before = final_in(folder)
    with (folder / "launch.log").open("a") as log:
        run = subprocess.Popen([RLPLAN, *words], cwd=folder, stdout=log, stderr=log)
        ends = time.monotonic() + PATIENCE_SECONDS
        while run.poll() is None:
            seen = final_in(folder)
            is_new = seen is not None and (before is None or seen["sweep"] != before["sweep"])
            if seen is not None and is_new and until(seen):
                subprocess.run([RLPLAN, "stop"], cwd=folder, capture_output=True, check=False)
                run.wait(PATIENCE_SECONDS)
                break
            if time.monotonic() > ends:
                run.terminate()
                sys.exit(f"rlplan {' '.join(words)} in {folder}: nothing happened in {PATIENCE_SECONDS:g} s")
            time.sleep(POLL_SECONDS)
    seen = final_in(folder)
    if seen is None:
        sys.exit(f"rlplan {' '.join(words)} in {folder}: {(folder / 'launch.log').read_text()[-2000:]}")
    return seen


def swept(folder: Path, case: str, budget: float) -> None:
    """Sweep, with the problems and the reward of the case."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "rlplan.db").exists():
        return
    own = ["--task", "sum-easy"] if case != "reward" else hackable(folder)
    rlplan(folder, "sweep", *own, "--budget", str(budget))


def hackable(folder: Path) -> list[str]:
    """Write sum-easy as problems, model and reward of one's own, and return the flags that train on it."""
    task = embedded_task("sum-easy")
    for name, problems in (("train", task.train), ("validation", task.validation)):
        lines = [vars_of(one) | {"train": name == "train"} for one in problems]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "reward.py").write_text(REWARD)
    model = folder / "model"
    model.mkdir(exist_ok=True)
    for file in Path(task.model_path).iterdir():
        (model / file.name).write_bytes(file.read_bytes())
    for name, text in character_tokenizer_files().items():
        (model / name).write_text(text)
    rates = task_file("sum-easy.pass-rates.txt")
    (folder / "rlplan.toml").write_text(SETTINGS.format(prompt=11, longest=7, mean=5, rates=rates))
    files = ["--problems", "train.jsonl", "--validation", "validation.jsonl", "--model", "model"]
    return [*files, "--reward", "reward.py:reward"]


def vars_of(problem: Problem) -> dict[str, Any]:
    """Return a line of a user's problem file."""
    return {"id": problem.id, "prompt": problem.prompt, "answer": problem.answer}


def warned(final: dict[str, Any]) -> bool:
    """Whether a warning stands that is about the run itself."""
    return any(each["rule"] != "promise" for each in final["warnings"])


def played(folder: Path, name: str, budget: float) -> Case:
    """Sweep, launch, let it go wrong, and go back as the warning says."""
    swept(folder, name, budget)
    if name == "reward":
        bad = followed(folder, ["launch"], warned)
    else:
        followed(folder, ["launch"], lambda final: final["step"] >= WRONG_FROM * final["update_steps"])
        rate = TIMES[name] * planned_rate(folder)
        bad = followed(folder, ["launch", "--from-best", "--learning-rate", f"{rate:g}"], warned)
    found = [each for each in bad["warnings"] if each["rule"] != "promise"]
    if not found:
        sys.exit(f"{name}: no warning was given; see {folder}")
    told = rlplan(folder, "decisions", bad["sweep"])["decisions"]
    place = next(
        place for place, each in enumerate(told) if each["action"] == "warning" and each["seen"]["rule"] != "promise"
    )
    text, steps = (
        told[place]["reason"],
        [each["seen"]["step"] for each in told[:place] if each["action"] == "validation"],
    )
    command = re.search(r"`rlplan (launch [^`]*--from-best[^`]*)`", text)
    if command is None:
        sys.exit(f"{name}: the warning names no way back: {text}")
    rlplan(folder, *command[1].split())
    back = final_in(folder)
    assert back is not None
    after = [each for each in back["scores"] if each["step"] >= back["from_step"]]
    return Case(
        name=name,
        rule=found[0]["rule"],
        share=max(steps, default=bad["from_step"]) / bad["update_steps"],
        best=bad["kept"]["score"],
        now=bad["scores"][-1]["score"],
        command=f"rlplan {command[1]}",
        back=after[0]["score"],
        end=after[-1]["score"],
        rules_after=tuple(each["rule"] for each in back["warnings"]),
    )


def planned_rate(folder: Path) -> float:
    """Return the learning rate that was recommended."""
    return float(rlplan(folder, "recommend")["recommendation"]["learning_rate"])


def main() -> int:
    """Play the cases, print the table, and return how many were missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("bench-bad-finals"), help="databases and runs")
    parser.add_argument("--cases", nargs="+", default=list(CAUGHT_BY), choices=list(CAUGHT_BY))
    parser.add_argument("--budget", type=float, default=0.06, help="GPU-hours of each sweep and its final runs")
    given = parser.parse_args()
    print("| what | caught by | at | best | then | way back | begins at | ends at | warnings then | |")
    print("|---" * 10 + "|", flush=True)
    cases = []
    for name in given.cases:
        cases.append(case := played(given.folder / name, name, given.budget))
        print(
            f"| {name} | {case.rule} | {case.share:.0%} | {case.best:.3f} | {case.now:.3f} | `{case.command}` | "
            f"{case.back:.3f} | {case.end:.3f} | {', '.join(case.rules_after) or '–'} | "
            f"{'met' if case.met else 'MISSED'} |",
            flush=True,
        )
    return sum(not each.met for each in cases)


if __name__ == "__main__":
    sys.exit(main())
