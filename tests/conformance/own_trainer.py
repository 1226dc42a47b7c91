"""A trainer that knows nothing of rlplan: its score follows a seed; it saves at its end, on SIGTERM and when due."""

import argparse
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

flags = argparse.ArgumentParser()
for name in ("group-size", "batch-size", "steps", "eval-every", "save-every", "seed"):
    flags.add_argument(f"--{name}", type=int)
flags.add_argument("--lr", type=float)
flags.add_argument("--pause", type=float, default=0.01)
flags.add_argument("--eval-data", type=Path)
flags.add_argument("--style", default="jsonl")
flags.add_argument("--resume", type=Path)
flags.add_argument("--no-stop", action="store_true")
flags.add_argument("--gate", action="store_true")
given = flags.parse_args()

stops: list[int] = []
if not given.no_stop:
    signal.signal(signal.SIGTERM, lambda number, _: stops.append(number))
state = json.loads((given.resume / "state.json").read_text()) if given.resume else {"step": 0, "skill": 0.1}
problems = given.eval_data.read_text().splitlines() if given.eval_data else []
out = Path(f"log.{given.style}").open("a", buffering=1) if given.style != "console" else sys.stdout  # noqa: SIM115
writer = None
if given.style == "tensorboard":
    from tensorboard.compat.proto import event_pb2, summary_pb2
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter("events")


def say(**values: float) -> None:
    if writer is not None:
        summary = summary_pb2.Summary(
            value=[summary_pb2.Summary.Value(tag=f"train/{name}", simple_value=value) for name, value in values.items()]
        )
        writer.add_event(event_pb2.Event(step=state["step"], wall_time=time.time(), summary=summary))
        writer.flush()
    elif given.style == "csv":
        if out.tell() == 0:
            out.write("it,eval/acc,loss,length\n")
        out.write(f"{state['step']},{values.get('acc', '')},{values.get('loss', '')},{values.get('length', '')}\n")
    elif given.style == "console":
        print(f"[it {state['step']}]", *(f"{name}={value:.9f}" for name, value in values.items()), flush=True)  # noqa: T201
    else:
        scored = {"eval": {"acc": values.pop("acc")}} if "acc" in values else {}
        out.write(json.dumps({"it": state["step"], **values, **scored}) + "\n")


def save() -> None:
    folder = Path(f"ckpt/it-{state['step']}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "done").touch()


def waits() -> bool:
    """Save and wait at the gate where it says so; whether there is something to go on for."""
    parent = os.getppid()
    if state["step"] < gate():
        return True
    save()
    Path("waiting.json").write_text(json.dumps({"step": state["step"]}))
    while gate() <= state["step"]:
        if os.getppid() != parent:
            return False
        time.sleep(0.01)
    return True


def gate() -> int:
    return int(json.loads(Path("gate.json").read_text())["to_step"])


print("ready", flush=True)  # noqa: T201
if state["step"] == 0:
    say(acc=state["skill"])
while waits() if given.gate else state["step"] < given.steps and not stops:
    chance = random.Random(f"{given.seed}/{state['step']}").random()
    state["skill"] = min(0.99, state["skill"] + given.lr * chance * given.group_size * given.batch_size)
    state["step"] += 1
    time.sleep(given.pause)
    scored = {"acc": state["skill"]} if state["step"] % given.eval_every == 0 else {}
    say(loss=1 - state["skill"], length=3.0 + chance, **scored)
    if given.save_every and state["step"] % given.save_every == 0 and state["step"] < given.steps:
        save()
save()
