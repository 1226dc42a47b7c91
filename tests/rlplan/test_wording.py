"""Numbers, tables, what a plan takes for granted, and what is not installed, as words."""

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from budgets.errors import InputError
from planner.config import Layer, build_request, resolve
from planner.proposals import Proposal, propose
from rlplan.cli import app
from rlplan.wording.assumptions import Assumption, assumptions
from rlplan.wording.numbers import aligned_hours, count, duration, gpu_hours, hours, probability, steps, whole_number
from rlplan.wording.screen import Canvas, Cells, Column, table_of, text_of
from tests.rlplan.conftest import Run


@pytest.mark.parametrize(
    ("write", "numbers"),
    [
        (count, {7: "7", 999: "999", 999_600: "1M", 9.36e6: "9.36M", 1e9: "1B", 1.34e12: "1.34T", 38_000: "38k"}),
        (hours, {5000: "5,000", 99.97: "100", 26.1: "26.1", 7: "7", 0.03: "0.03"}),
        (aligned_hours, {5000: "5,000", 99.96: "100", 26.1: "26.1", 7: "7.00", 0.03: "0.0300"}),
        (
            duration,
            {
                0.0: "0 s",
                0.09 / 3600: "0.09 s",
                10 / 3600: "10 s",
                99.6 / 60: "100 min",
                0.05: "3 min",
                14: "14 h",
                62.5: "2.6 days",
                24 * 365 * 300: "109,500 days",
            },
        ),
        (steps, {3494: "3,494", 999_999: "999,999", 328_360_512: "328M"}),
        (probability, {None: "–", 0.0: "<0.01", 0.0049: "<0.01", 0.005: "0.01", 0.5: "0.50", 1.0: ">0.99"}),
    ],
)
def test_numbers_have_the_digits_and_the_unit_that_they_deserve(
    write: Callable[[float | None], str], numbers: dict[float | None, str]
) -> None:
    assert {number: write(number) for number in numbers} == numbers


@pytest.mark.parametrize(
    ("typed", "number"),
    [("64", 64), (" 1,024 ", 1024), ("1_000", 1000), ("2e3", 2000), ("9007199254740993", 2**53 + 1)],
)
def test_a_whole_number_may_be_typed_as_a_person_does(typed: str, number: int) -> None:
    assert whole_number(typed, "--gpus") == number


@pytest.mark.parametrize("typed", ["0,5", "2,5", "1,00", "1,0000"])
def test_a_comma_that_sets_off_no_thousands_is_refused(typed: str) -> None:
    with pytest.raises(InputError, match="is not a number of GPU-hours"):
        gpu_hours(typed, "--budget")


def test_no_line_is_broken_inside_a_number_and_its_sign() -> None:
    text = "Run n = 8, B = 16, steps × 2, gain 0.013 ± 0.002 after 5 GPU-hours"
    for width in range(16, len(text)):
        said = [line.plain for line in Canvas(width).lines(text)]
        assert " ".join(said) == text
        assert not any(line.endswith(("=", "×", "±", " n", "5")) or line[:1] in "=×±" for line in said)


ROWS = [("699,667", "14,380 steps", "179M", "easy, qwen3-8b"), ("12", "–", "1.19B", "scalerl")]
COLUMNS: Sequence[Column[tuple[str, ...]]] = (
    Column("M", lambda row: row[0]),
    Column("pilot", lambda row: row[1]),
    Column("rollouts", lambda row: row[2], gives_way=True),
    Column("with", lambda row: row[3], Cells.TEXTS),
)


def drawn(width: int) -> str:
    return text_of(Console(width=width), [table_of(ROWS, COLUMNS, Canvas(width))])


@pytest.mark.parametrize(("width", "rollouts"), [(80, True), (51, True), (44, False), (38, False), (24, False)])
def test_a_column_that_gives_way_is_left_out_before_another_is_broken(width: int, rollouts: bool) -> None:
    shown = drawn(width)
    assert max(map(len, shown.splitlines())) <= width
    assert ("rollouts" in shown) == rollouts
    assert "699,667" in shown
    assert "14,380" in shown
    assert "…" not in shown


@pytest.mark.parametrize(
    "further",
    [
        ("--budget", "1000000000"),
        ("--budget", "1000000", "--models", "qwen3-4b,qwen3-8b", "--recipes", "easy,scalerl"),
        ("--budget", "1000000", "--model", "qwen2.5-0.5b", "--response-tokens", "256"),
    ],
)
def test_no_number_of_a_large_plan_is_cut_at_80_columns(run: Run, further: tuple[str, ...]) -> None:
    shown = run("propose", *further, "--explain").out
    assert max(map(len, shown.splitlines())) <= 80
    assert re.search(r"[\d,.]+ ?\w*…", shown) is None
    models = ", ".join(further[3].split(",")) if "--models" in further else ""
    assert f"GPU-hours, {models}" in shown
    for line in run("rank").out.splitlines():
        assert len(line) <= 80
        assert "…" not in line
    for candidate in run.json("propose", *further)["candidates"]:
        if candidate["pilot_gpu_hours"]:
            assert f" {steps(candidate['update_steps'])} " in shown


def assumed(source: str, workload: dict[str, Any]) -> tuple[Proposal, list[Assumption]]:
    resolved = resolve([Layer(source, {"budget": {"gpu_hours": 5000.0}, "workload": workload})])
    proposal = propose(build_request(resolved))
    return proposal, assumptions(proposal, resolved)


@pytest.mark.parametrize(
    ("own", "prompts", "source"),
    [
        ({}, 2000, "one a pass rate; if these are a sample, set prompt_set_size"),
        ({"prompt_set_size": 9000}, 9000, "test"),
    ],
)
def test_the_prompts_are_counted_or_given(tmp_path: Path, own: dict[str, int], prompts: int, source: str) -> None:
    file = tmp_path / "rates.csv"
    file.write_text("pass_rate\n" + "0.5\n0.25\n" * 1000)
    told = {each.what: each for each in assumed("test", {"pass_rates_file": str(file), **own})[1]}
    assert (told["prompts"].value, told["prompts"].source) == (f"{prompts:,} of 256 tokens", source)
    assert told["base pass rate"].source == "measured, your file, column 'pass_rate'"


def test_a_given_mean_response_makes_the_price_surer_and_an_open_one_is_asked_for_first() -> None:
    model = {"model": "qwen2.5-7b"}
    found = [assumed("--file", model | given) for given in ({"mean_response_tokens": 1500.0}, {})]
    widths = [proposal.candidates[0].cell.cost.log_sd for proposal, _ in found]
    given, left_open = (told[0] for _, told in found)

    assert widths[0] < widths[1]
    assert given.what == left_open.what == "responses"
    assert given.source == "--file"
    assert left_open.source.startswith("expected of a base model")
    assert "give --mean-response-tokens, it decides the price by a factor of" in left_open.source


@pytest.mark.parametrize("package", ["anyio", "mcp", "mcp_types", "jsonschema"])
def test_without_its_extra_the_server_says_how_to_install_it(
    package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package or name.startswith("rlplan.agents")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit) as end:
        app(["mcp"])
    assert end.value.code == 2
    assert "pip install 'rlplan[mcp]'" in capsys.readouterr().err
