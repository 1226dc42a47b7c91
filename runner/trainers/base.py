"""A trainer's driver in plain Python: a class with its keys, its launch, its log, its checkpoints and what it refuses.

`runner/trainers/NAME/driver.py` derives one and ends with `DRIVER = …`. The way of a segment is in driver.py.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

from budgets.errors import InputError
from budgets.memory_plan import Means, MemoryPlan
from planner.logs.trainers import Trainer, load_trainer
from planner.recipes.schema import Recipe
from planner.tables import Section, flattened
from runner.ports.task import Prompt, Task
from runner.ports.trial import Machine, TrialConfig
from runner.tasks.embedded import EMBEDDED
from runner.trainers.capabilities import (
    A_GPU,
    CommonDeviations,
    Deviation,
    Difference,
    Loss,
    as_trained,
    loss_differences,
)
from runner.trainers.checkpoints import complete
from runner.trainers.driver import Attempt, Checkpoint, Launch, Reading, Source
from runner.trainers.gpu_split import memory_plan_of
from runner.trainers.job import Job
from runner.trainers.keys import dotted, merged, nested, present, require_known, words
from runner.trainers.launch import ask_parser, data_rows, opened_task, parts, programs, reward_files, trainer_launch
from runner.trainers.metric_lines import LineSource, readings
from runner.trainers.options import (
    options_in,
    refuse,
    require_chat,
    require_equal_shares,
    require_within,
)
from runner.trainers.trainer_process import PARTS

J = TypeVar("J", bound=Job)
Keys = dict[str, Any]
FIRST = Attempt(Path("/"), 1, 0, 1, None)  # what a check is made of
HERE = Attempt(Path(), 1, 0, 1, None)  # what a rehearsal is made of
_OWN_MESSAGE = re.compile(r"\brlplan (input|checkpoint): (.*)$")  # by a program of ours in the trainer's interpreter
_MEANT = {"input": " refused its configuration", "checkpoint": " could not go on"}
_SETTINGS = "tokenizer/tokenizer_config.json"
_TURNS = "{{ bos_token }}{% for turn in messages %}{{ turn['content'] }}{% endfor %}"
_LAST = 2000  # characters of what a rehearsal has said


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a trainer's checkpoints are, relative to the attempt's folder, and what makes one whole."""

    pattern: str  # with {step}, in the trainer's own steps
    tracker: str | None = None  # the file that names the newest whole one
    holds: tuple[str, ...] = ()  # files without which it is not whole
    ahead: str | None = None  # a further one, of what was generated beside the training
    chosen: str | None = None  # a file that is given the name of the one to go on from
    mark: str | None = None  # the file that a program of ours writes last


@dataclass(frozen=True, slots=True)
class ScriptForm:
    """How a trainer's settings are told from what else stands in a script that starts it."""

    known: tuple[str, ...] = ("*",)  # patterns of its settings
    decided: tuple[str, ...] = ()  # ours, beyond its keys and the names of planner/logs/trainers
    options: Mapping[str, str] = field(default_factory=dict)  # keys that have a name in [trainer.options]
    refers: bool = False  # whether it fills in ${references} itself
    dashes: bool = False  # whether its settings have dashes, which scripts may have underscores for
    listed: str | None = None  # a file of its settings, where its own parser refuses others


