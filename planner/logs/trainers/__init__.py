"""What is known of each trainer: one TOML file each, from the names of its logs and its configuration to ours.

A new trainer is a new file; docs/adopting.md says what stands in it. A pattern is a name in which `*` stands for
anything, and of several the first that a log or a configuration has counts.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from budgets.errors import ConfigError, UnknownNameError, suggest
from budgets.execution import Sharding
from planner.tables import read_tables

SHIPPED = Path(__file__).resolve().parent
WHOLE_STEP = "step"  # seconds of a whole step, where the trainer times it

SHARED_OUT_BY, KEPT_WHOLE_BY = ("fsdp", "zero3", "zero-3", "dtensor"), ("megatron", "zero1", "zero2", "zero-2")

Patterns = tuple[str, ...]

_PHASES = ("generate", "reward", "logprob", "reference", "update", "sync", "validation", "save", WHOLE_STEP)
_METRICS = (
    *("reward", "reward_deviation", "zero_variance_share", "response_tokens", "longest_response_tokens"),
    *("truncated_share", "prompt_tokens", "rollouts", "rollouts_so_far", "output_tokens", "tokens_so_far"),
    *("loss", "grad_norm", "entropy", "kl", "learning_rate"),
    *("clipped_share", "clipped_low_share", "clipped_high_share"),
)
_KEYS = (
    *("rollouts_per_prompt", "prompts_per_batch", "batch_rollouts", "device_batch", "accumulation"),
    *("update_prompts", "update_rollouts", "update_steps", "learning_rate", "model", "seed"),
    *("drawn_updates", "synced_draws", "total_prompts"),
    *("response_tokens", "validation_samples"),
    *("gpus", "nodes", "gpus_per_node", "train_gpus", "infer_gpus", "infer_nodes", "infer_gpus_per_node"),
    *("allocation", "train_devices", "infer_devices"),
    *("generator_nodes", "generator_gpus_per_node", "engines", "engine_gpus", "colocated", "asynchronous"),
    *("max_pixels", "min_pixels", "prompt_tokens", "total_tokens", "epochs", "inner_epochs", "batch_updates"),
    *("dataset", "dataset_problems", "filter_groups", "precision", "fp8_on", "rollout_precision"),
    *("lora_rank", "lora_on", "zero_stage", "engine_tensor_parallel"),
    *("train_tensor_parallel", "train_pipeline_parallel"),
    *("activation_checkpointing", "optimizer_offload", "parameter_offload", "engine_memory_share"),
    *("dynamic_batches", "micro_batch_tokens", "micro_batch_sequences", "sharding"),
    *("validation_on", "validation_every", "validation_problems", "validation_data", "device_validation"),
    *("save_on", "save_every", "save_async", "keep_checkpoints", "resume"),
    *("lr_schedule", "schedule_steps", "warmup_steps", "warmup_share"),
    *("kl", "kl_on", "kl_off", "clip_low", "clip_high", "staleness"),
    *("turns", "turn_tokens", "tool_tokens", "tool_seconds"),
    *("share_of", "rollouts_per_batch_at_least", "total_rollouts"),
)
_TABLES = {"metrics": _METRICS, "seconds": _PHASES, "keys": _KEYS, "defaults": _KEYS, "assumed": _KEYS}


@dataclass(frozen=True, eq=False)  # there is one of a name
class Trainer:
    """The names of one trainer, as its file has them."""

    name: str
    marks: Patterns  # by which its logs are known
    validation: Patterns  # series that may serve as the score
    metrics: Mapping[str, Patterns]
    seconds: Mapping[str, tuple[Patterns, ...]]  # of each phase; the parts of a phase are added up
    keys: dict[str, Patterns]  # of its configuration
    defaults: Mapping[str, Any]  # what it takes where its configuration says nothing
    assumed: dict[str, Any] = field(default_factory=dict)  # likewise, where the whole configuration is known
    recipes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # any of its keys with this value tells it
    sharding: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # likewise, how the weights are kept
    started_sharding: str = ""  # and as rlplan starts it, where not as it does unasked
    doubts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # likewise, what its settings do not say
    forks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # what others call and take otherwise
    entries: Patterns = ()  # words of the command that starts it
    own_files: Patterns = ()  # of settings, which it brings: they are no part of a script
    outside: Patterns = ("validation", "save")  # phases that the time of a whole step does not hold
    validates_first: bool = False  # whether the validation that is logged with a step is of the weights before it
    written: str = "{key}={value}"  # how its command line has a key; {flag} is the key with hyphens
    by_hand: str | None = None  # what to mind about these keys besides
    launcher: str | None = None  # what stands before them, on {gpus} GPUs of {nodes} nodes
    counts_updates: bool = False  # whether its steps are updates; those of others are batches

    def as_forked(self, words: Collection[str], configuration: Collection[str]) -> "Trainer":
        """Return the fork of it that a command's words start, or that settings are of; itself where none is."""
        for name, fork in self.forks.items():
            entries = fork.get("entries", ())
            started = any(fnmatchcase(word, entry) for entry in entries for word in words)
            if started or any(mark in configuration for mark in fork.get("marks", ())):
                keys, assumed = self.keys | fork.get("keys", {}), self.assumed | fork.get("assumed", {})
                doubts = self.doubts | fork.get("doubts", {})
                entries = (*self.entries, *entries)
                return replace(self, name=name, entries=entries, keys=keys, assumed=assumed, doubts=doubts)
        return self


