"""What `rlplan fit` answered."""

from tests.rlplan.conftest import Run


def curves(run: Run, *args: str) -> list[dict[str, object]]:
    ran = run("fit", *args, "--format", "json")
    assert (ran.code, ran.err) == (0, "")
    return ran.json["curves"]


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
