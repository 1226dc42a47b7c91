"""What an answer names next in Python is Python, and n and B are names of arguments."""

from pathlib import Path

import pytest

import rlplan
from rlplan.api.python_calls import python_call
from tests.rlplan.fit_samples import write


def test_printed_answers_end_with_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for answer in (rlplan.fit(write(tmp_path / "run.csv")), rlplan.price(gpus=8)):
        lines = str(answer).partition("\nNext\n")[2].splitlines()
        assert lines
        assert all(line.startswith("  rlplan.") for line in lines), lines


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("rlplan --plot fit.html", "rlplan.fit(…, plot='fit.html')"),
        ("rlplan sweep plan-1 --from 'a b.sh'", "rlplan.run('plan-1', script='a b.sh')"),
        ("rlplan price -n 8 --gpus=16 --db x.db", "rlplan.price(rollouts_per_prompt=8, gpus=16, db='x.db')"),
        ("rlplan check a.sh --fix", "rlplan.check('a.sh', fix=True)"),
        ("rlplan rank sweep-1 --db x.db", "rlplan.open('x.db').sweep('sweep-1').ranked()"),
        ("rlplan rank plan-1", "rlplan.open('rlplan.db').plan('plan-1')"),
        ("rlplan launch sweep-1 --print verl", None),
        ("rlplan --explain", None),
        ("rlplan dashboard", None),
    ],
)
def test_a_command_has_the_call_that_does_the_same(line: str, call: str | None) -> None:
    assert python_call(line, "fit") == call


def test_n_and_b_are_names_of_arguments() -> None:
    priced = rlplan.price(n=16, B=32, gpus=8)  # type: ignore[call-arg]
    assert priced == rlplan.price(rollouts_per_prompt=16, prompts_per_batch=32, gpus=8)
    with pytest.raises(TypeError, match="both 'n' and 'rollouts_per_prompt'"):
        rlplan.price(n=16, rollouts_per_prompt=8)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'n'"):
        rlplan.propose(budget=5, n=16)  # type: ignore[call-arg]
