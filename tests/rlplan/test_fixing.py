"""A value that is changed in a script stands where it stood, and nothing around it moves."""

import pytest

from rlplan.actions.fixing import _in_tables, _in_words

N = "actor_rollout_ref.rollout.n"


@pytest.mark.parametrize(
    ("line", "key", "changed"),
    [
        (f"    {N}=5 \\", N, f"    {N}=8 \\"),
        (f'    "{N}=${{N:-5}}" \\', N, f'    "{N}=8" \\'),
        (f"    +{N}=$((2 * N)) # often 5", N, f"    +{N}=8 # often 5"),
        ("python train.py --num_generations 5 --x 1", "num_generations", "python train.py --num_generations 8 --x 1"),
        ("--num-generations=5", "num_generations", "--num-generations=8"),
        (
            "args = GRPOConfig(num_generations=5, beta=0.0)",
            "num_generations",
            "args = GRPOConfig(num_generations=8, beta=0.0)",
        ),
        (f"# {N}=5", N, None),
        ("my_num_generations=5", "num_generations", None),
    ],
)
def test_in_a_script(line: str, key: str, changed: str | None) -> None:
    around = "set -x\n{}\necho done\n"
    assert _in_words(around.format(line), key, "8") == (None if changed is None else around.format(changed))


def test_the_last_of_several_counts() -> None:
    assert _in_words(f"{N}=4\n{N}=5\n", N, "8") == f"{N}=4\n{N}=8\n"


def test_in_tables() -> None:
    toml = "[orchestrator]\nbatch_size = 64\n[orchestrator.train]\nbatch_size = 128  # rollouts\n"
    yaml = "grpo:\n  # how many\n  num_generations: 16 # of each\n  other:\n    num_generations: 2\nseed: 1\n"

    assert _in_tables(toml, "orchestrator.train.batch_size", "256") == toml.replace("128", "256")
    assert _in_tables(yaml, "grpo.num_generations", "32") == yaml.replace("16", "32")
    assert _in_tables(yaml, "grpo.seed", "2") is None
