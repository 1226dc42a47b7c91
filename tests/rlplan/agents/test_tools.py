"""The commands as tools of an agent, and what their answers leave out."""

import json
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest
from typer.main import get_command

from rlplan.agents import tools
from rlplan.agents.server import short_answer
from rlplan.cli import app
from tests.rlplan.agents.test_server import PRICED, agent
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
    ("status", {"sweep": "n2-B64-s0"}),
    ("launch", {"print": "verl"}),
]
GROUP: Any = get_command(app)


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
                jsonschema.validate(result.structured_content, schemas[name])
                assert len(result.content[0].text) < 6000, name
                assert result.structured_content["answer"], name

    anyio.run(walk)


def test_every_flag_that_is_named_exists() -> None:
    flags = {name: {tools.flag_name(each) for each in command.params} for name, command in GROUP.commands.items()}
    for name, named in (*tools.NOT_TO_READ.items(), *tools.NOT_TO_RUN.items(), *tools.ONLY.items()):
        assert named <= flags[name], name
    of_runs, of_all = (set().union(*(flags[name] for name in names)) for names in (tools.RUNNING, flags))
    assert of_runs >= tools.ADDRESSES
    assert of_all >= tools.OURS


def test_every_tool_that_runs_has_a_schema_of_what_it_takes() -> None:
    offered = tools.tools_of(GROUP, runs=True)
    assert offered.keys() == {*tools.READING, *tools.RUNNING, tools.FINAL}
    for tool in offered.values():
        jsonschema.Draft202012Validator.check_schema(tool.schema)


def test_what_is_short_stays_as_it_is() -> None:
    assert short_answer({"score": 0.123456}, 100) == ({"score": 0.123456}, {})


def test_lists_keep_their_beginning_or_their_newest_end() -> None:
    answer = {"rows": [{"rank": rank, "score": rank / 7} for rank in range(200)], "plan": "plan-1"}
    short, left_out = short_answer(answer, 400)
    assert len(json.dumps(short)) <= 400
    assert short["plan"] == "plan-1"
    assert [row["rank"] for row in short["rows"]] == list(range(len(short["rows"])))
    assert left_out == {"rows": f"{len(short['rows'])} of 200"}
    assert short_answer(answer, 400, newest=True)[0]["rows"][-1]["rank"] == 199


def test_whatever_an_answer_holds_it_fits() -> None:
    short, left_out = short_answer({"a": "x" * 900, "b": {"c": ["y" * 900] * 9}, "plan": "plan-1"}, 300)
    assert short["plan"] == "plan-1"
    assert len(json.dumps(short)) <= 300
    assert left_out["a"] == "nothing"
    assert left_out["c"] == "0 of 9"
