import pytest

from budgets import errors
from budgets.errors import RlplanError, suggest


@pytest.mark.parametrize(
    ("given", "known", "said"),
    [
        ("h10", ["h100", "a100", "cpu"], "did you mean 'h100'"),
        ("GRPO", ["grpo", "dapo"], "did you mean 'grpo'?"),
        ("xyz", ["b", "a"], "known are a, b"),
    ],
)
def test_suggestions(given: str, known: list[str], said: str) -> None:
    assert suggest(given, known).startswith(said)


@pytest.mark.parametrize(
    ("name", "bases"),
    [
        ("InputError", (RlplanError, ValueError)),
        ("UnknownNameError", (errors.InputError,)),
        ("ConfigError", (errors.InputError,)),
        ("InfeasibleError", (errors.InputError,)),
        ("NotFoundError", (RlplanError, LookupError)),
        ("BudgetError", (RlplanError,)),
    ],
)
def test_errors_are_caught_as_what_they_are(name: str, bases: tuple[type, ...]) -> None:
    assert all(issubclass(getattr(errors, name), base) for base in bases)


def test_a_budget_error_is_no_input_error() -> None:
    assert not issubclass(errors.BudgetError, errors.InputError)  # they have different exit codes
