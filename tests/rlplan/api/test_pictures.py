"""Pictures of a sweep, and its report."""

import re
from pathlib import Path
from typing import Any, get_args

import pytest

import rlplan
from rlplan.charts.figures import DRAWN, PictureKind, palette
from tests.rlplan.sweep_rows import seeded


def test_every_picture_is_a_figure_in_the_colours_of_its_theme(sweep: rlplan.Sweep) -> None:
    for kind in get_args(PictureKind):
        for dark in (False, True):
            figure = sweep.plot(kind, dark=dark)
            drawn = figure.to_json()
            assert figure.data
            assert not re.search(r'"\$[a-z]', drawn)
            assert figure.layout.template.layout.paper_bgcolor == palette(dark)["surface"]


def test_another_picture_is_refused(sweep: rlplan.Sweep) -> None:
    kind: Any = "curve"
    with pytest.raises(rlplan.UnknownNameError, match="did you mean 'curves'"):
        sweep.plot(kind)
    assert tuple(DRAWN) == get_args(PictureKind)


def test_what_is_not_there_yet_is_not_drawn(tmp_path: Path) -> None:
    seeded(tmp_path / "rlplan.db").store.close()
    sweep = rlplan.open().sweep()
    assert sweep.beliefs.recommended is None
    assert sweep.plot("timeline").data
