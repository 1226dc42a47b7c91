"""What is set for prime-rl alone: `[trainer.options]`."""

from typing import Any

from pydantic import Field

from planner.checking import Count, Section


class PrimeRlOptions(Section):
    """How prime-rl runs, of which nothing but `settings` changes what it computes."""

    train_gpus: Count | None = Field(None, description="GPUs that train; the others generate. Else half of them")
    renderer: str = Field("default", description="orchestrator.renderer.name; 'default' is the model's chat template")
    first_port: Count | None = Field(None, description="of the eight that a trial takes; else by its first GPU")
    settings: dict[str, Any] = Field({}, description="further keys of its RLConfig, dotted, which must not be ours")
