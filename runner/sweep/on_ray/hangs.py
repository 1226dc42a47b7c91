"""Which nodes hang: two segments in a row that hung on a node, and it is left out."""

from collections import defaultdict
from collections.abc import Iterable

HANG = "hang"  # the kind of failure
MOST_HANGS = 2  # in a row on one node


class Hangs:
    """Counts hangs by node, until a segment ends well there, and remembers where each trial hung.

    A trial that hung is tried again elsewhere: if it hangs there too the nodes have one each, and the fault is its own.
    """

    def __init__(self) -> None:
        self._in_a_row: defaultdict[str, int] = defaultdict(int)
        self._of_trial: defaultdict[int, set[str]] = defaultdict(set)

    def hung(self, trial: int, nodes: Iterable[str]) -> set[str]:
        """Note that a segment hung on some nodes, and return those that are left out from now on."""
        before = self.left_out
        for node in set(nodes):
            self._in_a_row[node] += 1
            self._of_trial[trial].add(node)
        return self.left_out - before

    def ended_well(self, nodes: Iterable[str]) -> None:
        """Note that a segment ended well."""
        for node in nodes:
            self._in_a_row.pop(node, None)

    @property
    def left_out(self) -> set[str]:
        """The nodes on which no trial is run."""
        return {node for node, hangs in self._in_a_row.items() if hangs >= MOST_HANGS}

    def unwanted_for(self, trial: int) -> set[str]:
        """Return the nodes on which a trial is not to run."""
        return self.left_out | self._of_trial[trial]
