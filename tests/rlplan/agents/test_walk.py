"""A coding agent goes from a script and a budget to the line that starts the final run, with no word of a person."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.rlplan.agents.test_server import agent, answer_of

pytestmark = pytest.mark.soak

SCRIPT = """\
MODEL=Qwen/Qwen3-8B
python3 -m verl.trainer.main_ppo data.train_batch_size=64 data.max_response_length=4096 \\
    actor_rollout_ref.model.path=$MODEL actor_rollout_ref.rollout.n=8 actor_rollout_ref.actor.optim.lr=1e-6 \\
    actor_rollout_ref.actor.ppo_mini_batch_size=64 trainer.n_gpus_per_node=8 trainer.total_training_steps=400
"""
STAND_IN = 'name = "standin"\n[options]\ntime_scale = 300\nsave_every_steps = 5\n'
PATIENCE = 500.0  # seconds until the sweep has gone wrong
WORKLOAD = {"gpu": "h100", "mean_response_tokens": 2000}
STARTED = {"model": "qwen3-8b", "gpus": 8, "gpu": "h100", "response_tokens": 4096, "mean_response_tokens": 2000}


def test_from_a_script_and_a_budget_to_the_line_that_starts_the_run(tmp_path: Path) -> None:
    (tmp_path / "run_grpo.sh").write_text(SCRIPT)
    (tmp_path / "standin.toml").write_text(STAND_IN)

    async def walk() -> tuple[Any, Any, Any]:
        async with agent(tmp_path, "--allow-runs") as client:
            checked = answer_of(await client.call_tool("check", {"files": ["run_grpo.sh"], **WORKLOAD}))
            plan = answer_of(await client.call_tool("propose", {"budget": 800, "pilot_fraction": 0.05, **STARTED}))
            ran = {"plan": plan["plan"], "trainer": "standin.toml", "folder": "runs"}
            swept = await client.call_tool("sweep", ran)
            assert not swept.is_error, swept.content
            with anyio.fail_after(PATIENCE):
                while answer_of(await client.call_tool("status", {}))["status"] == "running":
                    await anyio.sleep(5)  # each look is a process
            recommended = answer_of(await client.call_tool("recommend", {}))
            printed = answer_of(await client.call_tool("launch", {"print": "verl"}))
            return checked, recommended, printed

    checked, recommended, printed = anyio.run(walk)
    assert "hours" in json.dumps(checked)
    chosen = recommended["recommendation"]
    assert f"actor_rollout_ref.rollout.n={chosen['rollouts_per_prompt']}" in printed["arguments"]
