"""An accelerator, and how many of them a run has."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from budgets.errors import InputError

USABLE_MEMORY = 0.9  # the rest goes to the driver, the allocator's gaps and graphs

NODE_GPUS = 8
SECONDS_PER_HOUR = 3600.0
LARGEST_BUDGET_GPU_HOURS = 1e9  # a million GPUs for six weeks


def whole_share(gpus: int, per_node: int = NODE_GPUS) -> int:
    """Return the fewest GPUs, at least so many, that are an even part of a node or whole nodes."""
    return next(share for share in count(gpus) if per_node % share == 0 or share % per_node == 0)


def fewest_nodes(gpus: int, per_node: int) -> int:
    """Return the fewest nodes that have so many GPUs in equal parts."""
    return next(nodes for nodes in range(1, gpus + 1) if gpus % nodes == 0 and gpus <= nodes * per_node)


@dataclass(frozen=True, slots=True)
class Gpu:
    """What one accelerator can do; the catalogue file explains each number."""

    name: str
    memory_gb: float
    bandwidth_gb_per_s: float
    dense_tflops: float
    link_gb_per_s: float
    decode_overhead_ms: float
    layer_overhead_us: float
    fixed_overhead_s: float
    start_up_s: float
    dollars_per_hour: float
    gpus_per_node: int = NODE_GPUS
    fp8_times: float = 1.0  # as many operations with fp8 as with bf16; at 1 fp8 weights save bytes alone
    one_process: bool = False  # generates and trains in one process: no engine to wake, nothing to send it

    def __post_init__(self) -> None:
        for quantity in ("memory_gb", "bandwidth_gb_per_s", "dense_tflops", "link_gb_per_s"):
            if not getattr(self, quantity) > 0:
                raise InputError(f"GPU '{self.name}': {quantity} is {getattr(self, quantity)}, it must be positive")
        for quantity in ("decode_overhead_ms", "layer_overhead_us", "fixed_overhead_s", "start_up_s"):
            if not getattr(self, quantity) >= 0:
                raise InputError(f"GPU '{self.name}': {quantity} is {getattr(self, quantity)}, it cannot be negative")
        if not self.fp8_times >= 1:
            raise InputError(f"GPU '{self.name}': fp8_times is {self.fp8_times}, it must be at least 1")
        if self.gpus_per_node < 1:
            raise InputError(f"GPU '{self.name}': gpus_per_node is {self.gpus_per_node}, a node has at least 1")

    @property
    def usable_bytes(self) -> float:
        """Bytes that weights, caches and states may fill."""
        return self.memory_gb * 1e9 * USABLE_MEMORY

    def training_unit(self, gpus: int) -> int:
        """GPUs that train or generate together where a trial of so many is split: one, or a node of several."""
        nodes = fewest_nodes(gpus, self.gpus_per_node)
        return 1 if nodes == 1 else gpus // nodes


@dataclass(frozen=True, slots=True)
class Hardware:
    """So many GPUs of one kind, of which each trial gets the same number."""

    gpu: Gpu
    gpus: int
    gpus_per_trial: int

    def __post_init__(self) -> None:
        if self.gpus < 1:
            raise InputError(f"{self.gpus} GPUs: at least 1 is needed")
        if not 1 <= self.gpus_per_trial <= self.gpus:
            raise InputError(
                f"{self.gpus_per_trial} GPUs per trial of {self.gpus} GPUs: it must lie between 1 and their number"
            )

    @property
    def parallel_trials(self) -> int:
        """How many trials run at the same time."""
        return self.gpus // self.gpus_per_trial

    @property
    def even_shares(self) -> Iterator[int]:
        """How many GPUs a trial may be offered: a part of a node or whole ones, without GPUs that no trial gets."""
        return (share for share in range(1, self.gpus + 1) if self.gpus % share == 0 and self.is_whole(share))

    def is_whole(self, gpus: int) -> bool:
        """Whether so many GPUs are an even part of a node, or whole nodes."""
        return whole_share(gpus, self.gpu.gpus_per_node) == gpus
