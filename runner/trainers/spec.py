"""What a trainer's table says: how it is started, which keys it gets, which files it reads, what it does otherwise.

`runner/trainers/NAME/trainer.toml` holds one. A text with braces is an expression over the names of values.py, as
render.py evaluates it; `{omit}` leaves a key out. table.py makes a driver of it.
"""

import tomllib
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Annotated, Any, Literal, Self

from pydantic import Field, create_model

from budgets import memory
from budgets.memory_plan import Means
from planner.checking import Count, Positive, Section
from planner.config.trainer import BUILTIN, COMMAND, STANDIN, TRAINERS
from runner.trainers.failures import OUT_OF_MEMORY

Table = dict[str, Any]
TABLED = tuple(sorted({*TRAINERS} - {BUILTIN, COMMAND, STANDIN}))
_HEADS = {"whole": memory.WHOLE, "chunked": memory.CHUNKED, "fused": memory.FUSED}
_TRAIN_GPUS = "GPUs that train where others generate at the same time; else as the plan's price has"
_KINDS: dict[str, Any] = {
    "text": str,
    "texts": list[str],
    "count": Count,
    "share": Positive,
    "switch": bool,
    "table": dict[str, Any],
    "number": Annotated[int, Field(ge=0)],
}


class Option(Section):
    """A key of [trainer.options]."""

    kind: Literal["text", "texts", "count", "share", "switch", "number", "table"] = "text"
    of: list[str] = Field([], description="the texts that it may be")
    default: Any = None
    required: bool = False
    description: str


class Checkpoints(Section):
    """Where its checkpoints are, relative to the attempt's folder, and what makes one whole."""

    pattern: str = Field(description="with {step}, in the trainer's own steps")
    tracker: str | None = Field(None, description="the file that names the newest whole one")
    holds: list[str] = Field([], description="files without which it is not whole")
    ahead: str | None = Field(None, description="a further one, of what was generated beside the training")
    chosen: str | None = Field(None, description="a file that is given the name of the one to go on from")
    mark: str | None = Field(None, description="the file that a program of ours writes last")


class Files(Section):
    """What is laid into the attempt's folder beside our reward, the problems and run.json."""

    programs: list[str] = Field(["start.py"], description="of the trainer's folder here, which run in its interpreter")
    parts: list[str] = Field([], description="modules of rlplan that they import; inside: those of inside.py")
    rows: list[str] = Field([], description="columns of prompt and place, of train.jsonl and validation.jsonl")
    keys: str | None = Field(None, description="the file of all keys; else they stand in run.json")
    tracker: bool = Field(False, description="whether the tracker is written anew, with where an attempt begins")
    turns: bool = Field(False, description="whether an embedded task's tokenizer has a chat that is the prompt alone")
    judges: str = Field("{1}", description="processes of a machine that score responses at the same time")


class Memory(Section):
    """What the trainer can do to fit, as `Means` has it, and the keys by which it does."""

    shares: Literal["sequence", "tensor", "megatron", "none"] = "sequence"
    heads: list[Literal["whole", "chunked", "fused"]] = Field(
        ["chunked"], description="bytes that it keeps of a logit, as they are tried"
    )
    offloads: str = "{True}"
    sleeps: Literal["always", "never", "asked"] = "always"
    engine_share: float = 0.6
    engine_gpus: str = Field("{None}", description="GPUs of an engine, where that is wanted")
    required: str = Field("{True}", description="whether what cannot fit is refused")
    keys: Table = Field({}, description="by the plan; the user's own win")

    @property
    def means(self) -> Means:
        """Return what it can do on GPUs."""
        sleeps = {"always": True, "never": False, "asked": None}[self.sleeps]
        shares = None if self.shares == "none" else self.shares
        return Means(shares, tuple(_HEADS[each] for each in self.heads), True, sleeps, self.engine_share)


class Refusal(Section):
    """What it cannot run, and what to do instead."""

    when: str
    say: str


class Failure(Section):
    """A pattern in what it prints last, and the kind of failure that this means."""

    kind: Literal["input", "checkpoint", "out-of-memory", "hang"]
    pattern: str = Field(OUT_OF_MEMORY.pattern, description="that of every trainer's out-of-memory unless it is given")


class Loss(Section):
    """What its loss has, for `loss_differences`."""

    clips: list[str]
    aggregations: list[str]
    fixed: str = "{None}"
    by_response: list[str] = Field(["ppo", "none"], description="clips that it has for ratios of responses")
    entropy_alike: bool = False


class Deviation(Section):
    """What it does otherwise with a key of a recipe that has another value, for `Difference`."""

    when: str = "{True}"
    why: str
    instead: Any = "{None}"
    near: str = "{True}"
    ours: bool = True


