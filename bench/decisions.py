"""Regret at the target against pilot GPU-hours: ours and what people use today, over the same recorded curves.

    python bench/decisions.py [--tables simulated held-out allocbench] [--repeats 30] [--workers 1 8] [--out FOLDER]

A method may spend a share of the full grid's cost (one full run of each configuration) and then names a configuration;
its regret is what that one falls short of the best at the target. This is about exploring the whole grid; what
following rlplan brings a run, on the same GPU-hours for all, is bench/evidence.py's. A simulated table is drawn anew
for each repetition. The peers run their own code in an environment of their own
(bench/deciding/README.md says how to make it), see each point when they have paid for it, and are counted with the best
of their settings. What they answered is kept in --cache, so that a rerun plays ours alone.
"""

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from bench.deciding import ours, outcomes, tables, tasking
from bench.deciding.outcomes import Method, Outcome
from bench.deciding.printing import report
from planner.replay.recorded import Recorded

ROOT = Path(__file__).parent.parent
SHARES = (0.02, 0.05, 0.10, 0.20, 0.50)


def main() -> None:
    """Play everything, print the tables and write them."""
    arguments = parsed()
    shares = arguments.budgets
    names = tables.suite_names(arguments.tables)
    tasks = [(name, repeat, arguments) for repeat in range(arguments.repeats) for name in names]
    began = time.perf_counter()
    done: list[Outcome] = []
    with multiprocessing.get_context("spawn").Pool(arguments.processes) as pool:
        for count, found in enumerate(pool.imap_unordered(played, tasks), start=1):
            done += found
            if count % max(1, len(tasks) // 50) == 0:
                minutes = (time.perf_counter() - began) / 60
                print(f"  {count} of {len(tasks)} tables, {minutes:.1f} minutes", end="\r", flush=True)
    print(f"{len(done)} choices in {(time.perf_counter() - began) / 60:.1f} minutes")
    document = report(done, arguments.ours, shares)
    seconds = [one.seconds for one in done if one.method.name == arguments.ours]
    if seconds:
        print(f"\n{arguments.ours}: {sum(seconds) / len(seconds):.2f} CPU-seconds a play, {max(seconds):.1f} at most")
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        outcomes.write(done, arguments.out / "decisions.csv")
        (arguments.out / "decisions.json").write_text(json.dumps(document, indent=1))


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=["allocbench", "simulated", "held-out"], help="or names")
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--slow-repeats", type=int, default=10, help=f"of {', '.join(tasking.SLOW)}")
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--budgets", nargs="+", type=float, default=list(SHARES), help="shares of the full grid")
    parser.add_argument("--no-thirds", action="store_true", help="do not play ours at a third of each budget too")
    parser.add_argument("--ours", default=ours.RLPLAN, help="the policy that is compared with the others")
    parser.add_argument("--policies", nargs="*", default=[ours.RLPLAN, *ours.OWN_PEERS], help="of rlplan's own")
    parser.add_argument("--peers", nargs="*", default=list(tasking.PEERS), help="none: rlplan's own alone")
    parser.add_argument("--peers-python", type=Path, default=ROOT / ".venv-peers/bin/python")
    parser.add_argument("--cache", type=Path, default=ROOT / ".decisions-cache")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, help="a folder for decisions.csv and decisions.json")
    arguments = parser.parse_args()
    if arguments.peers and not arguments.peers_python.exists():
        parser.error(
            f"{arguments.peers_python} is not there: make it as bench/deciding/README.md says, or give --peers"
        )
    return arguments


def own_shares(arguments: argparse.Namespace) -> list[float]:
    """Return the shares of the full grid's cost that ours is played with."""
    thirds = [] if arguments.no_thirds else [share / 3 for share in arguments.budgets]
    return sorted({*arguments.budgets, *thirds})


def played(task: tuple[str, int, argparse.Namespace]) -> list[Outcome]:
    """Play all methods over one table."""
    name, repeat, settings = task
    recorded, target = tables.table(name, repeat)
    full, truth = recorded.full_cost(target), recorded.truth(target)
    game = Game(name, repeat, settings, full, [max(truth.values()) - truth[one] for one in recorded.configurations])
    found = list(_peers(game, recorded, target)) if settings.peers else []
    for workers in settings.workers:
        for policy in settings.policies:
            found += _own(game, recorded, target, policy, workers)
    return found


@dataclass(frozen=True)
class Game:
    """A table that is played over: the cost of its full grid, and the regret of each configuration."""

    table: str
    repeat: int
    settings: argparse.Namespace
    full: float
    regrets: Sequence[float]


def _own(game: Game, recorded: Recorded, target: float, policy: str, workers: int) -> Iterator[Outcome]:
    """Play one of rlplan's policies with every budget."""
    settings = game.settings
    for share in own_shares(settings) if policy == ours.RLPLAN else settings.budgets:
        answers = ours.answers(
            policy,
            recorded,
            budget=share * game.full,
            target=target,
            seed=game.repeat,
            workers=workers,
        )
        for rule, one in answers.items():
            regret = game.regrets[recorded.configurations.index(one.chosen)]
            method = Method(policy, "", rule)
            yield Outcome(game.table, game.repeat, workers, method, share, regret, one.seconds)


def _peers(game: Game, recorded: Recorded, target: float) -> Iterator[Outcome]:
    settings = game.settings
    cache = tasking.Cache(settings.cache)
    digest = cache.put(recorded, target)
    peers = [peer for peer in settings.peers if peer not in tasking.SLOW or game.repeat < settings.slow_repeats]
    server = None
    guess = sum(game.regrets) / len(game.regrets)  # of a method that has seen nothing yet
    for job in tasking.jobs(
        digest, peers, [share * game.full for share in settings.budgets], game.repeat, settings.workers
    ):
        choices, seconds = cache.known(job), 0.0
        if choices is None:
            server = server or tasking.Server(settings.peers_python, cache)
            choices, seconds = server.answer(job)
            cache.keep(job, choices)
        for share, chosen in zip(settings.budgets, choices, strict=True):
            for rule in tasking.RULES:
                regret = game.regrets[chosen[rule]] if chosen else guess
                method = Method(job.peer, job.reach, rule)
                yield Outcome(game.table, game.repeat, job.workers, method, share, regret, seconds)
    if server is not None:
        server.close()


if __name__ == "__main__":
    main()
