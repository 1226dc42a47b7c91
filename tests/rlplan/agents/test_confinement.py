"""An agent that may only read starts no training, and reads no file outside of its folder, whoever names it."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from budgets.errors import InputError
from rlplan.agents.tools import CommandTool, tools_of
from tests.rlplan.agents.test_server import PRICED, agent
from tests.rlplan.agents.test_tools import GROUP

SECRET = "geheim"
STARTS = (
    "python3 -m verl.trainer.main_ppo data.train_batch_size=64 actor_rollout_ref.rollout.n=2 trainer.n_gpus_per_node=8 "
    "data.max_response_length=512 algorithm.adv_estimator=grpo "
)
CURVE = "step,gpu_hours,geheim\n" + "".join(f"{step},{step},0.{step}\n" for step in range(10, 60))
OUTSIDE = {
    "env.sh": f"TOKEN={SECRET}",
    "s.yaml": f"actor_rollout_ref: {{model: {{path: {SECRET}}}}}",
    "s.toml": f'name = "{SECRET}"\n[objective]\nclip_low = "{SECRET}"\n',
    "r.toml": f'command = "{SECRET}"\n{SECRET} = 1\n',
    "config.json": json.dumps({"hidden_size": SECRET, "num_hidden_layers": SECRET, "model_type": SECRET}),
    "rates.txt": f"0.5\n{SECRET}\n",
    "curve.csv": CURVE,
    "metrics.jsonl": "".join(json.dumps({"step": step, SECRET: 0.01 * step}) + "\n" for step in range(60)),
    "run.log": f"step:1 - {SECRET}/x:0.5\nstep:2 - {SECRET}/x:0.6\n",
    "settings.py": f"from trl import GRPOConfig\nGRPOConfig(model='{SECRET}', num_generations=4, max_steps=3)\n",
}
INSIDE = {
    "source.sh": f"source ../outside/env.sh\n{STARTS} actor_rollout_ref.model.path=$TOKEN",
    "linked_source.sh": f"source env.link.sh\n{STARTS} actor_rollout_ref.model.path=$TOKEN",
    "bash.sh": f"bash ../outside/env.sh\n{STARTS} actor_rollout_ref.model.path=$TOKEN",
    "config.sh": f"{STARTS} --config ../outside/s.yaml",
    "at.sh": f"{STARTS} @ ../outside/s.yaml",
    "named.sh": f"{STARTS} --config-path ../outside --config-name s",
    "python.sh": f"{STARTS} ../outside/settings.py",
    "defaults.yaml": "defaults: [../outside/s]\ndata: {train_batch_size: 64}\nactor_rollout_ref: {rollout: {n: 2}}\n",
    "above.yaml": "defaults: [outside/s]\ndata: {train_batch_size: 64}\nactor_rollout_ref: {rollout: {n: 2}}\n",
    "rates.toml": '[workload]\npass_rates_file = "../outside/rates.txt"\n',
    "rates_link.toml": '[workload]\npass_rates_file = "link.txt"\n',
    "recipe.toml": '[recipe]\nname = "../outside/s.toml"\n',
    "axes.toml": '[axes]\nrecipes = ["grpo", "../outside/s.toml"]\n',
    "model.toml": '[workload]\nmodel = "../outside"\n',
    "heir.toml": 'inherits = "../outside/s.toml"\n',
    "trainer.toml": '[trainer]\nname = "../outside/r.toml"\n',
}
LINKS = {
    "env.link.sh": "env.sh",
    "link.txt": "rates.txt",
    "link.csv": "curve.csv",
    "link.db": "their.db",
    "link.toml": "s.toml",
    "runs/metrics.jsonl": "metrics.jsonl",
    "deep/a/metrics.jsonl": "metrics.jsonl",
    "logs/run.log": "run.log",
    "folder": ".",
    "point/checkpoint-5": ".",
    "wandb/latest-run": ".",
    "mlflow/metrics": ".",
}
CALLS: list[tuple[str, dict[str, Any]]] = [
    *(("check", {"files": [name]}) for name in INSIDE if name.endswith((".sh", ".yaml"))),
    *(("propose", PRICED | {"from": name}) for name in INSIDE if name.endswith((".sh", ".yaml"))),
    *(("propose", PRICED | {"config": name}) for name in INSIDE if name.endswith(".toml")),
    *(("fit", {"files": [name]}) for name in (*LINKS, *dict.fromkeys(Path(name).parts[0] for name in LINKS))),
    *(("watch", {"run": name}) for name in ("runs", "logs", "folder", "deep", "link.csv")),
    *(("propose", PRICED | {"recipes": f"grpo,{name}"}) for name in ("../outside/s.toml", "link.toml", "heir.toml")),
    *(("propose", PRICED | {"models": f"qwen3-8b, {name}"}) for name in ("../outside", "folder", "~")),
    *(("propose", PRICED | {"learn_from": [name]}) for name in ("../outside/their.db", "link.db", "sqlite:/link.db")),
    ("price", {"recipe": "heir.toml"}),
    ("price", {"runs": "link.csv"}),
    ("propose", PRICED | {"from_log": "logs/run.log"}),
    ("propose", PRICED | {"pass_rates_file": "/proc/self/environ"}),
    ("compare", {"files": ["link.csv", "runs"]}),
    ("replay", {"table": "link.csv", "budget": "30%"}),
]
NOT_OF_THE_SCHEMA: list[tuple[str, dict[str, Any]]] = [
    *(("launch", {"sweep": "plan-1", "print": value}) for value in ([], False, True, "", " ", None, 0, {})),
    ("launch", {"sweep": "plan-1"}),
    ("watch", {"run": "link.csv", "by": True}),
    ("propose", {"budget": True}),
    ("propose", {"budget": "5000 --db x"}),
    ("propose", PRICED | {"gpus": 2.5}),
    ("fit", {"files": "run.csv"}),
    ("fit", {"files": []}),
    ("fit", {"files": [["run.csv"]]}),
    ("fit", {"files": ["a\0b"]}),
    ("status", {"sweep": ["sweep-1"]}),
    ("status", {"watch": True}),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what names files outside of it, each with a secret."""
    monkeypatch.setenv("HOME", str(tmp_path / "outside"))
    monkeypatch.setenv("SECRET_OF_MINE", SECRET)
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    for place, texts in ((outside, OUTSIDE), (inside, INSIDE)):
        place.mkdir()
        for name, text in texts.items():
            (place / name).write_text(text)
    with closing(sqlite3.connect(outside / "their.db")) as database:
        database.execute(f"CREATE TABLE {SECRET} (x)")
    for name, target in LINKS.items():
        (inside / name).parent.mkdir(exist_ok=True, parents=True)
        os.symlink(outside / target, inside / name)
    (inside / "mlflow/meta.yaml").write_text("")
    return inside