class Driver(Generic[J]):
    """A trainer that comes with rlplan; see runner/trainers/driver.py."""

    name: ClassVar[str]
    title: ClassVar[str]  # in messages
    form: ClassVar[Literal["flags", "tables", "json", "hydra"]]  # how it takes its keys
    Options: ClassVar[type[Section]]
    layout: ClassVar[Layout]
    loss: ClassVar[Loss]
    job_type: type[J]

    argv: ClassVar[tuple[str, ...]] = ("start.py",)  # what its interpreter is given
    rehearses: ClassVar[tuple[str, ...]] = ()  # words by which its own parser is asked
    own_ray = False  # whether it runs in a Ray of the trial's own
    everywhere = False  # whether it is started on every host, and given the host's rank
    counts_batches = False  # whether each of its steps is a batch, which may be several updates
    saves_on_request = False  # whether its program looks for save-now.json
    asynchronous: ClassVar[Literal["never", "by staleness", "always"]] = "never"  # generates beside the training
    horizon = False  # whether its data are as long as any trial may become
    equal_shares = True  # whether every GPU that trains has as many rollouts of an update
    chat: ClassVar[Literal["always", "own", "no"]] = "no"  # whether it asks in chats; own: but for our embedded tasks
    clip_lowest, clip_highest = 1.0, 1e9  # its clip where the recipe has none
    others: ClassVar[tuple[str, ...]] = ()  # how keys begin that known.txt does not list
    refuses: ClassVar[Mapping[str, str]] = {}  # dotted keys of a trial that it cannot do, with the remedy
    failures: ClassVar[Sequence[tuple[str, str]]] = ()  # kind and pattern of its words; the last line that fits counts
    means: ClassVar[Means] = Means()  # to fit its GPUs
    script: ClassVar[ScriptForm] = ScriptForm()
    stop_signal: int | None = None
    gated = False
    trains_on = True

    programs: ClassVar[tuple[str, ...]] = ("start.py",)  # of its folder here, which run in its interpreter
    parts: ClassVar[tuple[str, ...]] = ()  # modules of rlplan that they import; inside: those of trainer_process.py
    rows: ClassVar[tuple[str, str] | None] = None  # columns of prompt and place, of train.jsonl and validation.jsonl
    keys_file: ClassVar[str | None] = None  # the file of all keys; else they stand in run.json
    writes_tracker = False  # whether the tracker is written anew, with where an attempt begins
    turns = False  # whether an embedded task's tokenizer has a chat that is the prompt alone

    @cached_property
    def log(self) -> Trainer:
        """What the names in its logs mean."""
        return load_trainer(self.name)

    # What a trainer sets.

    def keys(self, job: J) -> Keys:
        """Return the keys that rlplan decides, by their sections or dotted; OMIT leaves one out."""
        raise NotImplementedError

    def free(self, job: J) -> Keys:
        """Return keys that the user's own settings may change."""
        return {}

    def memory(self, job: J, plan: MemoryPlan) -> Keys:
        """Return the keys by which it fits its GPUs; the user's own win."""
        return {}

    def run(self, job: J) -> Keys:
        """Return what its program is told in run.json beside what every one is."""
        return {}

    def environment(self, job: J) -> dict[str, str]:
        """Return the variables of its processes."""
        return {}

    def refusals(self, job: J) -> Iterator[str]:
        """Yield what of a job it cannot run, and what to do instead."""
        return iter(())

    # What a trainer does otherwise.

    def aggregation(self, recipe: Recipe) -> str | None:
        """Return the one average that its loss for a recipe has; None where it has several."""
        return None

    def otherwise(self, recipe: Recipe, machine: Machine) -> CommonDeviations:
        """Return what it does otherwise as several trainers do."""
        return CommonDeviations()

    def deviations(self, recipe: Recipe, machine: Machine) -> Mapping[str, Deviation]:
        """Return what else it does otherwise, by the recipe's dotted keys."""
        return {}

    def differences(self, recipe: Recipe, machine: Machine = A_GPU) -> Sequence[Difference]:
        """Return every key of a recipe that it does otherwise on a machine."""
        differences = list(loss_differences(recipe.objective, self.loss, self.aggregation(recipe)))
        shared = self.otherwise(recipe, machine).deviations(recipe)
        for key, deviation in (*shared.items(), *self.deviations(recipe, machine).items()):
            section, _, name = key.partition(".")
            value = getattr(getattr(recipe, section), name)
            if deviation.when and value != deviation.instead:
                differences.append(
                    Difference(key, value, deviation.why, deviation.instead, deviation.near, deviation.ours)
                )
        return differences

    def as_done(self, config: TrialConfig) -> TrialConfig:
        """Return the trial with the recipe as the trainer does it; InputError where that is not what is wanted."""
        judge = partial(self.differences, machine=config.machine)
        recipe = as_trained(self.title, config.recipe, judge, approximate=config.driven_by.approximate)
        updates, made = config.recipe.schedule.updates_per_batch, recipe.schedule.updates_per_batch
        warmup = config.warmup_steps if made == updates else -(-config.warmup * made // updates)
        return config.model_copy(update={"recipe": recipe, "warmup_steps": warmup})

    def is_apart(self, recipe: Recipe) -> bool:
        """Whether it generates a recipe's batches on GPUs of their own while it trains."""
        by_staleness = self.asynchronous == "by staleness"
        return self.asynchronous == "always" or (by_staleness and recipe.schedule.staleness_bound > 0)

    # What is started.

    def check(self, config: TrialConfig) -> None:
        """Refuse a recipe, a layout, options or a task that it cannot run."""
        config = self.as_done(config)
        self.job(config, opened_task(config), FIRST)

    def job(self, config: TrialConfig, task: Task, attempt: Attempt) -> J:
        """Return an attempt with its keys; InputError for what it cannot run."""
        options: Any = options_in(config, self.Options)
        refuse(config, self.title, self.refuses)
        job = self.job_type(self, config, task, attempt, options)
        for message in self.refusals(job):
            raise InputError(message)
        if self.equal_shares:
            require_equal_shares(config, job.train_gpus)
        if self.chat == "always" or (self.chat == "own" and config.task.name not in EMBEDDED):
            require_chat(task, self.title)
        settings = self.settings(job)
        names = (key for key, _ in flattened(nested(settings)))
        require_known(self.name, (key for key in names if not key.startswith(self.others)))
        job.plan = self.plan(job, settings)
        free = dotted(self.free(job)) | dotted(self.memory(job, job.plan))
        job.keys = merged(dotted(self.keys(job)) | free, settings, free)
        job.words = words(job.keys, self.form)
        return job

    def settings(self, job: J) -> Keys:
        """Return the user's own keys, as the trainer has them."""
        return dict(job.options.settings)

    def plan(self, job: J, settings: Keys) -> MemoryPlan:
        """Return how a job fits its GPUs."""
        engine_gpus = getattr(job.options, "tensor_parallel", None)
        return self.fitted(job, settings, self.means, engine_gpus)

    def fitted(
        self, job: J, settings: Keys, means: Means, engine_gpus: int | None, *, required: bool = True
    ) -> MemoryPlan:
        """Return the memory plan by some means; InfeasibleError where it does not fit, and that is required."""
        where: dict[str, Any] = {"generators": job.generators, "engine_gpus": engine_gpus, "required": required}
        return memory_plan_of(
            job.config, job.task, means, lambda plan: dotted(self.memory(job, plan)), settings, **where
        )

    def files(self, job: J) -> dict[str, str]:
        """Return every file of an attempt by its path in the folder."""
        config, task = job.config, job.task
        files = {
            **programs(self.name.replace("-", "_"), *self.programs),
            **reward_files(config, task, self.judges(job)),
            **parts(path for part in self.parts for path in (PARTS if part == "inside" else [part])),
        }
        if self.turns and _SETTINGS in files:
            files[_SETTINGS] = json.dumps({**json.loads(files[_SETTINGS]), "chat_template": _TURNS})
        if self.rows is not None:
            rows = data_rows(config, task, *self.rows, partial(self.prompt, task))
            files["train.jsonl"], files["validation.jsonl"] = rows
        if self.keys_file is not None:
            files[self.keys_file] = json.dumps(job.words if self.form == "hydra" else nested(job.keys), indent=1)
        if self.writes_tracker and self.layout.tracker is not None:
            files[self.layout.tracker] = str(job.from_step)
        if job.attempt.checkpoint is not None and self.layout.chosen is not None:
            files[self.layout.chosen] = job.attempt.checkpoint.name
        run = present(self.run(job))
        if self.keys_file is None or run:
            by_words = {} if self.form == "tables" else {"words": job.words}
            files["run.json"] = json.dumps({**by_words, **job.run(self.layout.tracker), **run}, indent=1)
        return files

    def judges(self, job: J) -> int:
        """Return how many processes of a machine score responses at the same time."""
        return 1

    def prompt(self, task: Task, prompt: Prompt) -> Any:
        """Return a prompt as the trainer's data file has it."""
        return prompt

    def launch(self, config: TrialConfig, attempt: Attempt, rank: int) -> Launch | None:
        """Start it on the head, maybe in a Ray that spans the hosts."""
        config = self.as_done(config)
        if self.horizon:
            require_within(config, attempt, options_in(config, self.Options))
        if rank and not (self.own_ray or self.everywhere):
            return None
        job = self.job(config, opened_task(config), attempt)
        files = {} if rank else self.files(job)
        argv = (*self.argv, str(rank)) if self.everywhere else self.argv
        variables = present(self.environment(job))
        return trainer_launch(config, attempt, rank, argv, files, variables, own_ray=self.own_ray)

    # What it says and leaves.

    def read(self, line: str, config: TrialConfig) -> Sequence[Reading]:
        """Return what a line says of a step: of the file that a program of ours writes in its interpreter."""
        return readings(line, self.log, self.updates_per_step(config))

    def sources(self, config: TrialConfig, attempt: Attempt) -> Sequence[Source]:
        """Return that file."""
        return [LineSource(attempt.metrics, partial(self.read, config=config))]

    def checkpoints(self, config: TrialConfig, folder: Path) -> Sequence[Checkpoint]:
        """Return those that hold everything, up to the one that its tracker names where it has one."""
        holds = (*self.holds(config), *filter(None, [self.layout.mark]))
        checkpoints = complete(folder, self.layout.pattern, self.layout.tracker, holds)
        return [replace(checkpoint, step=checkpoint.step * self.updates_per_step(config)) for checkpoint in checkpoints]

    def updates_per_step(self, config: TrialConfig) -> int:
        """Return how many updates one of its steps is."""
        return config.recipe.schedule.updates_per_batch if self.counts_batches else 1

    def holds(self, config: TrialConfig) -> list[str]:
        """Return the files without which a checkpoint is not whole."""
        ahead = self.layout.ahead if self.is_apart(config.recipe) else None
        return [*self.layout.holds, *filter(None, [ahead])]

    def classify(self, code: int, tail: str) -> tuple[str, str] | None:
        """Return what a program of ours, or it in its own words, has said of its end; the last that fits counts."""
        for line in reversed(tail.splitlines()):
            if own := self._own_message(line):
                return own
            for kind, pattern in self.failures:
                if re.search(pattern, line):
                    return kind, f"{self.title}{_MEANT.get(kind, '')}: {line.strip()[:300]}"
        return None

    def _own_message(self, line: str) -> tuple[str, str] | None:
        """Return what a program of ours in its interpreter says in a line."""
        match = _OWN_MESSAGE.search(line)
        return (match[1], f"{self.title}{_MEANT[match[1]]}: {match[2]}") if match else None


class Rehearsed(Driver[J]):
    """One whose own parser can be asked."""

    def rehearse(self, config: TrialConfig) -> Sequence[str]:
        """Have its own parser look at what a first attempt would be given, in its environment."""
        config = self.as_done(config)
        job = self.job(config, opened_task(config), HERE)
        code, output = ask_parser(config, self.files(job), *self.rehearses, **present(self.environment(job)))
        if code == 0:
            return []
        return [own[1] for line in output.splitlines() if (own := self._own_message(line))] or [output[-_LAST:]]
