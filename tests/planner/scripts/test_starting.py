"""An allocation in a trainer's own keys is read again as the same allocation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.logs.trainers import load_trainer, trainer_names
from planner.scripts.arguments import Start, arguments_of, keys_of
from planner.scripts.facts import facts_of

STARTS = st.builds(Start, st.integers(2, 512), st.integers(1, 2048), st.integers(1, 10_000), st.floats(1e-8, 1e-3))


@pytest.mark.parametrize("name", trainer_names())
@given(start=STARTS)
def test_what_is_written_is_read_again(name: str, start: Start) -> None:
    read = facts_of(name, dict(keys_of(load_trainer(name), start))).settings
    assert (read.rollouts_per_prompt, read.prompts_per_batch) == (start.rollouts_per_prompt, start.prompts_per_batch)
    assert (read.learning_rate, read.notes) == (start.learning_rate, ())


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("verl", "actor_rollout_ref.rollout.n=16"),
        ("slime", "--global-batch-size 1024"),
        ("prime-rl", "--orchestrator.batch_size 1024"),
        ("trl", "--learning_rate 1.5e-06"),
    ],
)
def test_they_are_written_as_the_trainer_s_command_line_has_them(name: str, line: str) -> None:
    assert line in arguments_of(load_trainer(name), Start(16, 64, 1500, 1.5e-6))


def test_several_updates_a_batch_and_another_recipe_are_said_too() -> None:
    start = Start(16, 64, 1500, 1e-6, updates_per_batch=4, recipe="gspo")
    keys = dict(keys_of(load_trainer("verl"), start))
    assert keys["data.train_batch_size"] == 4 * keys["actor_rollout_ref.actor.ppo_mini_batch_size"] == 256
    assert keys["trainer.total_training_steps"] == 375
    assert keys["actor_rollout_ref.actor.policy_loss.loss_mode"] == "gspo"
    assert "4 updates a batch" in facts_of("verl", keys).settings.notes[0]
    assert dict(keys_of(load_trainer("trl"), start))["max_steps"] == 1500
