"""How a recipe is run, where that changes what a step costs or what fits: engines, packing, adapters, precision."""

from dataclasses import dataclass

from budgets.errors import InputError

SAVE_SECONDS, SAVE_SHARE = 600.0, 0.02  # between saves, and of the time that they take at most where nobody says
RULE_SECONDS = 2e-5  # of a rule on the CPU for one rollout: an order of magnitude that no run's phases contradict


@dataclass(frozen=True, slots=True)
class Execution:
    """What today's trainers do, unless something else is said."""

    engine_gpus: int | None = None  # of each inference engine; None: as trainers size them
    packing: bool = True  # sequences follow each other without padding
    micro_batch: int = 4  # sequences that are padded to the longest of them where they are not packed
    lora_rank: int | None = None  # None: all weights are trained
    sends_adapters: bool = False  # with LoRA the engines get the adapters alone, else the merged weights
    speculation: float = 1.0  # times as fast as without do the engines decode, where a draft is only checked
    fp8_rollouts: bool = False  # the engines' linear layers hold one byte a weight
    fp8_training: bool = False  # matrix products alone; states stay as wide as they are
    reward_seconds: float = RULE_SECONDS  # for one rollout
    reward_parallel: int = 1  # rollouts that are scored at once
    save_seconds: float | None = None  # from one checkpoint to the next; None: saving is not counted
    save_share: float | None = None  # of the time that saves take at most, since they are rarer for it; None: any

    def __post_init__(self) -> None:
        if self.micro_batch < 1 or self.reward_parallel < 1 or not self.reward_seconds > 0:
            raise InputError(
                f"a micro-batch of {self.micro_batch}, a reward of {self.reward_seconds:g} s and "
                f"{self.reward_parallel} at once: sequences and rewards are at least 1, and seconds are positive"
            )
        if not self.speculation >= 1:
            raise InputError(f"speculation {self.speculation:g}: decoding is at least 1 times as fast with it")
        if self.engine_gpus is not None and self.engine_gpus < 1:
            raise InputError(f"engines of {self.engine_gpus} GPUs: give at least 1, or leave it out")
        if self.lora_rank is not None and self.lora_rank < 1:
            raise InputError(f"LoRA of rank {self.lora_rank}: it must be at least 1; leave it out to train all weights")

    @property
    def slow_reward(self) -> bool:
        """Whether scoring takes longer than a rule, whose microseconds a validation does not count."""
        return self.reward_seconds > RULE_SECONDS

    def deviations(self) -> list[str]:
        """Say what is not as today's trainers do it."""
        parts = [] if self.engine_gpus is None else [f"engines of {self.engine_gpus} GPUs"]
        parts += [] if self.packing else [f"padded to the longest of {self.micro_batch}"]
        if self.lora_rank is not None:
            parts.append(
                f"LoRA of rank {self.lora_rank}, {'adapters' if self.sends_adapters else 'merged weights'} sent"
            )
        parts += [f"speculative decoding, × {self.speculation:g}"] if self.speculation > 1 else []
        parts += ["rollouts in fp8"] if self.fp8_rollouts else []
        parts += ["training in fp8"] if self.fp8_training else []
        if self.slow_reward:
            parts.append(f"{self.reward_seconds:g} s to score a rollout, {self.reward_parallel} at once")
        return parts


USUAL = Execution()
