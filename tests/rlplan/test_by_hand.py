"""`rlplan launch --print` says how a row of a plan or a sweep is given to a trainer."""

import pytest

from tests.rlplan.conftest import Run
from tests.rlplan.sweep_rows import Seeder


@pytest.fixture
def planned(run: Run) -> Run:
    assert run("propose", "--budget", "2000", "--pilot-fraction", "0").code == 0
    return run


def test_a_plan_s_row_is_printed_to_be_pasted(planned: Run) -> None:
    said = planned("launch", "plan-1", "--print", "verl")
    assert (said.code, said.err) == (0, "")
    lines = [line.removesuffix(" \\") for line in said.out.splitlines() if not line.startswith("#")]
    row = planned.json("rank", "plan-1")["ranking"][0]
    n, prompts, steps = (row[name] for name in ("rollouts_per_prompt", "prompts_per_batch", "update_steps"))
    assert lines == [
        f"actor_rollout_ref.rollout.n={n}",
        f"data.train_batch_size={prompts}",
        f"actor_rollout_ref.actor.ppo_mini_batch_size={prompts}",
        f"actor_rollout_ref.actor.optim.lr={row['learning_rate']:.4g}",
        f"trainer.total_training_steps={steps}",
    ]


def test_json_has_the_row_and_the_arguments(planned: Run) -> None:
    third = planned.json("launch", "--print", "slime", "--row", "3")
    assert (third["of"], third["row"]["rank"], third["trainer"]) == ("plan-1", 3, "slime")
    assert f"--rollout-batch-size {third['row']['prompts_per_batch']}" in third["arguments"]


def test_a_sweep_without_an_answer_says_that_its_row_is_as_proposed(run: Run, seeder: Seeder) -> None:
    seeder.store.close()
    said = run("launch", "sweep-1", "--print", "verl")
    assert said.code == 0
    assert "\n# as proposed: the sweep recommends nothing yet\n" in said.out
