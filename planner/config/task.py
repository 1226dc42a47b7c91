"""How responses are scored: plain checked data, as it stands in rlplan.toml and is stored with each trial."""

from typing import Annotated

from pydantic import Field, field_validator

from planner.tables import Count, NotNegative, Positive, Section


class ProblemSource(Section):
    """Problems to train or to validate on, in whatever form they are."""

    path: str = Field(description="a JSONL, CSV or Parquet file, a folder, or a name that `datasets` loads")
    subset: str | None = Field(None, description="of a data set that has several")
    split: str = Field("train", description="of what `datasets` loads")
    weight: Positive | None = Field(
        None, description="its share of the prompts, beside the other weights; without any, each problem once an epoch"
    )
    prompt: str = Field("prompt", description="its column, text or chat messages; a.b is the field b of the column a")
    answer: str = Field("answer", description="its column")
    answer_after: str | None = Field(None, description="the answer is what follows the last of these, such as ####")


class TaskSection(Section):
    """What problems of your own are asked, and how responses to them are scored."""

    data: list[ProblemSource] = Field([], description="problems to train on, tables [[task.data]], or --problems")
    validation: list[ProblemSource] = Field(
        [],
        description="problems to validate on, tables [[task.validation]], or --validation; else held out of the data",
    )
    system_prompt: str | None = Field(
        None, examples=["Reason step by step."], description="before each prompt that has no system message"
    )
    temperature: Positive = Field(1.0, description="of sampling the responses that are trained on")
    top_p: Annotated[float, Field(gt=0, le=1)] = Field(1.0, description="least probability that is sampled from")
    validation_temperature: NotNegative | None = Field(
        None, examples=[0.6], description="of a validation; without it, the training's"
    )
    validation_top_p: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, examples=[0.95], description="of a validation; without it, the training's"
    )
    chat_template: str | None = Field(
        None, examples=["template.jinja"], description="a file with the chat template, instead of the model's own"
    )
    reward: str = Field(
        "math",
        description="math (math-verify), exact, a Python function as package.module:name or path/to/file.py:name, or "
        "the https:// address of a judge (--reward)",
    )
    reward_seconds: Positive = Field(5.0, description="time limit of one reward")
    reward_range: list[float] = Field(
        [0.0, 1.0],
        min_length=2,
        max_length=2,
        description="what a function or a judge returns for a wrong and for a right response: a score of 0 and of 1, "
        "linear in between, and cut beyond",
    )
    failed_reward: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0, description="score of a response whose reward raised, hung or was no number"
    )
    reward_parallel: Count | None = Field(
        None,
        examples=[16],
        description="processes that score, or calls of a judge at once; without it, a quarter of a machine's cores, at "
        "most 16, or 256 calls",
    )
    reward_retries: int = Field(
        6, ge=0, description="further calls of a judge that does not answer, after 1, 2, 4, … seconds: a minute in all"
    )
    reward_dollars: NotNegative = Field(0.0, description="dollars that one call of a judge costs; they are counted")
    prompt_length: Count | None = Field(
        None,
        examples=[4096],
        description="tokens of the longest prompt that is asked; longer ones are left out and counted, none without it",
    )

    @property
    def validation_sampling(self) -> tuple[float, float]:
        """Temperature and top_p of a validation."""
        temperature = self.temperature if self.validation_temperature is None else self.validation_temperature
        return temperature, self.top_p if self.validation_top_p is None else self.validation_top_p

    @field_validator("reward_range")
    @classmethod
    def _rises(cls, rates: list[float]) -> list[float]:
        if not rates[0] < rates[1]:
            raise ValueError(f"reward_range = {rates}: give the number of a wrong response, then a higher one")
        return rates
