"""What rlplan knows of a trainer that nobody here has heard of: what its file says."""

import json
import shutil
import signal
from collections.abc import Sequence
from contextlib import suppress
from glob import escape
from pathlib import Path

from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.tasks.embedded import EMBEDDED, embedded_task
from runner.tasks.task_loader import Asked, user_problems
from runner.trainers.checkpoints import numbered
from runner.trainers.command.options import (
    PROBLEMS,
    SCORE,
    STEP,
    VALIDATION_PROBLEMS,
    CommandOptions,
    filled,
    require_runnable,
    values_of,
)
from runner.trainers.command.sources import EVENTS, BeganSource, FilesSource, existing
from runner.trainers.driver import Attempt, Checkpoint, Launch, Source
from runner.trainers.launch import in_own_ray
from runner.trainers.options import options_in

SCRIPTS = (".py", ".sh")
_LONGEST_LINE = 200  # characters of a printed line in a message


class CommandDriver:
    """A trainer by its file."""

    name = "command"
    saves_on_request = False

    def __init__(self, options: CommandOptions) -> None:
        """Take what the file says."""
        self.options = options

    @property
    def stop_signal(self) -> int | None:
        """Signal on which it saves and ends."""
        name = self.options.stop_signal
        return None if name == "none" else signal.Signals[name]

    @property
    def gated(self) -> bool:
        """Whether it waits at the gate."""
        return self.options.gate

    @property
    def trains_on(self) -> bool:
        """Whether it is told how often to save."""
        return self.options.names("save_every") and not self.options.gate

    def check(self, config: TrialConfig) -> None:
        """Refuse a file that does not describe how a trial is trained."""
        require_runnable(config, self.options)
        sample = Attempt(Path("/"), 1, 0, 1, None)
        values = values_of(config, self.options, sample, 0)
        for text in self.options.texts():
            filled(text, values)
        self._problem_files(config)

    def rehearse(self, config: TrialConfig) -> list[str]:
        """Return what of its program and scripts is not there; the command is not started."""
        values = values_of(config, self.options, Attempt(Path("/"), 1, 0, 1, None), 0)
        program, *words = (filled(word, values) for word in self.options.argv)
        lacking = [] if shutil.which(program) else [program]  # it runs in its trial's folder
        for word in words:
            if word.endswith(SCRIPTS) and not word.startswith("-") and word not in self.options.files:
                lacking += [] if Path(word).is_absolute() and Path(word).is_file() else [word]
        return [f"there is no {name}" for name in lacking]

    def launch(self, config: TrialConfig, attempt: Attempt, rank: int) -> Launch | None:
        """Start the command on the head, and on every machine if it says which of them it is, or needs a Ray there."""
        options = self.options
        if rank and not (options.names("node_rank") or options.own_ray):
            return None
        values = values_of(config, options, attempt, rank)
        words = [*options.argv, *(options.resuming if attempt.checkpoint is not None else ())]
        environment = {name: filled(text, values) for name, text in options.environment.items()}
        if rank < len(attempt.gpus) and attempt.gpus[rank]:
            environment["CUDA_VISIBLE_DEVICES"] = attempt.gpus[rank]
        files = {name: filled(text, values) for name, text in options.files.items()}
        if rank == 0:
            files |= self._problem_files(config) | {_before(attempt): json.dumps(self._sizes(config, attempt))}
        launch = Launch(tuple(filled(word, values) for word in words), files, environment)
        if not options.own_ray:
            return launch
        gpus, patience = int(values["gpus_per_node"]), config.driven_by.patience
        return in_own_ray(launch, attempt, rank, values["python"], gpus, patience)

    def sources(self, config: TrialConfig, attempt: Attempt) -> Sequence[Source]:
        """Return where its metrics appear, which are read from where they stood before this attempt."""
        options = self.options
        sources: list[Source] = []
        if options.began is not None:
            sources.append(BeganSource(attempt.log, options.began, attempt.from_step))
        sizes = self._sizes_before(config, attempt)
        return [*sources, FilesSource(self.pattern(config, attempt), sizes, options.metrics)]

    def checkpoints(self, config: TrialConfig, folder: Path) -> Sequence[Checkpoint]:
        """Return those that bear the mark, the newest first."""
        options, complete = self.options.checkpoints, []
        for number, path in numbered(folder, options.pattern):
            mark = (options.complete or "").replace(STEP, number)
            outside = mark.startswith("../")
            marked = path.parent / mark.removeprefix("../") if outside else path / mark
            if not mark or marked.exists():
                complete.append(Checkpoint(int(number), path, (marked,) if outside else ()))
        return sorted(complete, key=lambda checkpoint: -checkpoint.step)

    def classify(self, code: int, tail: str) -> tuple[str, str] | None:
        """Leave every exit to the common rules."""
        return None

    def unheard(self, config: TrialConfig, attempt: Attempt) -> str | None:
        """Return which pattern matches nothing in what it printed or wrote; None where something matches."""
        metrics, pattern = self.options.metrics, self.pattern(config, attempt)
        files = existing(pattern)
        if not files:
            return f"[trainer] metrics: there is no file {pattern}"
        if metrics.format != "console":
            return None
        lines = [line for path in files for line in Path(path).read_text("utf-8", errors="replace").splitlines()]
        if any(expression.search(line) for expression in metrics.patterns for line in lines):
            return None
        patterns = " and ".join(f"'{expression.pattern}'" for expression in metrics.patterns)
        printed_last = next((line for line in reversed(lines) if line.strip()), "")[:_LONGEST_LINE]
        return f"[trainer] metrics.pattern {patterns} matches no line of {attempt.log}, such as '{printed_last}'"

    def unscored(self, config: TrialConfig, attempt: Attempt) -> str:
        """Return the columns that were read, none of which holds a score, and the one that was looked for."""
        metrics = self.options.metrics
        source = FilesSource(self.pattern(config, attempt), self._sizes_before(config, attempt), metrics)
        source.read()
        column = next(theirs for theirs, ours in metrics.names.items() if ours == SCORE)
        return (
            f"no number was read as '{column}'; the columns are {', '.join(source.columns)}: name that of the score as "
            f'score = "…" under [metrics.columns], and have it validate every {{validate_every}} updates'
        )

    def pattern(self, config: TrialConfig, attempt: Attempt) -> str:
        """Return the pattern of the files that hold its metrics."""
        metrics, options = self.options.metrics, self.options
        usual = {"jsonl": "metrics.jsonl", "csv": "metrics.csv", "tensorboard": ".", "console": attempt.log.name}
        name = metrics.file or (attempt.metrics.name if options.names("metrics") else usual[metrics.format])
        path = Path(escape(str(attempt.folder))) / filled(name, values_of(config, options, attempt, 0))
        return str(path / "**" / EVENTS if metrics.format == "tensorboard" else path)

    def _sizes(self, config: TrialConfig, attempt: Attempt) -> dict[str, int]:
        """Return how long its files are already; a file that an earlier attempt began is read from there on."""
        return {path: Path(path).stat().st_size for path in existing(self.pattern(config, attempt))}

    def _sizes_before(self, config: TrialConfig, attempt: Attempt) -> dict[str, int]:
        """Return how long its files were before an attempt, as was noted with its start."""
        with suppress(OSError, ValueError):
            sizes: dict[str, int] = json.loads((attempt.folder / _before(attempt)).read_text(encoding="utf-8"))
            return sizes
        return self._sizes(config, attempt)

    def _problem_files(self, config: TrialConfig) -> dict[str, str]:
        """Return the problems as files, where the command names them."""
        options = self.options
        if not (options.names("problems") or options.names("validation_problems")):
            return {}
        task, count = config.task, config.validation.problems
        split: Task | Asked = embedded_task(task.name) if task.name in EMBEDDED else user_problems(task, count)
        files = {PROBLEMS: split.train, VALIDATION_PROBLEMS: split.validation[:count]}
        return {
            name: "".join(json.dumps(problem.row) + "\n" for problem in problems) for name, problems in files.items()
        }


def driver(config: TrialConfig) -> CommandDriver:
    """Return the driver of the trainer that a trial's options describe."""
    options = options_in(config, CommandOptions, "the trainer's file")
    return CommandDriver(options.model_copy(update={"environment": options.environment | config.driven_by.environment}))


def _before(attempt: Attempt) -> str:
    """Return the file that says how long the metrics were before an attempt."""
    return f"attempt-{attempt.number}.began-at.json"
