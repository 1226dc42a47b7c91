import re
from collections.abc import Sequence

import pytest
from rich.console import Console

from rlplan.wording.draw import Canvas, Cells, Column, table_of, text_of
from rlplan.wording.numbers import steps
from tests.rlplan.conftest import Run

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
