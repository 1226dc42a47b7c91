"""A driver that hands one endless segment to an executor on Ray and waits: a program for tests that kill it."""

import json
import sys
from pathlib import Path

from runner.ports.executor import Progress, Work
from runner.sweep.on_ray.executor import RayExecutor

if __name__ == "__main__":
    folder, tag, work = sys.argv[1:]
    executor = RayExecutor(Path(folder), 1, tag)
    executor.assign(Work(**json.loads(work)))
    while True:
        for event in executor.wait(1.0):
            if isinstance(event, Progress):
                sys.stdout.write(f"{event.worker}\n")
                sys.stdout.flush()
