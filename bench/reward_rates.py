"""How many answers a second the pool of reward processes judges: python bench/reward_rates.py [--processes 1 2].

Answers are mathematics, each other than the last, so that nothing is remembered: a short derivation of 50 to 400 words
that ends in a boxed fraction, a surd, or what has variables or members. Sizes of the pool take turns, since the machine
may be shared; the seconds of CPU that the processes took say what a free core would do, and those of this process how
many it could feed.
"""

import argparse
import os
import random
import resource
import statistics
import time

from runner.ports.task import Problem
from runner.ports.trial import TaskChoice
from runner.tasks.rewards import make_reward

TEXT = "we add both sides of the equation so that the sum is then x^2 + 3x = 12 and its root is what we want"
BAR = 16_384  # answers of a large update
ALIKE = 4  # different answers to a prompt, where some are repeated
FRACTION = "\\frac{{{top}}}{{1000003}}"
FORMS = {  # and the right answer to each
    "fractions": (FRACTION, "\\frac{7}{3}"),
    "surds": ("{top} + \\sqrt{{{top}3}}", "\\frac{7}{3}"),
    "variables": ("x^2 + {top}x", "x^2 + 3x"),
    "equations": ("y = {top}x + 2", "y = 3x + 2"),
    "tuples": ("({top}, 7)", "(3, 7)"),
    "sets": ("\\{{{top}, 2, 5\\}}", "\\{1, 2, 5\\}"),
}


def answers(count: int, drawn: random.Random, different: int | None, form: str = FRACTION) -> list[str]:
    """Return answers, of which so many differ in what stands in their box."""
    found = []
    for _ in range(count):
        body = " ".join(drawn.choices(TEXT.split(), k=drawn.randint(50, 400)))
        top = drawn.randint(1, 10**6) if different is None else drawn.randint(1, different)
        found.append(f"{body}. So it is $\\boxed{{{form.format(top=top)}}}$.")
    return found


def taken(processes: int, texts: list[str], right: str = "7") -> tuple[float, float, float]:
    """Return the seconds of a batch, without the start of the processes, of all their CPU, and of this one's."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    reward = make_reward(TaskChoice(name="rates", reward="math", reward_parallel=processes, reward_seconds=60.0))
    problem = Problem("p", "x?", right)
    reward.score([problem] * 64, answers(64, random.Random(0), None))  # starts them all
    began, own = time.perf_counter(), time.process_time()
    scored = reward.score([problem] * len(texts), texts)
    seconds, own = time.perf_counter() - began, time.process_time() - own
    assert not scored.failures
    reward.close()
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, own


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--answers", type=int, default=1000, help="of a batch")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    drawn = random.Random(1)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {given.rounds} batches of {given.answers} answers\n")
    head = ("answers", "processes", "answers/s (median)", "times 1 process", f"{BAR:,} answers take", "CPU an answer")
    print(f"| {' | '.join(head)} | of this process |")
    print("|---|---|---|---|---|---|---|")
    starts = {processes: taken(processes, [])[1] for processes in given.processes}
    kinds = [(name, None, *form) for name, form in FORMS.items()]
    for name, different, form, right in (*kinds, (f"{ALIKE} different", ALIKE, *FORMS["fractions"])):
        measured: dict[int, list[tuple[float, float, float]]] = {processes: [] for processes in given.processes}
        for _ in range(given.rounds):
            for processes, found in measured.items():
                found.append(taken(processes, answers(given.answers, drawn, different, form), right))
        rates = {many: given.answers / statistics.median(each[0] for each in found) for many, found in measured.items()}
        for processes, rate in rates.items():
            cpu = (statistics.median(each[1] for each in measured[processes]) - starts[processes]) / given.answers
            times = rate / rates[given.processes[0]]
            own = statistics.median(each[2] for each in measured[processes]) / given.answers
            print(
                f"| {name} | {processes} | {rate:,.0f} | {times:.2f} | {BAR / rate:,.0f} s | {1000 * cpu:.1f} ms "
                f"| {1e6 * own:.0f} µs |"
            )


if __name__ == "__main__":
    main()
