"""In Python an error names arguments and functions, not flags and commands."""

import pytest

import rlplan
from rlplan.wording.arguments import reworded


@pytest.mark.parametrize(
    ("said", "in_python"),
    [
        ("--budget 5: give more", "budget=5: give more"),
        ("name it by --per-trial", "name it by per_trial"),
        ("`rlplan resume sweep-1` goes on with it", "`rlplan.resume('sweep-1')` goes on with it"),
        (
            "`rlplan launch sweep-1 --allocation n=4,B=8 --switch`",
            "`rlplan.launch('sweep-1', allocation='n=4,B=8', switch=True)`",
        ),
        (
            "none. Run: rlplan propose --budget 5000 --db a.db",
            "none. Run: rlplan.propose(budget=5000, db='a.db')",
        ),
        ("`rlplan status sweep-1 --watch` shows it", "`rlplan.open().sweep('sweep-1')` shows it"),
        ("`rlplan rank sweep-1`, --row 3", "`rlplan.open().sweep('sweep-1').ranked()`, row=3"),
        (
            "a file of `rlplan export --experience`; leave --row out",
            "a file of `rlplan export --experience`; leave row out",
        ),
    ],
)
def test_flags_are_arguments_and_commands_calls_where_there_is_a_function(said: str, in_python: str) -> None:
    assert reworded(said) == in_python


def test_a_database_that_is_not_there_is_made_by_a_function() -> None:
    with pytest.raises(rlplan.NotFoundError, match=r"Run: rlplan\.propose\(budget=5000, db='.*gone\.db'\)"):
        rlplan.open("gone.db")
