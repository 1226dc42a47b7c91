"""Flags that several requests share, and what commands do with what was typed."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from rlplan.requests import completion
from rlplan.requests.flags import DATABASE, argument, flag, toggle

if TYPE_CHECKING:
    pass


def key(*names: str) -> Any:
    """Return a flag for what rows are sorted by."""
    return flag(f"{', '.join(names[:-1])} or {names[-1]}.", "<key>", offer=completion.one_of(*names))


DatabaseOption = Annotated[str, typer.Option("--db", envvar="RLPLAN_DB", help=DATABASE)]
config = partial(flag, "A configuration file; ./rlplan.toml is read without this.")
seed = partial(flag, "Decides every random number.", default=0, least=0)
sweep = partial(argument, "A sweep, such as sweep-2; the newest without it.", offer=completion.sweeps)
plan = partial(argument, "A stored plan, such as plan-3; the newest without it.", offer=completion.plans)
task = partial(flag, "An embedded task, on this machine's CPU.", offer=completion.tasks)
difficulty = partial(flag, "easy, medium, hard or mixed problems.", key="workload.difficulty")
pass_rate = partial(flag, "Mean pass rate of the base model.", key="workload.pass_rate")
pass_rates_file = partial(flag, "A file with one pass rate per prompt.", key="workload.pass_rates_file")

# Of rows that are listed.
top = partial(flag, "Only so many rows, from the top.", "<int>", least=1)
reverse = partial(toggle, "The other way round.")

# Of a log or a table, for a fit and for a run that is watched.
x_column = partial(flag, "The compute; guessed without this.", "<column>")
y_column = partial(flag, "The score; guessed without this.", "<column>")
by_column = partial(flag, "What tells a file's curves apart.", "<column>")
percent = partial(toggle, "Scores are percentages: divide them by 100.")
answers = partial(flag, "Answers behind each score; its binomial error is then known.", least=1)
level = partial(flag, "How much of the probability an interval holds.", default=0.9, above=0, below=1)

# Of what decides, in a sweep, a replay and a preview.
policy = partial(
    flag,
    "What decides: rlplan, full, random, median, asha or hyperband.",
    "<name>",
    default="rlplan",
    offer=completion.policies,
)

# How a budget is split, and what is compared beside n and B, for a plan and for a sweep that makes one.
Share: TypeAlias = float | Literal["auto"]
pilot_fraction = partial(
    flag, "Share of the budget for challengers, or for pilots with --explore.", word="auto", key="pilot.fraction"
)
champion = partial(
    flag,
    "Your own n and B, which are trained first; else n=8,B=64.",
    "n=<int>,B=<int>",
    short="--baseline",
    key="proposal.baseline",
)
explore = partial(flag, "Short runs all over the grid, and no champion.", key="proposal.explore")
alone = partial(flag, "No challengers beside the champion.", key="proposal.alone")
advised = partial(flag, "Start with the usual n and B instead of your own.", key="proposal.advised")
pilot_gpus = partial(flag, "How many GPUs a pilot gets; else the fewest at nearly the best price.", key="pilot.gpus")
recipes = partial(flag, "Recipes to compare with each other.", "<a>,<b>", offer=completion.recipes, key="axes.recipes")
models = partial(flag, "Base models to compare with each other.", "<a>,<b>", offer=completion.models, key="axes.models")

# Of what is priced, for a plan and for one configuration.
catalogue_model = partial(
    flag, "A model of the catalogue, or a path to a config.json.", offer=completion.models, key="workload.model"
)
gpu = partial(flag, "A GPU of the catalogue, or your own in rlplan.toml.", offer=completion.gpus, key="hardware.gpu")
gpus = partial(flag, "How many GPUs the run has.", key="hardware.gpus")
prompts = partial(flag, "How many prompts there are to train on.", key="workload.prompt_set_size")
response_tokens = partial(flag, "Most tokens of a response.", least=1, key="workload.response_tokens")
mean_response = partial(
    flag, "Mean tokens of a response: what a price depends on most.", key="workload.mean_response_tokens"
)
turns = partial(flag, "Turns of a rollout in an environment, such as calls of tools.", key="workload.turns")
tool_seconds = partial(flag, "Seconds that the environment takes for a turn.", key="workload.tool_seconds")
from_log = partial(flag, "A trainer's log of such a run: response length and base score count.", "<log>")
recipe = partial(
    flag, "A recipe, such as grpo or scalerl, or a path to a .toml file.", offer=completion.recipes, key="recipe.name"
)

# Of the training, for one run and for a sweep.
model = partial(flag, "A checkpoint for your own problems: its folder, or its name on the hub.", "<folder|name>")
problems = partial(flag, "Problems of your own: JSONL, CSV or Parquet of {prompt, answer}.", "<file>")
reward = partial(flag, "What scores your own problems.", "math|exact|<function>|<url>")
validation = partial(flag, "Validation problems, likewise; else some are held out.", "<file>")
engine = partial(flag, "What generates the responses; with a trainer on GPUs vllm.", "torch|vllm")
device = partial(flag, "Where it runs.", "cpu|cuda")
weights = partial(flag, "Format in forward passes; bfloat16 on a GPU.", "float32|bfloat16")
micro_batch = partial(flag, "Tokens of one forward and backward pass.", least=1)
trainer = partial(
    flag,
    "Whose trainer: builtin, trl, verl, …, a file on your own, or a trainable of Ray Tune's.",
    "<name>|<file>.toml|<module>:<trainable>",
    offer=completion.trainers,
)
rehearse = partial(toggle, "Try cluster, folder and trainer for a minute, and spend nothing.")
approximate = partial(toggle, "Let --trainer do a recipe as nearly as it can, and mark it.")

# Of who drives a sweep, here or by Slurm.
accept = partial(toggle, "Go on although the code or the settings are not what they were.")
new_folder = partial(flag, "Checkpoints and logs; on a cluster, shared storage.", "<folder>")
own_folder = partial(flag, "Where the sweep's folder lies, if it was moved.", "<folder>")
ray_address = partial(flag, "A Ray cluster; this machine without it.", "auto|<host>:<port>|ray://…")
workers = partial(flag, "Trials that run at once; as many as the plan's hardware holds.")
slurm = partial(toggle, "Submit it to Slurm as a job that goes on by itself, as the table slurm of the file says.")
sbatch = partial(flag, "An option of sbatch, such as --time=8:00:00; may be repeated.", "<option>")
job_only = partial(toggle, "With --slurm: write the job, submit nothing.")
dry_run = partial(toggle, "Say what would run, and run nothing.")
