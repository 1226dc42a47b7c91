"""Starts train.py, in as many processes as the trial has, and ends it when whoever started this is gone.

It is copied beside run.json, and imports the standard library alone: python start.py [rank of this machine].
"""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).absolute().parent
SECONDS_BETWEEN_LOOKS = 0.25


def command(run: dict[str, Any], rank: int) -> list[str]:
    """Return what is started: Python where one process is all, else accelerate's launcher."""
    program = str(FOLDER / "train.py")
    launch = run["launch"]
    if launch["processes"] == 1 and launch["accelerate"] is None:
        return [sys.executable, program]
    argv = [sys.executable, "-m", "accelerate.commands.accelerate_cli", "launch"]
    if launch["accelerate"] is not None:
        argv += ["--config_file", launch["accelerate"]]
    elif launch["fsdp_offload"] is not None:  # as TRL's accelerate_configs/fsdp2.yaml
        argv += ["--use_fsdp", "--fsdp_version", "2", "--fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP"]
        argv += ["--fsdp_cpu_ram_efficient_loading", "true", "--fsdp_reshard_after_forward", "true"]
        argv += ["--fsdp_state_dict_type", "FULL_STATE_DICT", "--fsdp_offload_params", str(launch["fsdp_offload"])]
    elif launch["processes"] > 1:
        argv += ["--multi_gpu"]  # torchrun, also without GPUs: train.py then has gloo between its processes
    argv += ["--num_processes", str(launch["processes"]), "--num_machines", str(launch["machines"])]
    argv += ["--mixed_precision", launch["mixed_precision"], "--dynamo_backend", "no"]
    argv += ["--num_cpu_threads_per_process", str(run["threads"])]
    if launch["machines"] > 1:
        argv += ["--machine_rank", str(rank), "--main_process_ip", launch["head"], "--rdzv_backend", "static"]
        argv += ["--main_process_port", str(launch["port"])]
    else:
        argv += ["--main_process_port", "0"]  # a free one
    return [*argv, program]


def main() -> None:
    """Start it, and stay until it ends."""
    rank = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    run = json.loads((FOLDER / "run.json").read_text(encoding="utf-8"))
    starter = os.getppid()
    path = os.pathsep.join(filter(None, (str(FOLDER / "parts"), os.environ.get("PYTHONPATH"))))
    child = subprocess.Popen(command(run, rank), cwd=FOLDER, env={**os.environ, "PYTHONPATH": path})
    signal.signal(signal.SIGABRT, lambda *_: _show_stacks(child))
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    while child.poll() is None:
        if os.getppid() != starter:
            child.kill()  # what it has started looks after itself in the same way
            sys.exit(1)
        time.sleep(SECONDS_BETWEEN_LOOKS)
    sys.exit(child.returncode if child.returncode >= 0 else 128 - child.returncode)


def _show_stacks(child: "subprocess.Popen[bytes]") -> None:
    """Have each process that trains write its stacks, which PYTHONFAULTHANDLER=1 makes of this signal, and end."""
    program = str(FOLDER / "train.py").encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ProcessLookupError):
            if program in (process / "cmdline").read_bytes().split(b"\0") and int(process.name) != child.pid:
                os.kill(int(process.name), signal.SIGABRT)
    child.send_signal(signal.SIGABRT)


if __name__ == "__main__":
    main()
