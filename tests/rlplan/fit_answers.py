"""What `rlplan fit` answered."""

import json

import pytest

from tests.rlplan.conftest import Run


def curves(run: Run, *args: str) -> list[dict[str, object]]:
    ran = run("fit", *args, "--format", "json")
    assert (ran.code, ran.err) == (0, "")
    return json.loads(ran.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))["curves"]


def only(run: Run, *args: str) -> dict:
    (curve,) = curves(run, *args)
    return curve


def refused(run: Run, *args: str) -> str:
    ran = run("fit", *args)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("rlplan: ")
    assert ran.err.count("\n") == 1
    return ran.err
