"""Trains a trial to its end and saves after every update, for a parent that kills it."""

import sys
from pathlib import Path

from runner.backends.builtin import BuiltinBackend
from runner.ports.backend import Segment
from runner.ports.trial import TrialConfig
from runner.training import checkpoints


def main(config_file: str, folder: str, steps: str) -> None:
    config = TrialConfig.model_validate_json(Path(config_file).read_text())
    backend = BuiltinBackend()
    if checkpoints.exists(Path(folder)):
        backend.restore(config, Path(folder))
    else:
        backend.start(config, Path(folder))
    for point in backend.advance(Segment(int(steps))):
        backend.checkpoint()
        sys.stdout.write(f"{point.optimizer_step}\n")
        sys.stdout.flush()
    backend.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
