"""Tables of what a trainer's sources know, by which keys are checked before anything is started."""

import pytest

from budgets.errors import InputError
from runner.trainers.facts import facts_of


def test_a_mistyped_key_is_refused_and_below_what_is_free_any_is_let_through() -> None:
    facts = facts_of("prime-rl")
    facts.require({"orchestrator.train.source": [{"env": {"taskset": {"id": "x"}}}], "env_vars": {"A": "b"}})
    with pytest.raises(InputError, match=r"is no key of prime-rl 0.8.0.*orchestrator.train.source\[\].group_size"):
        facts.require({"orchestrator.train.source": [{"groupsize": 1}]})
