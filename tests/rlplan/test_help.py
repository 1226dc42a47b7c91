"""`--help` of every command: it has an example, and what the example says is there."""

import re
import shlex
from typing import Any

import pytest
from typer.main import get_command

from rlplan.cli import app
from tests.rlplan.conftest import Run

GROUP: Any = get_command(app)
COMMANDS: dict[str, Any] = GROUP.commands


def examples(command: str) -> list[list[str]]:
    """Return the command lines of rlplan that a command's help gives as examples."""
    found = re.search(r"Example: (.+)", COMMANDS[command].help)
    assert found is not None, f"{command} has no example"
    lines = [shlex.split(part, comments=True) for part in found[1].split("&&")]
    return [words[1:] for words in lines if words[0] == "rlplan"]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_an_example_can_be_typed_as_it_stands(name: str) -> None:
    lines = examples(name)
    assert name in {line[0] for line in lines}
    for words in lines:
        # Reads the whole line, checks every flag and value, and runs nothing.
        with COMMANDS[words[0]].make_context(words[0], list(words[1:])) as context:
            assert not context.args


@pytest.mark.parametrize("name", sorted(COMMANDS))
@pytest.mark.parametrize("width", [80, 200])
def test_help_shows_the_example_and_every_flag(run: Run, name: str, width: int) -> None:
    ran = run(name, "--help", width=width)
    assert ran.code == 0
    assert max(map(len, ran.out.splitlines())) <= width
    shown = ran.text
    assert f"Example: {' '.join(['rlplan', name])}" in shown
    for parameter in COMMANDS[name].params:
        assert getattr(parameter, "help", None), f"{parameter.name} is not explained"
        for flag in parameter.opts if parameter.param_type_name == "option" else ():
            assert flag in shown, flag


def test_the_help_of_all_fits_and_names_every_command(run: Run) -> None:
    ran = run("--help")
    assert max(map(len, ran.out.splitlines())) <= 80
    assert [name for name in COMMANDS if not re.search(rf"^│ {name} ", ran.out, re.MULTILINE)] == []
