"""Which GPUs of a run generated and which trained, whether they took turns, and how often a batch was used."""

from dataclasses import dataclass

from planner.adopting.configuration import Flat
from planner.adopting.settings import known_of, updates_of, whole


@dataclass(frozen=True, slots=True)
class Split:
    """How a run's GPUs were used, as far as its settings say; all took turns where they say nothing."""

    generator_gpus: int | None = None  # None: all of them
    engine_gpus: int | None = None  # of one inference engine
    asynchronous: bool = False
    updates: int = 1  # of a batch

    def of(self, gpus: int) -> tuple[int, int, bool]:
        """Return how many of a run's GPUs generated, how many trained, and whether they are the same."""
        if self.generator_gpus is None or not 0 < self.generator_gpus < gpus:
            return gpus, gpus, True
        return self.generator_gpus, gpus - self.generator_gpus, False


def split_of(trainer: str | None, found: Flat, n: int | None, prompts: int | None) -> Split:
    """Return what a configuration says of it, by the keys of its trainer."""
    known = known_of(trainer, found)
    generators = None if known.get("colocated") else _generators(known)
    return Split(
        generators,
        whole(known, "engine_gpus") or None,
        bool(known.get("asynchronous")) and generators is not None,
        updates_of(known, n, prompts),
    )


def _generators(known: Flat) -> int | None:
    if given := whole(known, "infer_gpus"):
        return given
    for kind in ("infer", "generator"):
        nodes = whole(known, f"{kind}_nodes")
        if per_node := whole(known, f"{kind}_gpus_per_node"):  # with 0 nodes verl means that all take turns
            return None if nodes == 0 else per_node * (nodes or 1)
    engines = whole(known, "engines")
    return engines * (whole(known, "engine_gpus") or 1) if engines else None
