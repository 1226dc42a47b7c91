"""The maps: values in their cells, unseen ones hatched, the recommended one framed."""

from dataclasses import replace
from typing import Any

from rlplan.charts.heat import heat_maps
from rlplan.reading.story import Cell
from tests.rlplan.charts.stories import empty, finished, under_way


def cell(n: int, B: int, **more: Any) -> Cell:
    return replace(under_way().cells[0], rollouts_per_prompt=n, prompts_per_batch=B, **more)


def test_every_ranked_allocation_has_its_score_and_chance_in_its_cell() -> None:
    told, believed = finished()
    assert believed.recommended is not None
    variants = heat_maps(told, believed)
    assert variants[0].has_chosen
    for choice in believed.recommended.answer.ranked:
        n, B = str(choice.rollouts_per_prompt), str(choice.prompts_per_batch)
        found = []
        for chart in (variants[0].score, variants[0].best):
            heat, layout = chart.figure["data"][0], chart.figure["layout"]
            found.append(heat["z"][layout["yaxis"]["ticktext"].index(B)][layout["xaxis"]["ticktext"].index(n)])
        assert found == [choice.expected_score, choice.probability_best]


def test_only_planned_cells_that_no_trial_has_seen_are_hatched() -> None:
    (variant,) = heat_maps(replace(empty(), cells=(cell(4, 8), cell(16, 8))), None)
    hatched = next(trace for trace in variant.score.figure["data"] if trace.get("mode") == "lines")
    columns = {round(x) for x in hatched["x"] if x is not None}
    assert columns == {0, 2}


def test_each_setting_of_the_further_axes_has_its_own_maps() -> None:
    cells = (cell(4, 8, axes=(("recipe", "easy"),)), cell(4, 8, axes=(("recipe", "hard"),)))
    variants = heat_maps(replace(empty(), cells=cells), None)
    assert [variant.label for variant in variants] == ["easy", "hard"]
    names = [chart.name for variant in variants for chart in (variant.score, variant.best)]
    assert len(set(names)) == 4
