"""The whole examination: what is probed, and what is said about it."""

from collections.abc import Iterator

from rlplan.doctor import machine, packages, storage
from rlplan.doctor.finding import Finding


def examine(database: str, *, deep: bool = False) -> Iterator[Finding]:
    """Say what this machine can run; `deep` tries what takes longer too."""
    installed = packages.probe()
    yield from packages.check(installed)
    yield from machine.check(machine.probe(installed.torch_cuda))
    yield from storage.check(storage.probe(database))
    if deep:
        from rlplan.doctor import deep as tries  # noqa: PLC0415

        yield from tries.check(tries.probe())