class Script(Section):
    """How its settings are told from what else stands in a script that starts it."""

    known: list[str] = Field(["*"], description="patterns of its settings")
    decided: list[str] = Field([], description="ours, beyond its keys and the names of planner/logs/trainers")
    options: dict[str, str] = Field({}, description="keys that have a name in [trainer.options]")
    refers: bool = Field(False, description="whether it fills in ${references} itself")
    dashes: bool = Field(False, description="whether its settings have dashes, which scripts may have underscores for")
    listed: str | None = Field(None, description="a file of its settings, where its own parser refuses others")


class TrainerSpec(Section):
    """Everything about a trainer that a table can say."""

    name: str
    title: str = Field(description="in messages")
    argv: list[str] = Field(["start.py"], description="what its interpreter is given")
    form: Literal["flags", "tables", "json", "hydra"] = Field(description="how it takes its keys")
    own_ray: bool = Field(False, description="whether it runs in a Ray of the trial's own")
    everywhere: bool = Field(False, description="whether it is started on every host, and given the host's rank")
    counts_batches: bool = Field(
        False, description="whether each of its steps is a batch, which may be several updates"
    )
    saves_on_request: bool = Field(False, description="whether its program looks for save-now.json")
    asynchronous: Literal["never", "by staleness", "always"] = Field(
        "never", description="whether it generates beside the training: never, where a recipe has a bound, or always"
    )
    horizon: bool = Field(False, description="whether its data are as long as any trial may become: horizon.py")
    rehearses: list[str] = Field([], description="words by which its own parser is asked")
    equal_shares: bool = Field(True, description="whether every GPU that trains has as many rollouts of an update")
    chat: Literal["always", "own", "no"] = Field("no", description="own: but for our embedded tasks")
    clip_lowest: float = Field(1.0, description="its lower clip where the recipe has none")
    clip_highest: float = Field(1e9, description="its upper clip where the recipe has none")
    others: list[str] = Field([], description="how keys begin that known.txt does not list")
    options: dict[str, Option] = Field({}, description="[trainer.options], beside `settings`")
    maps: dict[str, dict[str, str]] = Field({}, description="from our words to its own, for expressions")
    values: Table = Field({}, description="further names for expressions, each by those before it")
    environment: dict[str, str] = Field({}, description="variables of its processes")
    refuses: dict[str, str] = Field({}, description="dotted keys of a trial that it cannot do, with the remedy")
    refusals: list[Refusal] = Field([], description="what else it cannot run")
    failures: list[Failure] = Field([], description="its words of failure; the last line that fits counts")
    checkpoints: Checkpoints
    files: Files = Files()
    run: Table = Field({}, description="what its program is told in run.json beside what every one is")
    keys: Table = Field({}, description="that rlplan decides")
    free: Table = Field({}, description="that the user's own settings may change")
    memory: Memory = Memory()
    loss: Loss
    otherwise: Table = Field({}, description="what ability.py has in OTHERWISE")
    deviations: Table = Field({}, description="a `Deviation` by a recipe's dotted key")
    script: Script = Script()

    @classmethod
    def load(cls, name: str) -> Self:
        """Return the table of a trainer that comes with rlplan."""
        return cls.model_validate(tomllib.loads(folder_of(name).joinpath("trainer.toml").read_text(encoding="utf-8")))

    @cached_property
    def deviating(self) -> dict[str, Deviation]:
        """Return what else it does otherwise, by the recipe's keys."""
        sections = ((section, name, each) for section, keys in self.deviations.items() for name, each in keys.items())
        return {f"{section}.{name}": Deviation.model_validate(each) for section, name, each in sections}

    @cached_property
    def options_model(self) -> type[Section]:
        """Return the model of [trainer.options]."""
        fields: dict[str, Any] = {}
        for name, each in self.options.items():
            kind = Literal[tuple(each.of)] if each.of else _KINDS[each.kind]
            optional = each.default is None and not each.required
            default = ... if each.required else each.default
            fields[name] = (kind | None if optional else kind, Field(default, description=each.description))
        if self.asynchronous != "never" and "vllm_gpus" not in self.options:
            fields["train_gpus"] = (Count | None, Field(None, description=_TRAIN_GPUS))
        fields["settings"] = (dict[str, Any], Field({}, description="further keys of its own, which must not be ours"))
        return create_model("Options", __base__=Section, **fields)


def folder_of(name: str) -> Traversable:
    """Return where a trainer's table lies, with what belongs to it."""
    return files("runner.trainers").joinpath(name.replace("-", "_"))
