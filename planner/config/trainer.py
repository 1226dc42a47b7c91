"""Which trainer trains a trial: plain checked data, as it stands in rlplan.toml and is stored with each trial."""

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from budgets.errors import InputError, suggest
from budgets.execution import SAVE_SECONDS, SAVE_SHARE
from planner.tables import Positive, Section, explained, read_tables

BUILTIN = "builtin"
COMMAND = "command"
STANDIN = "standin"
TINKER = "tinker"
NAMED = ("trl", "verl", "prime-rl", "openrlhf", "skyrl", "nemo-rl", "slime", TINKER)
TRAINERS = (BUILTIN, COMMAND, *NAMED, STANDIN)
_SECRET = re.compile(
    r"PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|(?<!BY)PASS$|(^|_)SECRETS?(_|$)|(^|_|API|ACCESS|PRIVATE)KEYS?$|"
    r"(^|_)(TOKEN|PAT|AUTH)$|^(?!.*(MAX|MIN|NEW|NUM|PROMPT|RESPONSE|SPECIAL|STOP)).*(^|_)TOKENS$",  # not their number
    re.IGNORECASE,
)
_PASSWORD_IN_URL = re.compile(r"^[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s]+@", re.IGNORECASE)
_TRAINABLE = re.compile(r"([\w.]+:\w+)(?::([\w/]+))?")  # of Ray Tune's: MODULE:NAME, or MODULE:NAME:SCORE
_TRAINABLE_CONFIG = """{
"rollouts_per_prompt": {rollouts_per_prompt}, "prompts_per_batch": {prompts_per_batch},
"learning_rate": {learning_rate}, "warmup_steps": {warmup_steps}, "seed": {seed},
"recipe": "{recipe}", "validate_every": {validate_every}}"""
_OURS = ("CUDA_VISIBLE_DEVICES", "RAY_ADDRESS", "RLPLAN_ATTEMPT")
_DETACHED = ("docker", "podman", "nerdctl")  # whose containers are children of a service
_ROOTLESS = {"apptainer", "singularity"}  # whose containers see no GPU unless they are told so
_WITH_GPUS = {"--nv", "--nvccli", "--rocm"}
API_KEY, KEY_VARIABLE = "TINKER_API_KEY", "api_key_env"  # of a service, and the option that names another
ENVIRONMENT = "environment"  # option of trainers that have environments of several turns
HERE = "here"  # option of `command`: the folder that relative names start from


def is_secret(name: str, value: object = "") -> bool:
    """Whether a variable holds what nobody else may see, by its name, or by the password in its URL."""
    return bool(_SECRET.search(name) or _PASSWORD_IN_URL.match(str(value)))


def is_service(trainer: "TrainerChoice | None") -> bool:
    """Whether somebody else's GPUs train: a trial then needs none of its own."""
    return trainer is not None and trainer.name == TINKER


class Patience(Section):
    """After how many seconds without a sign of life a trainer hangs; of builtin the defaults count."""

    start_up_seconds: Positive = Field(1800.0, description="from its start to its first line of metrics")
    least_seconds: Positive = Field(600.0, description="without a new line, however short its steps are")
    median_steps: Positive = Field(5.0, description="without a new line, in median steps, where that is longer")
    pause_seconds: Positive = Field(1800.0, description="without a new line where a validation or a save is due")
    stop_seconds: Positive = Field(120.0, description="from being asked to stop to being killed")


