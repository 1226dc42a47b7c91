"""Tables of what a trainer's sources know, by which keys are checked before anything is started."""

import subprocess
from pathlib import Path

import pytest

from budgets.errors import InputError
from docs.tools import trainer_facts
from runner.trainers.facts import facts_of, flat_keys, nested


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("orchestrator.batchsize", "orchestrator.batch_size"),
        ("trainer.optim.learning_rate", None),
        ("orchestrator.train.source[].groupsize", "orchestrator.train.source[].group_size"),
    ],
)
def test_a_mistyped_key_is_refused_with_the_nearest(key: str, nearest: str | None) -> None:
    with pytest.raises(InputError, match=f"is no key of prime-rl 0.8.0.*{(nearest or '').replace('[]', '..')}"):
        facts_of("prime-rl").require({key: 1})


def test_keys_below_what_is_free_are_let_through() -> None:
    facts = facts_of("prime-rl")
    facts.require({"orchestrator.train.source": [{"env": {"taskset": {"id": "x"}}}], "env_vars": {"A": "b"}})


def test_dotted_keys_become_tables_and_tables_dotted_keys() -> None:
    keys = {"a.b": 1, "a.c.d": [{"e": 1}, {"f": {"g": 2}}], "h": [1, 2], "i": {}}
    assert nested(keys) == {"a": {"b": 1, "c": {"d": [{"e": 1}, {"f": {"g": 2}}]}}, "h": [1, 2], "i": {}}
    assert list(flat_keys(nested(keys))) == ["a.b", "a.c.d[].e", "a.c.d[].f.g", "h", "i"]


def test_the_script_reads_models_through_imports_and_aliases(tmp_path: Path) -> None:
    folder = tmp_path / trainer_facts.PRIME_RL / "prime_rl" / "configs"
    folder.mkdir(parents=True)
    (folder / "shared.py").write_text(
        "class Base:\n    name: str = 'x'\n\nclass Named(Base):\n    size: int = Field(3, ge=1)\n"
    )
    (folder / "rl.py").write_text(
        "from prime_rl.configs.shared import Named as Own\n"
        "class A:\n    type: Literal['a'] = 'a'\n"
        "class B:\n    type: Literal['b'] = 'b'\n    depth: float\n"
        "Either: TypeAlias = Annotated[A | B, Field(discriminator='type')]\n"
        "class RLConfig:\n    own: Own = Own()\n    many: list[Either] = []\n    kept: ClassVar[int] = 1\n"
    )
    (tmp_path / "pyproject.toml").write_text('version = "1.2.3"\n')
    for words in (("init", "-q"), ("add", "."), ("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "x")):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)

    lines = trainer_facts.table("prime-rl", [trainer_facts.Checkout(str(tmp_path))]).splitlines()

    assert 'version = "1.2.3"' in lines
    assert lines[5:] == [
        '"own" = ["Own", "Own()", "rl.py:9"]',
        '"own.name" = ["str", "\'x\'", "shared.py:2"]',
        '"own.size" = ["int", "3", "shared.py:5"]',
        '"many" = ["list[Either]", "[]", "rl.py:10"]',
        '"many[].type" = ["Literal[\'a\'] | Literal[\'b\']", "\'a\'", "rl.py:3"]',
        '"many[].depth" = ["float", "", "rl.py:6"]',
    ]
