"""A trainer of somebody's own whose metrics or saves are as a mode says; it trains nothing."""

import argparse
import json
import math
import os
import signal
import time

parser = argparse.ArgumentParser()
for name in ("n", "B", "to", "every"):
    parser.add_argument(f"--{name}", type=int, required=True)
parser.add_argument("--lr", type=float)
parser.add_argument("--mode", default="plain")
parser.add_argument("--seconds", type=float, default=0.02)  # of a step
parser.add_argument("--resume")
asked = parser.parse_args()
stops: list[int] = []
signal.signal(signal.SIGTERM, lambda number, _: stops.append(number))
step = int(asked.resume.split("-")[-1].split(".")[0]) if asked.resume else 0
save_every = 400 if asked.mode == "rare" else 5


def score(at: int) -> float:
    if asked.mode == "nan" and at:
        return math.nan
    return (100.0 if asked.mode == "percent" else 1.0) * (0.3 + 0.6 * at / (at + 40))


def save(at: int) -> None:
    with open("aside", "w", encoding="utf-8") as file:
        file.write("x")
    os.replace("aside", f"checkpoint-{at}.pt")


with open("metrics.jsonl", "a", buffering=1, encoding="utf-8") as metrics:

    def say(**row: object) -> None:
        metrics.write(json.dumps(row) + "\n")

    if not step and asked.mode != "unscored":
        say(step=0, score=score(0))
    while step < asked.to and not stops:
        time.sleep(asked.seconds)
        step += 1
        row: dict[str, float] = {"step": step, "loss": 0.1, "reward": 0.5}
        if asked.mode in ("micro-batches", "jump"):
            row["step"] = 16 * step if asked.mode == "micro-batches" else 10**15 + step
        if step % asked.every == 0 or step == asked.to:
            row["acc" if asked.mode == "unscored" else "score"] = score(step)
        if asked.mode == "infinite":
            row |= {"reward": math.inf, "response_tokens": math.inf}
            metrics.write('{"step": 1e400, "loss": 0.1}\n')
        if asked.mode == "back" and step > 2:
            say(step=step - 2, loss=0.5)
        say(**row)
        if step % save_every == 0:
            save(step)
if asked.mode != "rare":
    save(step)
