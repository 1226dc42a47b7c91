"""What `import rlplan` gives, and what it costs."""

import subprocess
import sys
from pathlib import Path

import pytest

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


def test_a_plan_is_proposed_without_what_only_sweeps_need() -> None:
    code = "import rlplan, tempfile, os\nos.chdir(tempfile.mkdtemp())\nrlplan.propose(budget=5000)"
    assert not modules_after(code) & {"scipy", "torch", "ray", "pandas", "polars", "plotly"}


def test_every_name_is_there_and_is_what_it_is_called() -> None:
    for name in rlplan._HOMES:
        assert getattr(rlplan, name).__name__ == name
    assert set(rlplan._HOMES) < set(dir(rlplan))
    assert rlplan.__version__[0].isdigit()


def test_every_error_can_be_caught_by_name() -> None:
    raised = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert raised - {"IllegalTransitionError"} == set(rlplan._ERRORS)
    assert all(issubclass(getattr(rlplan, name), rlplan.RlplanError) for name in rlplan._ERRORS)


def test_type_checkers_see_the_same_names() -> None:
    source = Path(rlplan.__file__).read_text(encoding="utf-8")
    for name, home in rlplan._HOMES.items():
        assert f"    from {home} import {name} as {name}\n" in source


def test_another_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="module 'rlplan' has no attribute 'nothing'"):
        _ = rlplan.nothing


def test_no_module_hides_a_name() -> None:
    modules = {path.stem for path in Path(rlplan.__file__).parent.iterdir()}
    assert not modules & set(rlplan._HOMES)


@pytest.mark.parametrize("package", ["budgets", "planner", "runner", "rlplan"])
def test_packages_tell_that_they_have_types(package: str) -> None:
    assert (ROOT / package / "py.typed").exists()