def trainer_names() -> list[str]:
    """List the trainers whose logs and settings are known."""
    return sorted(file.stem for file in SHIPPED.glob("*.toml"))


@cache
def load_trainer(name: str) -> Trainer:
    """Return what is known of a trainer."""
    if name not in trainer_names():
        raise UnknownNameError("trainer", name, trainer_names(), f"Its names go into {SHIPPED}/{name}.toml")
    return read_trainer(SHIPPED / f"{name}.toml")


def read_trainer(path: Path) -> Trainer:
    """Read the file of a trainer; ConfigError names the file, what is wrong in it, and what may stand there."""
    tables: dict[str, Any] = read_tables(path, "trainer", f"known are {', '.join(trainer_names())}")
    our_names = [attribute.name for attribute in fields(Trainer) if attribute.name != "name"]
    _require_known(path, "", tables, [*our_names, "prefixes"])
    if missing := [name for name in ("marks", "validation") if not tables.get(name)]:
        raise ConfigError(f"{path} lacks {' and '.join(missing)}: name series of its logs, such as marks = ['loss']")
    prefixes = ("", *_patterns(path, "prefixes", tables.pop("prefixes", [])))
    for name in {"marks", "validation", "outside", "entries", "own_files"} & tables.keys():
        tables[name] = _patterns(path, name, tables[name], prefixes if name in ("marks", "validation") else ("",))
    for table, allowed in _TABLES.items():
        _require_known(path, f"{table}.", tables.setdefault(table, {}), allowed)
    for table, read, before in (
        ("metrics", _patterns, prefixes),
        ("seconds", _parts, prefixes),
        ("keys", _patterns, ("",)),
    ):
        tables[table] = {name: read(path, f"{table}.{name}", value, before) for name, value in tables[table].items()}
    for name, fork in tables.get("forks", {}).items():
        for table in ("keys", "assumed"):
            _require_known(path, f"forks.{name}.{table}.", fork.get(table, {}), _KEYS)
        keys = fork.get("keys", {})
        fork["keys"] = {
            ours: tuple(_patterns(path, ours, our_names)) if our_names else () for ours, our_names in keys.items()
        }
    return Trainer(name=path.stem, **tables)


def sharding(trainer: str, backend: str = "") -> Sharding:
    """Return how a trainer shares weights out, by what trains beneath it, else as it or the trainer of a fork does."""
    strategy = (backend or _usual_sharding(trainer)).casefold()
    if any(word in strategy for word in SHARED_OUT_BY):
        return "always"
    return "never" if any(word in strategy for word in KEPT_WHOLE_BY) else "needed"


@cache
def _usual_sharding(trainer: str) -> str:
    for names in map(load_trainer, trainer_names()):
        if trainer in (names.name, *names.forks):
            usual = {**names.defaults, **names.assumed, **names.forks.get(trainer, {}).get("assumed", {})}
            return names.started_sharding or str(usual.get("sharding", ""))
    return ""


def _require_known(path: Path, above: str, table: object, allowed: Sequence[str]) -> None:
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: {above[:-1]} = {table!r} should be a table, [{above[:-1]}]")
    if unknown := next((name for name in table if name not in allowed), None):
        raise ConfigError(f"{path}: unknown key '{above}{unknown}': {suggest(unknown, allowed)}")


def _parts(path: Path, key: str, value: object, prefixes: Patterns) -> tuple[Patterns, ...]:
    if isinstance(value, dict) and [*value] == ["sum"] and isinstance(value["sum"], list):
        return tuple(_patterns(path, f"{key}.sum", part, prefixes) for part in value["sum"])
    return (_patterns(path, key, value, prefixes),)


def _patterns(path: Path, key: str, value: object, prefixes: Patterns = ("",)) -> Patterns:
    names = [value] if isinstance(value, str) else value
    if isinstance(names, list) and all(isinstance(name, str) and name for name in names):
        return tuple(prefix + name for name in names for prefix in prefixes)
    raise ConfigError(f"{path}: {key} = {value!r} should be a name, or a list of names of which the first found counts")