class TrainerChoice(Section):
    """Whose code trains, in which environment, and how long it may be silent; see docs/trainers.md."""

    name: str = Field(BUILTIN, description=f"one of {', '.join(TRAINERS)} (--trainer)")
    python: str | None = Field(
        None, examples=["/opt/trl/bin/python"], description="the interpreter of the trainer's own environment"
    )
    launcher: str | None = Field(
        None, examples=["apptainer exec --nv image.sif"], description="what stands before the trainer's command"
    )
    secrets: list[str] = Field(
        [],
        description="variables that it needs, such as WANDB_API_KEY; each machine's own value is used and never stored",
    )
    environment: dict[str, str] = Field({}, description="variables of its processes, or a table [trainer.environment]")
    save_seconds: Positive | None = Field(
        None,
        examples=[600.0],
        description="between saves: what a crash, or a stop of a trainer that cannot be asked to save, may cost; "
        f"without it {SAVE_SECONDS:g}, or as many as keep saves within {SAVE_SHARE:.0%} of the time",
    )
    patience: Patience = Field(default_factory=Patience, description="how long it may be silent")
    approximate: bool = Field(
        False, description="train a recipe as nearly as this trainer can, where it cannot do it exactly (--approximate)"
    )
    options: dict[str, Any] = Field({}, description="what this trainer alone knows, or a table [trainer.options]")

    @property
    def saves_every(self) -> float:
        """Seconds between saves."""
        return self.save_seconds or SAVE_SECONDS

    @property
    def takes_problems(self) -> bool:
        """Whether it trains on the problems of the sweep; a command that does not name them has its own.

        So has an environment that is given as a table, which prime-rl's are.
        """
        if isinstance(self.options.get(ENVIRONMENT), Mapping):
            return False
        texts = f"{self.options} {self.environment}"
        return self.name != STANDIN and (self.name != COMMAND or "problems}" in texts)

    @property
    def scores_itself(self) -> bool:
        """Whether its scores are its own, within `reward_range`, and not those of rlplan's reward, 0 to 1."""
        return self.name == COMMAND or (self.name != STANDIN and not self.takes_problems)

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in TRAINERS:
            raise ValueError(
                f"'{name}' is no trainer that rlplan can drive: {suggest(name, TRAINERS)} A file describes any other: "
                "--trainer FILE.toml"
            )
        return name

    @model_validator(mode="before")
    @classmethod
    def _one_environment(cls, given: Any) -> Any:
        """Take that of a command's own options for the trainer's."""
        options = given.get("options") if isinstance(given, Mapping) and given.get("name") == COMMAND else None
        if not isinstance(options, Mapping) or not isinstance(options.get("environment"), Mapping):
            return given
        rest = {name: value for name, value in options.items() if name != "environment"}
        return {**given, "options": rest, "environment": {**options["environment"], **given.get("environment", {})}}

    @model_validator(mode="before")
    @classmethod
    def _keeps_its_key(cls, given: Any) -> Any:
        """Count the key of a service among the secrets."""
        if not isinstance(given, Mapping) or given.get("name") != TINKER:
            return given
        key = dict(given.get("options") or {}).get(KEY_VARIABLE, API_KEY)
        return {**given, "secrets": [*dict.fromkeys([*given.get("secrets", ()), key])]}

    @field_validator("launcher")
    @classmethod
    def _kills(cls, launcher: str | None) -> str | None:
        words = [os.path.basename(word) for word in shlex.split(launcher or "")]
        if killed := next((word for word in words if word in _DETACHED), None):
            raise ValueError(
                f"launcher = '{launcher}': what {killed} starts is no child of rlplan, which could not end it: it "
                "would train on, unpaid. Use apptainer exec, or have the sweep's workers run in the container"
            )
        return launcher

    def require_gpus_inside(self) -> None:
        """Refuse a container in which a trainer on GPUs would find none."""
        words = {os.path.basename(word) for word in shlex.split(self.launcher or "")}
        variables = {f"{name}_{flag}".upper() for name in _ROOTLESS for flag in ("nv", "nvccli", "rocm")}
        if words & _ROOTLESS and not (words & _WITH_GPUS or variables & self.environment.keys()):
            raise InputError(
                f"launcher = '{self.launcher}': the trial is on GPUs, and its container sees none. Write "
                "`apptainer exec --nv image.sif` (--rocm on AMD)"
            )

    def with_variables(self, environment: Mapping[str, str]) -> Self:
        """Return the choice with variables beside its own: of what looks like a secret the name alone."""
        variables = {name: value for name, value in environment.items() if name not in _OURS}
        open_ = {name: value for name, value in variables.items() if not is_secret(name, value)}
        hidden = [name for name in variables if name not in open_ and name not in self.secrets]
        changed = {"environment": {**open_, **self.environment}, "secrets": [*self.secrets, *hidden]}
        return self.model_copy(update=changed)

    @field_validator("environment")
    @classmethod
    def _no_secrets(cls, environment: dict[str, str]) -> dict[str, str]:
        if reserved := [name for name in environment if name in _OURS]:
            raise ValueError(f"[trainer.environment] {', '.join(reserved)}: rlplan sets that itself: leave it out")
        if keys := [name for name, value in environment.items() if is_secret(name, value)]:
            raise ValueError(
                f"[trainer.environment] {', '.join(keys)}: values are stored with each trial: set it where the trainer "
                f'runs, and name it alone, as [trainer] secrets = ["{keys[0]}"]'
            )
        return environment


