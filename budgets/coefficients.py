"""The coefficients of the cost model: how far from nominal each part of a step is, and how well that is known.

Before a step of one's own is measured they come from runs that other people published. The fit is
`bench/fit_prices.py`; it writes `catalogue/efficiencies.toml`, which this file reads. A trainer that has been seen has
a factor of its own; one that has not is taken to be as far off as those are from each other.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import product

from budgets import catalogue
from budgets.hardware import Gpu
from budgets.work import Driver, Seconds, total

# How far a coefficient may lie from its nominal value where nothing was ever measured, as a log standard deviation:
# 0.35 is a factor of 1.8 either way at 90 %. Efficiencies of bandwidth and operations are known best.
PRIOR_LOG_SD: dict[Driver, float] = {
    Driver.DECODE_OVERHEAD: 0.60,
    Driver.DECODE_BANDWIDTH: 0.35,
    Driver.DECODE_COMPUTE: 0.35,
    Driver.PREFILL_COMPUTE: 0.35,
    Driver.REWARD: 1.00,
    Driver.TRAIN_COMPUTE: 0.40,
    Driver.FIXED: 0.80,
    Driver.WEIGHT_SYNC: 0.80,
    Driver.EXPERTS: 0.80,
    Driver.SAVING: 0.60,
    Driver.GATHERING: 0.80,
    Driver.OFFLOADING: 0.80,
    Driver.TOOLS: 0.40,
}
PRIOR_LENGTH_LOG_SD = 0.35
WITHOUT_LENGTH = (Driver.FIXED, Driver.WEIGHT_SYNC, Driver.SAVING)  # what takes as long whatever the responses' length
# What the form itself leaves out (restarts, stragglers, a slower engine than assumed), where no published run is like
# what is priced. Where steps were measured it is what their seconds leave unexplained, at least a floor.
UNMODELLED_LOG_SD = 0.60
UNMODELLED_FLOOR_LOG_SD = 0.03

# The constants that are fitted, each to the drivers that the published runs cannot tell apart.
CONSTANTS: dict[str, tuple[Driver, ...]] = {
    "decode": (Driver.DECODE_OVERHEAD, Driver.DECODE_BANDWIDTH, Driver.DECODE_COMPUTE, Driver.PREFILL_COMPUTE),
    "train": (Driver.TRAIN_COMPUTE,),
    "experts": (Driver.EXPERTS,),
    "fixed": (Driver.FIXED,),
    "sync": (Driver.WEIGHT_SYNC,),
}

# What strangers wait longer for as well, though no benchmark tells its constant.
NOT_FITTED = (Driver.GATHERING, Driver.OFFLOADING)

# Trainers that always score the rollouts with the policy that made them, before they train on them.
RECOMPUTING = frozenset({"verl", "nemo-rl", "openrlhf", "skyrl", "slime", "easyr1", "rlinf"})

# Trainers that send LoRA adapters alone to the engines: verl (docs/advance/ppo_lora.rst), SkyRL (its pull request 1329)
# and prime-rl (configs/rl.py, auto_setup_lora). The others merge them and send all weights, as TRL's GRPOTrainer does.
SENDING_ADAPTERS = frozenset({"verl", "skyrl", "prime-rl"})

# Trainers whose mixtures of experts are transformers' own modules.
LOOPING_EXPERTS = frozenset({"verl", "easyr1", "openrlhf", "trl", "unsloth"})
PADDING = frozenset({"trl", "unsloth"})  # trainers whose micro-batches are padded, not packed


@dataclass(frozen=True)
class Coefficients:
    """Logarithms of the drivers' factors: means, covariances, and how well the mean response length is known."""

    log_mean: Mapping[Driver, float] = field(default_factory=lambda: dict.fromkeys(Driver, 0.0))
    log_covariance: Mapping[tuple[Driver, Driver], float] = field(
        default_factory=lambda: {(driver, driver): sd**2 for driver, sd in PRIOR_LOG_SD.items()}
    )
    length_log_sd: float = PRIOR_LENGTH_LOG_SD
    unmodelled_log_sd: float = UNMODELLED_LOG_SD
    evidence: str = ""  # whose measured steps these are from
    measured_lengths: bool = False  # whether the mean response is theirs

    def apply(self, seconds: Seconds) -> Seconds:
        """Turn base seconds into expected ones."""
        return {driver: base * math.exp(self.log_mean[driver]) for driver, base in seconds.items()}

    def log_sd(self, seconds: Seconds) -> float:
        """Return the log standard deviation of a sum of expected seconds, to first order in the coefficients."""
        whole = total(seconds)
        share = {driver: part / whole for driver, part in seconds.items()}
        variance = math.fsum(
            share[a] * share[b] * covariance
            for (a, b), covariance in self.log_covariance.items()
            if a in share and b in share
        )
        with_length = 1 - math.fsum(share.get(driver, 0.0) for driver in WITHOUT_LENGTH)
        unmodelled = max(UNMODELLED_FLOOR_LOG_SD, self.unmodelled_log_sd)
        return math.sqrt(max(0.0, variance) + (with_length * self.length_log_sd) ** 2 + unmodelled**2)


@dataclass(frozen=True, slots=True)
class FittedFactor:
    """A fitted factor as its logarithm, that logarithm's standard deviation, and the workloads that it rests on."""

    log_value: float
    log_sd: float
    workloads: int


UNSEEN_TRAINER = FittedFactor(0.0, 0.26, 0)  # trainers' factors differ by so much in `bench/fit_prices.py`


@dataclass(frozen=True, slots=True)
class Efficiencies:
    """What published runs say: the constants, a factor for each trainer, and how far strangers' runs are from both.

    Benchmarks are tuned runs of those who made the trainer. All others' take longer, and differ more.
    """

    constants: Mapping[str, FittedFactor]
    trainers: Mapping[str, FittedFactor]
    strangers: FittedFactor
    held: tuple[int, int] = (0, 0)  # steps of strangers that were inside their intervals, of how many; sources left out

    def coefficients(self, trainer: str | None = None) -> Coefficients:
        """Return the prior of a trainer's coefficients where a stranger runs it."""
        of_trainer = self.trainers.get(trainer or "", UNSEEN_TRAINER)
        offset = of_trainer.log_value
        log_mean, covariance = dict.fromkeys(Driver, 0.0), Coefficients().log_covariance
        log_mean |= dict.fromkeys(NOT_FITTED, self.strangers.log_value)
        for name, fitted in self.constants.items():
            drivers = CONSTANTS[name]
            log_mean |= dict.fromkeys(drivers, fitted.log_value + offset + self.strangers.log_value)
            covariance = {**covariance, **dict.fromkeys(product(drivers, drivers), fitted.log_sd**2)}
        return Coefficients(
            log_mean, covariance, unmodelled_log_sd=math.hypot(self.strangers.log_sd, of_trainer.log_sd)
        )


def prior(gpu: Gpu, trainer: str | None = None) -> Coefficients:
    """Return the coefficients before anything is measured here: of one process nominal, else of published runs."""
    return Coefficients() if gpu.one_process else shipped().coefficients(trainer)


@cache
def shipped() -> Efficiencies:
    """Read what the catalogue has of published runs."""
    table = catalogue.table("efficiencies")

    def of(kind: str) -> dict[str, FittedFactor]:
        factors = table[kind].items()
        return {
            name: FittedFactor(math.log(factor["value"]), factor["width"], factor["workloads"])
            for name, factor in factors
        }

    strangers = table["runs"]["strangers"]
    covered = strangers["held"], strangers["steps"]
    return Efficiencies(of("constants"), of("trainers"), of("runs")["strangers"], covered)
