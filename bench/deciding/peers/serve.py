"""Answers jobs, a line of JSON each: which configurations would a peer have chosen at these budgets?

    .venv-peers/bin/python bench/deciding/peers/serve.py < jobs > answers

A job is `{"table": path, "peer": name, "reach": …, "seed": …, "workers": …, "budgets": [GPU-hours…]}`; with `reach`
"short" runs end at four times the budget's share of the full grid, and every budget is a play of its own.
"""

import contextlib
import functools
import json
import logging
import os
import random
import sys
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from board import Levels, SweepState
from clock import Clock, choices
from halving import NAMES as HALVING
from halving import Halving

SHORT = 4.0
warnings.simplefilter("ignore")
logging.disable(logging.WARNING)


def answer(job: dict) -> dict:
    """Play what a job asks for."""
    began = time.process_time()
    board = opened(job["table"]).shuffled(job["seed"])
    budgets = job["budgets"]
    full = sum(np.mean([min(hours[-1], board.target) for hours, _ in seeds]) for seeds in board.runs)
    if job["reach"] == "full" and job["peer"] not in HALVING:
        stretches = played(job, board, 1.0, max(budgets))
        found = [choices(board, stretches, budget) for budget in budgets]
    else:
        found = []
        for budget in budgets:
            reach = min(1.0, SHORT * budget / full) if job["reach"] == "short" else 1.0
            found.append(choices(board, played(job, board, reach, budget), budget))
    return {"choices": found, "cpu": time.process_time() - began}


@functools.lru_cache(maxsize=4)
def opened(path: str) -> SweepState:
    """Read a table."""
    with open(path) as file:
        return SweepState.from_json(json.load(file))


def played(job: dict, board: SweepState, reach: float, limit: float) -> list:
    """Play one peer once."""
    random.seed(job["seed"])
    np.random.seed(job["seed"] % 2**32)
    levels = Levels(board, reach)
    family, _, name = job["peer"].partition("/")
    if job["peer"] in HALVING:
        tuner = Halving(job["peer"], board, levels, limit / board.target * levels.most, job["seed"])
    elif family == "syne-tune":
        from with_syne_tune import SyneTune

        tuner = SyneTune(name, board, levels, job["workers"], job["seed"])
    elif family == "optuna":
        from with_optuna import Optuna

        tuner = Optuna(name, board, levels, job["workers"], job["seed"])
    else:
        from with_hpbandster import HpBandSter

        tuner = HpBandSter(name, board, levels, job["workers"], job["seed"])
    return Clock(board, levels, job["workers"], limit).play(tuner)


if __name__ == "__main__":
    for line in sys.stdin:
        with contextlib.redirect_stdout(sys.stderr):
            reply = answer(json.loads(line))
        print(json.dumps(reply), flush=True)
