import json
from pathlib import Path

from runner.ports.backend import Point
from runner.training.trial import METRICS, PointsFile, read_points


def kept(folder: Path, points: list[Point]) -> list[Point]:
    file = PointsFile(folder, None)
    for point in points:
        file.add(point)
    file.close()
    return read_points(folder)


def test_a_point_comes_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    point = Point(1, 8, 32, 1.0, 0.1, 0.5, 0.02, {"loss": 0.1}, ("truncation",), {"best@4": (0.75, 0.01)})
    assert kept(tmp_path, [point]) == [point]


def test_what_is_not_finite_is_null(tmp_path: Path) -> None:
    nan = float("nan")
    kept(tmp_path, [Point(1, 8, 32, 1.0, 0.1, metrics={"loss": nan}, further_scores={"best@4": (nan, 0.1)})])
    line = json.loads((tmp_path / METRICS).read_text())
    assert (line["metrics"], line["further_scores"]) == ({"loss": None}, {"best@4": [None, 0.1]})
