"""What `import rlplan` gives, and what it costs."""

import subprocess
import sys
from pathlib import Path

import rlplan
from budgets import errors

ROOT = Path(__file__).parents[3]
HEAVY = {"numpy", "sqlalchemy", "pydantic", "typer", "rich", "scipy", "torch", "ray", "pandas", "polars", "plotly"}


def modules_after(code: str) -> set[str]:
    command = [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_importing_it_imports_nothing_heavy() -> None:
    assert not modules_after("import rlplan") & HEAVY


def test_every_error_can_be_caught_by_name() -> None:
    raised = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert raised - {"IllegalTransitionError"} == set(rlplan._ERRORS)
    assert all(issubclass(getattr(rlplan, name), rlplan.RlplanError) for name in rlplan._ERRORS)
