"""How a recipe is run, where that changes what a step costs or what fits: engines, packing, adapters, precision."""

from dataclasses import dataclass
from typing import Literal

from budgets.errors import InputError

SAVE_SECONDS, SAVE_SHARE = 600.0, 0.02  # between saves, and of the time that they take at most where nobody says
PADDED_TO = 4
RULE_SECONDS = 2e-5  # of a rule on the CPU for one rollout: an order of magnitude that no run's phases contradict


Sharding = Literal["always", "needed", "never"]


@dataclass(frozen=True, slots=True)
class Execution:
    """What today's trainers do, unless something else is said."""

    engine_gpus: int | None = None  # of each inference engine; None: as trainers size them
    packing: bool = True  # sequences follow each other without padding
    micro_batch: int | None = None  # sequences of one on each GPU; None: 4 padded ones, else 16,384 tokens at least
    lora_rank: int | None = None  # None: all weights are trained
    sends_adapters: bool = False  # with LoRA the engines get the adapters alone, else the merged weights
    speculation: float = 1.0  # times as fast as without do the engines decode, where a draft is only checked
    fp8_rollouts: bool = False  # the engines' linear layers hold one byte a weight
    fp8_training: bool = False  # matrix products alone; states stay as wide as they are
    reward_seconds: float = RULE_SECONDS  # for one rollout
    reward_parallel: int = 1  # rollouts that are scored at once
    engines: bool = True  # inference engines generate; false: the trainer's own model, a micro-batch at a time
    sharding: Sharding = "needed"  # whether weights are shared out, and gathered for each pass (FSDP, ZeRO-3)
    loops_experts: bool = False  # experts are trained one after the other, as in transformers' own modules
    offloads_optimizer: bool = False  # it is on the CPU
    # What weights travel at between nodes to each GPU that needs all of them. Links are 1 to 50 GB/s a GPU; a trainer
    # of 7B on 32 to 128 GPUs was never below 15, one of 32B on 16 was at 7 in its forward passes.
    node_link_gb_per_s: float = 12.0
    save_seconds: float | None = None  # from one checkpoint to the next; None: saving is not counted
    saves_aside: bool = False  # a checkpoint is written beside training, which waits for its copy on the host alone
    save_share: float | None = None  # of the time that saves take at most, since they are rarer for it; None: any

    def __post_init__(self) -> None:
        if self.padded_to < 1 or self.reward_parallel < 1 or not self.reward_seconds > 0:
            raise InputError(
                f"a micro-batch of {self.padded_to}, a reward of {self.reward_seconds:g} s and "
                f"{self.reward_parallel} at once: sequences and rewards are at least 1, and seconds are positive"
            )
        if not self.speculation >= 1:
            raise InputError(f"speculation {self.speculation:g}: decoding is at least 1 times as fast with it")
        if self.engine_gpus is not None and self.engine_gpus < 1:
            raise InputError(f"engines of {self.engine_gpus} GPUs: give at least 1, or leave it out")
        if self.lora_rank is not None and self.lora_rank < 1:
            raise InputError(f"LoRA of rank {self.lora_rank}: it must be at least 1; leave it out to train all weights")

    @property
    def padded_to(self) -> int:
        """Sequences that are padded to the longest of them where they are not packed."""
        return PADDED_TO if self.micro_batch is None else self.micro_batch

    @property
    def slow_reward(self) -> bool:
        """Whether scoring takes longer than a rule, whose microseconds a validation does not count."""
        return self.reward_seconds > RULE_SECONDS

    def deviations(self) -> list[str]:
        """Say what is not as today's trainers do it."""
        parts = [] if self.engine_gpus is None else [f"engines of {self.engine_gpus} GPUs"]
        parts += [] if self.packing else [f"padded to the longest of {self.padded_to}"]
        if self.lora_rank is not None:
            parts.append(
                f"LoRA of rank {self.lora_rank}, {'adapters' if self.sends_adapters else 'merged weights'} sent"
            )
        parts += [] if self.engines else ["no inference engine"]
        parts += ["the optimizer on the CPU"] if self.offloads_optimizer else []
        parts += [f"speculative decoding, × {self.speculation:g}"] if self.speculation > 1 else []
        parts += ["rollouts in fp8"] if self.fp8_rollouts else []
        parts += ["training in fp8"] if self.fp8_training else []
        if self.slow_reward:
            parts.append(f"{self.reward_seconds:g} s to score a rollout, {self.reward_parallel} at once")
        return parts


USUAL = Execution()