CONFINED = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from rlplan.agents.confinement import confine
confine(sys.argv[1], sys.argv[1] + "/rlplan.db")
from rlplan.cli import app
for words in json.loads(sys.argv[2]):
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(out):
        try:
            app(words)
        except SystemExit as end:
            print("exit", end.code)
    print(json.dumps([words, out.getvalue()]), file=sys.__stdout__)
"""


def test_no_file_outside_of_the_folder_is_read_whoever_names_it(folder: Path) -> None:
    tools = tools_of(GROUP, runs=False)
    refused, lines = [], []
    for name, given in CALLS:
        try:
            lines.append(tools[name].words(given, folder))
        except InputError as error:
            refused.append(str(error))
    assert not [text for text in refused if SECRET in text]
    command = [sys.executable, "-P", "-c", CONFINED, str(folder), json.dumps(lines)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    answers = list(map(json.loads, done.stdout.splitlines()))
    assert len(answers) == len(lines), done.stderr
    assert not [(words, said) for words, said in answers if SECRET in said]
    assert not [(words, said) for words, said in answers if "exit 1\n" in said or "internal error" in said]


@pytest.mark.parametrize("flags", [(), ("--allow-runs",)])
def test_an_agent_is_not_answered_from_outside_of_its_folder(folder: Path, flags: tuple[str, ...]) -> None:
    async def walk() -> list[str]:
        async with agent(folder, *flags) as client:
            calls = ("propose", PRICED | {"config": "rates.toml"}), ("check", {"files": ["source.sh"]})
            return [(await client.call_tool(*call)).content[0].text for call in calls]  # type: ignore[union-attr]

    rates, sourced = anyio.run(walk)
    assert "rates.txt" in rates
    assert "$TOKEN is set by nobody" in sourced
    assert SECRET not in rates + sourced


def test_a_module_in_the_folder_is_not_run(folder: Path) -> None:
    for name in ("typer", "numpy", "rlplan", "sitecustomize"):
        (folder / f"{name}.py").write_text("open('ran', 'w')")

    async def walk() -> Any:
        async with agent(folder) as client:
            return await client.call_tool("price", {"gpus": 8})

    assert not anyio.run(walk).is_error
    assert not (folder / "ran").exists()


@pytest.mark.parametrize(("name", "given"), NOT_OF_THE_SCHEMA)
def test_what_is_not_of_the_schema_is_refused_before_anything_runs(
    folder: Path, name: str, given: dict[str, Any]
) -> None:
    tool = tools_of(GROUP, runs=False)[name]
    with pytest.raises(ValueError, match=r"was not run|has no|null byte"):
        tool.words(given, folder)


def test_what_trains_is_another_tool_that_only_exists_where_runs_are_allowed() -> None:
    reading, running = (tools_of(GROUP, runs=runs) for runs in (False, True))
    assert running.keys() - reading.keys() == {"sweep", "resume", "retry", "run_final", "pause", "stop"}
    assert all(not running[name].runs for name in reading)
    assert "print" in running["launch"].schema["required"]
    assert "print" not in running["run_final"].schema["properties"]


@pytest.mark.parametrize(
    "given",
    [
        {"storage": "/elsewhere"},
        {"storage": "file:///elsewhere"},
        {"storage": "local:///elsewhere"},
        {"folder": "../x"},
        {"sbatch": ["--output=/elsewhere/x"]},
        {"reward": "link.py:reward"},
        {"recipes": "grpo,../x.toml"},
        {"problems": "https:/example.org/x"},
    ],
)
def test_what_runs_is_given_no_place_outside_of_the_folder(tmp_path: Path, given: dict[str, Any]) -> None:
    (tmp_path / "link.py").symlink_to("/elsewhere.py")
    sweep: CommandTool = tools_of(GROUP, runs=True)["sweep"]
    with pytest.raises(ValueError, match=r"outside|URL"):
        sweep.words(given, tmp_path)
    assert sweep.words({"storage": "s3://bucket/x", "ray_address": "10.0.0.1:6379"}, tmp_path)


def test_lists_are_told_to_hold_what_they_hold() -> None:
    tools = tools_of(GROUP, runs=True)
    items = {
        f"{name}.{key}": value["items"]["type"]
        for name, tool in tools.items()
        for key, value in tool.schema["properties"].items()
        if value.get("type") == "array"
    }
    assert items.pop("fit.predict_at") == ["number", "string"]
    assert items.keys() >= {"check.files", "fit.files", "compare.files", "propose.learn_from", "retry.trial"}
    assert set(items.values()) == {"string"}