def chosen_trainer(
    given: str | None, configured: Mapping[str, Any] | None, *, approximate: bool = False
) -> TrainerChoice | None:
    """Return who trains: whom a flag names, or its file describes, else the configuration; None is this package.

    A name that the configuration has too keeps what that says of it; of another trainer only patience, save_seconds,
    environment and secrets.
    `approximate` is what --approximate says, which the configuration may say too.
    """
    choice = TrainerChoice.model_validate(configured or {})
    source, where = "[trainer]", Path.cwd()
    if given is not None and (trainable := _TRAINABLE.fullmatch(given)):
        common = choice.model_dump(include={"save_seconds", "patience", "environment", "secrets"})
        choice = _validated(
            {"name": COMMAND, **common, "options": _trainable_options(*trainable.groups())}, "--trainer"
        )
    elif given is not None and (given.endswith(".toml") or os.sep in given):
        source, where = f"--trainer {given}", Path(given).expanduser().absolute().parent
        tables = read_tables(
            Path(given).expanduser(), "the trainer's file", f"--trainer takes one, or {', '.join(TRAINERS)}"
        )
        # What all trainers have stands at its top, and the rest is this trainer's own.
        common = {key: tables.pop(key) for key in TrainerChoice.model_fields if key in tables}
        if tables:
            options = common.get("options")
            common["options"] = {**options, **tables} if isinstance(options, dict) else tables
        choice = _validated({"name": COMMAND, **common}, source)
    elif given is not None and given != choice.name:
        common = choice.model_dump(include={"save_seconds", "patience", "environment", "secrets"})
        choice = _validated({"name": given, **common}, "--trainer")
    if choice.name == BUILTIN:
        return None
    options = {HERE: str(where), **choice.options} if choice.name == COMMAND else choice.options
    python = choice.python
    if python is not None and os.sep in python:  # a trial's folder must find it; a link of an environment must stay one
        python = os.path.abspath(where / Path(python).expanduser())
    changed = {"python": python, "options": options, "approximate": approximate or choice.approximate}
    return choice.model_copy(update=changed)


def _trainable_options(name: str, score: str | None) -> dict[str, Any]:
    """Return the command that trains with a class or function of Ray Tune's."""
    return {
        "command": ["{python}", "-m", "runner.trainers.command.tune_trainable", "{here}", name],
        "resume": "{resume_from}",
        "files": {"trainable.json": _TRAINABLE_CONFIG},
        "metrics": {"columns": {"score": score or "score"}},
        "gate": True,
    }


def _validated(tables: dict[str, Any], source: str) -> TrainerChoice:
    try:
        return TrainerChoice.model_validate(tables)
    except ValidationError as error:
        raise explained(error, TrainerChoice, {}, source) from error
