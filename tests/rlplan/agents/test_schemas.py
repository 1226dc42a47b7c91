"""What each tool answers is what its output schema says, which is made of the types of the answer."""

from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest
from typer.main import get_command

from rlplan.agents.tools import tools_of
from rlplan.cli import app
from tests.rlplan.agents.test_server import PRICED, agent
from tests.rlplan.conftest import Run
from tests.rlplan.fit_samples import rising, write

SCRIPT = """\
python3 -m verl.trainer.main_ppo data.train_batch_size=64 data.max_response_length=512 algorithm.adv_estimator=grpo \\
    actor_rollout_ref.model.path=Qwen/Qwen3-8B actor_rollout_ref.rollout.n=2 trainer.n_gpus_per_node=8
"""
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("check", {"files": ["run_grpo.sh"], "gpu": "h100", "budget": 800}),
    ("propose", PRICED | {"recipes": "grpo,dapo", "within": "3d"}),
    ("preview", {"plan": "plan-1", "draws": 3, "pilot_fractions": "0,0.1"}),
    ("price", {"gpus": 8, "rollouts_per_prompt": 8}),
    ("fit", {"files": ["one.csv", "two.csv"], "predict_at": ["end", "100"], "fit_fraction": 0.5}),
    ("fit", {"files": ["one.csv"], "law": "power", "predict_at": ["100"]}),
    ("compare", {"files": ["one.csv", "two.csv"]}),
    ("watch", {"run": "one.csv", "end": 100}),
    ("replay", {"table": "table.csv", "budget": "30%", "target": 20, "repeat": 2, "policy": "asha"}),
    ("status", {}),
    ("status", {"all": True}),
    ("recommend", {}),
    ("rank", {}),
    ("decisions", {}),
    ("show", {"trial": "n2-B64-s0"}),
    ("launch", {"print": "verl"}),
    ("launch", {"print": "skypilot"}),
]


@pytest.fixture
def folder(swept: str, tmp_path: Path) -> Path:
    """What an agent may be asked about: a sweep, a script, curves and recorded runs."""
    (tmp_path / "run_grpo.sh").write_text(SCRIPT)
    x, y = rising()
    write(tmp_path / "one.csv")
    write(tmp_path / "two.csv", x=x, y=0.9 * y)
    runs = [
        (n, seed, t, 0.3 + 0.02 * t * n / 16 + 0.01 * seed) for n in (4, 8, 16) for seed in (0, 1) for t in range(21)
    ]
    rows = [f"n{n}s{seed},{n},16,{seed},{t},{score:.4f}" for n, seed, t, score in runs]
    header = "run,rollouts_per_prompt,prompts_per_batch,seed,gpu_hours,score"
    (tmp_path / "table.csv").write_text("\n".join([header, *rows]))
    return tmp_path


def test_the_clients_of_the_sdk_accept_every_answer(folder: Path) -> None:
    async def walk() -> None:
        async with agent(folder) as client:
            schemas = {each.name: each.output_schema for each in (await client.list_tools()).tools}
            assert schemas.keys() == {name for name, _ in CALLS}
            for name, given in CALLS:
                result = await client.call_tool(name, given)
                assert not result.is_error, (name, result.content)
                require_told_apart(result.structured_content, schemas[name])

    anyio.run(walk)


def require_told_apart(content: Any, schema: Any) -> None:
    """Hold an answer against its schema, and see that it is refused without any of its keys."""
    jsonschema.validate(content, schema)
    answer = content["answer"][0] if isinstance(content["answer"], list) else content["answer"]
    named = {name for each in schema["$defs"].values() for name in each.get("required", ())}
    for name in named & answer.keys():
        value = answer.pop(name)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(content, schema)
        answer[name] = value


RUNS = (
    ("sweep", "--dry-run"),
    ("sweep", "--task", "sum-easy", "--budget", "0.1", "--policy", "full"),
    ("launch", "--dry-run"),
    ("launch",),
)


@pytest.mark.parametrize("words", RUNS, ids=" ".join)
def test_what_runs_answers_as_its_schema_says(words: tuple[str, ...], swept: str, run: Run) -> None:
    ran = run(*words, "--format", "json")
    assert ran.code in (0, 5), ran.err
    schema = tools_of(get_command(app), runs=True)[words[0]].answers
    require_told_apart({"answer": ran.json, "exit_code": ran.code, "said": ""}, schema)


def test_every_tool_that_runs_has_a_schema() -> None:
    for tool in tools_of(get_command(app), runs=True).values():
        jsonschema.Draft202012Validator.check_schema(tool.answers)
        assert tool.answers["$defs"], tool.name
