"""Examines this machine, all that takes no time and, where it is asked for, what does."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

from rlplan.doctor import machine, packages, storage
from rlplan.doctor.finding import Finding, bad, ok
from runner.processes import end_session

_TORCH = """
import torch
print(torch.__version__, "sees", torch.cuda.device_count(), "GPUs")
torch.ones(2, 2) @ torch.ones(2, 2)
"""
_TRANSFORMERS = """
import transformers
from transformers import AutoModelForCausalLM, LlamaForCausalLM
print(transformers.__version__)
"""
_RAY = """
import ray
ray.init("local", num_cpus=1, num_gpus=0, include_dashboard=False, log_to_driver=False, logging_level="error")
assert ray.get(ray.remote(lambda: 2 + 2).options(num_cpus=1).remote()) == 4
ray.shutdown()
print(ray.__version__)
"""
TRIES = (("torch works", _TORCH, 60.0), ("transformers works", _TRANSFORMERS, 60.0), ("Ray starts", _RAY, 120.0))


def run(what: str, code: str, most_seconds: float) -> Finding:
    """Run a piece of Python in a session of its own, of which nothing is left afterwards."""
    began = time.monotonic()
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONWARNINGS": "ignore"}
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
        start_new_session=True,
    )
    try:
        output, _ = child.communicate(timeout=most_seconds)
        passed = child.returncode == 0
    except subprocess.TimeoutExpired:
        output, passed = f"not done after {most_seconds:g} s", False
    finally:
        end_session(child.pid)
        child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()
    lines = output.strip().splitlines()
    last = (lines[-1].strip() if lines else f"ended with exit code {child.returncode}")[:200]
    if passed:
        return ok(what, f"{last}, after {time.monotonic() - began:.0f} s")
    why = "no worker of a sweep starts without it"
    return bad(what, last, why, f"{sys.executable} -m pip install --force-reinstall rlplan")


def examine(database: str, *, deep: bool = False) -> Iterator[Finding]:
    """Say what this machine can run; `deep` tries what takes longer too."""
    installed = packages.probe()
    yield from packages.check(installed)
    yield from machine.check(machine.probe(installed.torch_cuda))
    yield from storage.check(storage.probe(database))
    if deep:
        yield from (run(*each) for each in TRIES)
