"""What of a run changes its price beside the recipe: plain checked data, as it stands in rlplan.toml."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from budgets.coefficients import LOOPING_EXPERTS, PADDING, SENDING_ADAPTERS
from budgets.errors import ConfigError
from budgets.execution import RULE_SECONDS, SAVE_SECONDS, SAVE_SHARE, USUAL, Execution
from budgets.hardware import Gpu
from planner.logs.trainers import sharding
from planner.tables import Count, NotNegative, Positive, Section

# Seconds to score one rollout, and how many are scored at once. 256: what verl's example allows its sandbox
# (docs/examples/sandbox_fusion_example.rst); the seconds are assumed, within a factor of 5 as for every reward.
REWARDS: dict[str, tuple[float, int]] = {"rule": (RULE_SECONDS, 1), "sandbox": (1.0, 256), "judge": (5.0, 256)}


class TokenPrices(Section):
    """Dollars for a million tokens, where a service trains; what is 0 is not charged."""

    prefill: NotNegative = Field(0.0, description="tokens of prompts that are read")
    sample: NotNegative = Field(0.0, description="tokens of responses that are generated")
    train: NotNegative = Field(0.0, description="tokens that are trained on, of prompts and responses")

    def dollars(self, tokens: Mapping[str, float]) -> float | None:
        """Return what tokens cost; None where nothing is charged."""
        prices = self.model_dump()
        return sum(price * tokens[kind] for kind, price in prices.items()) / 1e6 if any(prices.values()) else None


class CostSection(Section):
    """What of a run changes its price beside the recipe; of it LoRA alone is set in the trainer."""

    engine_gpus: Count | None = Field(
        None,
        examples=[4],
        description="GPUs of each inference engine (tensor parallel); without it, the fewest whose memory the weights "
        "fill at most half",
    )
    packing: bool | None = Field(
        None,
        examples=[False],
        description="whether the trainer packs sequences one after another, or pads them to the longest of a "
        "micro-batch; without it, as the trainer does unasked: TRL pads",
    )
    micro_batch: Count | None = Field(
        None,
        examples=[4],
        description="sequences of a micro-batch on each GPU; without it, 4 where they are padded, else 16,384 tokens "
        "or one longest sequence",
    )
    optimizer_offload: bool = Field(USUAL.offloads_optimizer, description="whether the optimizer is on the CPU")
    node_link: Positive = Field(
        USUAL.node_link_gb_per_s, description="GB/s at which each GPU that trains gets weights from other nodes"
    )
    inference_engine: bool = Field(
        USUAL.engines, description="false: the trainer's own model generates, as TRL without vLLM"
    )
    prefix_caching: bool = Field(True, description="whether engines keep what a turn has read for the next one")
    lora_rank: Count | None = Field(
        None, examples=[32], description="rank of LoRA adapters on every projection; without it, all weights train"
    )
    # 32: Schulman et al., LoRA Without Regret, 2025; the default of prime-rl and NeMo-RL.
    lora_alpha: Count = Field(32, description="what the trainer scales adapters by, over their rank")
    speculation: float = Field(
        USUAL.speculation,
        ge=1,
        examples=[2.0],
        description="how many times as fast the engines decode with speculative decoding as without",
    )
    rollout_precision: Literal["bf16", "fp8"] = Field("bf16", description="bf16 or fp8: the weights of the engines")
    training_precision: Literal["bf16", "fp8"] = Field("bf16", description="bf16 or fp8: the trainer's products")
    reward: Literal["rule", "sandbox", "judge"] = Field(
        "rule", description="what scores a rollout: a rule on the CPU, a sandbox that runs code, or a judge model"
    )
    reward_seconds: Positive | None = Field(
        None, examples=[1.0], description="seconds to score one rollout; without it: rule 0.00002, sandbox 1, judge 5"
    )
    reward_parallel: Count | None = Field(
        None, examples=[256], description="rollouts scored at once; without it: rule 1, sandbox and judge 256"
    )
    per_million: TokenPrices = Field(default_factory=TokenPrices)


def execution_of(section: CostSection, trainer: str, gpu: Gpu, save_seconds: float | None) -> Execution:
    """Return how a recipe is run; ConfigError where our own trainer on a CPU does none of that.

    Without `save_seconds` saves are as rare as it takes.
    """
    seconds, parallel = REWARDS[section.reward]
    execution = Execution(
        engine_gpus=section.engine_gpus,
        packing=trainer not in PADDING if section.packing is None else section.packing,
        micro_batch=section.micro_batch,
        engines=section.inference_engine,
        sharding=sharding(trainer),
        loops_experts=trainer in LOOPING_EXPERTS,
        offloads_optimizer=section.optimizer_offload,
        node_link_gb_per_s=section.node_link,
        lora_rank=section.lora_rank,
        sends_adapters=trainer in SENDING_ADAPTERS,
        speculation=section.speculation,
        fp8_rollouts=section.rollout_precision == "fp8",
        fp8_training=section.training_precision == "fp8",
        reward_seconds=section.reward_seconds or seconds,
        reward_parallel=section.reward_parallel or parallel,
        save_seconds=None if gpu.one_process else save_seconds or SAVE_SECONDS,
        save_share=SAVE_SHARE if save_seconds is None else None,
    )
    engines = execution.engine_gpus or execution.fp8_rollouts or execution.speculation > 1
    if gpu.one_process and (engines or execution.fp8_training or execution.lora_rank or section.packing is False):
        raise ConfigError(
            "[cost] engine_gpus, packing, lora_rank, speculation and precisions are of trainers on GPUs: on "
            f"{gpu.name} our own trains all weights in one precision. Leave them out, or give another --gpu"
        )
    return execution
