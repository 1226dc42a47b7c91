"""A driver that is made of a trainer's table; what no table can say, a class of the trainer's own adds.

Such a class lies in NAME/driver.py, and changes as little as it can: further values, refusals, files or sources.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from budgets.errors import InputError
from budgets.memory_plan import MemoryPlan
from planner.layering import flattened
from planner.logs.trainers import Trainer, load_trainer
from planner.recipes.schema import Recipe
from runner.ports.task import Prompt, Task
from runner.ports.trial import Machine, TrialConfig
from runner.tasks.embedded import EMBEDDED
from runner.trainers.ability import A_GPU, OTHERWISE, SHARED, Difference, done_as, loss_differences
from runner.trainers.driver import Attempt, Checkpoint, Launch, Source
from runner.trainers.driving import (
    asked_itself,
    complete,
    merged,
    opened_task,
    options_in,
    refuse,
    require_chat,
    require_equal_shares,
    rollouts_per_pass,
    started,
)
from runner.trainers.fitting import fitted, share_of, training_gpus, trains_apart
from runner.trainers.following import LineSource, readings
from runner.trainers.horizon import horizon_values, require_within
from runner.trainers.inside import PARTS
from runner.trainers.known import require_known
from runner.trainers.laying import judged_files, nested, numbered_rows, parts, programs
from runner.trainers.render import evaluated, rendered, words
from runner.trainers.spec import TrainerSpec
from runner.trainers.values import run_of, sections_of, values_of

FIRST = Attempt(Path("/"), 1, 0, 1, None)  # what a check is made of
HERE = Attempt(Path(), 1, 0, 1, None)  # what a rehearsal is made of
_OWN_MESSAGE = re.compile(r"\brlplan (input|checkpoint): (.*)$")  # by a program of ours in the trainer's interpreter
_MEANT = {"input": " refused its configuration", "checkpoint": " could not go on"}
_SETTINGS = "tokenizer/tokenizer_config.json"
_TURNS = "{{ bos_token }}{% for turn in messages %}{{ turn['content'] }}{% endfor %}"
_LAST = 2000  # characters of what a rehearsal has said


class TableDriver:
    """A driver by its table; see runner/trainers/driver.py."""

    stop_signal: int | None = None
    gated = False
    trains_on = True

    def __init__(self, spec: TrainerSpec) -> None:
        self.spec = spec
        self.name, self.title, self.saves_on_request = spec.name, spec.title, spec.saves_on_request

    @cached_property
    def log(self) -> Trainer:
        """What the names in its logs mean."""
        return load_trainer(self.name)

    def differences(self, recipe: Recipe, machine: Machine = A_GPU) -> Sequence[Difference]:
        """Return what it does otherwise."""
        spec, loss = self.spec, self.spec.loss
        values = {**sections_of(recipe), **spec.maps, "machine": machine}
        values["asynchronous"] = trains_apart(spec, recipe)
        fixed = evaluated(loss.fixed, values)
        values |= {"aggregation": fixed or recipe.objective.aggregation}
        values |= {"truncates": recipe.objective.truncated_importance is not None}
        also: dict[str, Any] = {"by_response": loss.by_response, "entropy_alike": loss.entropy_alike}
        found = list(loss_differences(recipe.objective, loss.clips, loss.aggregations, fixed, **also))
        values |= {**OTHERWISE, **rendered(spec.otherwise, values)}
        for key, each in (*SHARED.items(), *spec.deviating.items()):
            section, _, name = key.partition(".")
            given, instead = getattr(values[section], name), evaluated(each.instead, values)
            if given != instead and evaluated(each.when, values):
                why, near = evaluated(each.why, values), evaluated(each.near, values)
                found.append(Difference(key, given, why, instead, near, each.ours))
        return found

    def as_done(self, config: TrialConfig) -> TrialConfig:
        """Return the trial with the recipe as the trainer does it; InputError where that is not what is wanted."""
        judge = partial(self.differences, machine=config.machine)
        recipe = done_as(self.title, config.recipe, judge, approximate=config.driven_by.approximate)
        updates, made = config.recipe.schedule.updates_per_batch, recipe.schedule.updates_per_batch
        warmup = config.warmup_steps if made == updates else -(-config.warmup * made // updates)
        return config.model_copy(update={"recipe": recipe, "warmup_steps": warmup})

    def check(self, config: TrialConfig) -> None:
        """Refuse a recipe, a layout, options or a task that it cannot run."""
        config = self.as_done(config)
        self.given(config, opened_task(config), FIRST)

    def given(self, config: TrialConfig, task: Task, attempt: Attempt) -> dict[str, Any]:
        """Return an attempt's values, among them the `keys` and their `words`; InputError for what it cannot run."""
        spec = self.spec
        options: Any = options_in(config, spec.options_model)
        refuse(config, self.title, spec.refuses)
        values = values_of(spec, config, task, attempt, options)
        values["asynchronous"] = trains_apart(spec, config.recipe)
        values["train_gpus"] = training = training_gpus(spec, config, options)
        apart = config.machine.gpus - training
        for name, value in spec.values.items():
            values[name] = evaluated(value, values)
        values |= self.further(config, task, attempt, values)
        for each in spec.refusals:
            if evaluated(each.when, values):
                raise InputError(evaluated(each.say, values))
        if spec.equal_shares:
            require_equal_shares(config, training)
        if spec.chat == "always" or (spec.chat == "own" and config.task.name not in EMBEDDED):
            require_chat(task, self.title)
        settings = self.settings(options)
        unlisted = tuple(spec.others)
        given = (key for key, _ in flattened(nested(settings)))
        require_known(self.name, (key for key in given if not key.startswith(unlisted)))
        values["plan"] = plan = self.plan(config, task, values, settings, apart)
        if spec.horizon:
            values |= horizon_values(config, task, options)
        values["share"] = share_of(config, training, plan.engine_gpus)
        if hasattr(options, "rollouts_per_pass"):
            values["passes"] = rollouts_per_pass(config, task, plan.tokens, options.rollouts_per_pass, apart)
        free = {**rendered(spec.free, values), **rendered(spec.memory.keys, values)}
        values["keys"] = keys = merged({**rendered(spec.keys, values), **free}, settings, free)
        return values | {"words": words(keys, spec.form)}

    def further(self, config: TrialConfig, task: Task, attempt: Attempt, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return values that this trainer alone needs."""
        return {}

    def prompt(self, task: Task, given: Prompt) -> Any:
        """Return a prompt as the trainer's data file has it."""
        return given

    def settings(self, options: Any) -> dict[str, Any]:
        """Return the user's own keys, as the trainer has them."""
        return dict(options.settings)

    def plan(
        self, config: TrialConfig, task: Task, values: Mapping[str, Any], settings: Mapping[str, Any], apart: int
    ) -> MemoryPlan:
        """Return how it fits its GPUs, of which so many do not train."""
        memory = self.spec.memory
        means = replace(memory.means, offloads=evaluated(memory.offloads, values))
        engine, required = evaluated(memory.engine_gpus, values), evaluated(memory.required, values)
        names = [key for key, _ in flattened(memory.keys)]
        return fitted(config, task, means, names, settings, generators=apart, engine_gpus=engine, required=required)

    def files(self, config: TrialConfig, task: Task, attempt: Attempt) -> dict[str, str]:
        """Return every file of an attempt by its path in the folder."""
        return self.laid(config, task, attempt, self.given(config, task, attempt))

    def laid(self, config: TrialConfig, task: Task, attempt: Attempt, values: Mapping[str, Any]) -> dict[str, str]:
        """Return the files by the values."""
        laid, folder = self.spec.files, self.name.replace("-", "_")
        found = {
            **programs(folder, *laid.programs),
            **judged_files(config, task, evaluated(laid.judges, values)),
            **parts(path for each in laid.parts for path in (PARTS if each == "inside" else [each])),
        }
        if laid.turns and _SETTINGS in found:
            found[_SETTINGS] = json.dumps({**json.loads(found[_SETTINGS]), "chat_template": _TURNS})
        if laid.rows:
            prompt, place = laid.rows
            rows = numbered_rows(config, task, prompt, place, partial(self.prompt, task))
            found["train.jsonl"], found["validation.jsonl"] = rows
        if laid.keys is not None:
            keys = values["words"] if self.spec.form == "hydra" else nested(values["keys"])
            found[laid.keys] = json.dumps(keys, indent=1)
        if laid.tracker and self.spec.checkpoints.tracker is not None:
            found[self.spec.checkpoints.tracker] = str(values["from_step"])
        if attempt.checkpoint is not None and self.spec.checkpoints.chosen is not None:
            found[self.spec.checkpoints.chosen] = attempt.checkpoint.name
        if laid.keys is None or self.spec.run:
            found["run.json"] = json.dumps(self.run(values), indent=1)
        return found

    def run(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a program of ours in its interpreter is told: what every one is, and what the table adds."""
        fields = run_of(values, self.spec.checkpoints.tracker) | rendered(self.spec.run, values)
        return fields if self.spec.form == "tables" else {"words": values["words"], **fields}

    def launch(self, config: TrialConfig, attempt: Attempt, rank: int) -> Launch | None:
        """Start it on the head, maybe in a Ray that spans the hosts."""
        config, spec = self.as_done(config), self.spec
        if spec.horizon:
            require_within(config, attempt, options_in(config, spec.options_model))
        if rank and not (spec.own_ray or spec.everywhere):
            return None
        task = opened_task(config)
        values = self.given(config, task, attempt)
        written = {} if rank else self.laid(config, task, attempt, values)
        argv = (*spec.argv, str(rank)) if spec.everywhere else spec.argv
        variables = rendered(spec.environment, values)
        return started(config, attempt, rank, argv, written, variables, own_ray=spec.own_ray)

    def sources(self, config: TrialConfig, attempt: Attempt) -> Sequence[Source]:
        """Return the file that a program of ours writes in its interpreter."""
        return [LineSource(attempt.metrics, lambda line: readings(line, self.log, self.each(config)))]

    def checkpoints(self, config: TrialConfig, folder: Path) -> Sequence[Checkpoint]:
        """Return those that hold everything, up to the one that its tracker names where it has one."""
        layout = self.spec.checkpoints
        holds = (*self.holds(config), *filter(None, [layout.mark]))
        found = complete(folder, layout.pattern, layout.tracker, holds)
        return [replace(each, step=each.step * self.each(config)) for each in found]

    def classify(self, code: int, tail: str) -> tuple[str, str] | None:
        """Return what a program of ours, or it in its own words, has said of its end; the last that fits counts."""
        for line in reversed(tail.splitlines()):
            if own := self._own_message(line):
                return own
            for each in self.spec.failures:
                if re.search(each.pattern, line):
                    return each.kind, f"{self.title}{_MEANT.get(each.kind, '')}: {line.strip()[:300]}"
        return None

    def _own_message(self, line: str) -> tuple[str, str] | None:
        """Return what a program of ours in its interpreter says in a line."""
        found = _OWN_MESSAGE.search(line)
        return (found[1], f"{self.title}{_MEANT[found[1]]}: {found[2]}") if found else None

    def each(self, config: TrialConfig) -> int:
        """Return how many updates one of its steps is."""
        return config.recipe.schedule.updates_per_batch if self.spec.counts_batches else 1

    def holds(self, config: TrialConfig) -> list[str]:
        """Return the files without which a checkpoint is not whole."""
        layout, ahead = self.spec.checkpoints, trains_apart(self.spec, config.recipe)
        return [*layout.holds, *([layout.ahead] if ahead and layout.ahead else [])]


class RehearsedDriver(TableDriver):
    """One whose own parser can be asked."""

    def rehearse(self, config: TrialConfig) -> Sequence[str]:
        """Have its own parser look at what a first attempt would be given, in its environment."""
        config = self.as_done(config)
        task = opened_task(config)
        values = self.given(config, task, HERE)
        files, variables = self.laid(config, task, HERE, values), rendered(self.spec.environment, values)
        code, output = asked_itself(config, files, *self.spec.rehearses, **variables)
        if code == 0:
            return []
        return [own[1] for line in output.splitlines() if (own := self._own_message(line))] or [output[-_LAST:]]
