"""What `bench/finals.py` reads of a final run that has ended."""

import pytest

from bench.finals import read


def document(scores: list[float], start: int = 0) -> dict[str, object]:
    points = [{"step": 10 * (place + 1), "gpu_hours": float(place), "score": each} for place, each in enumerate(scores)]
    return {
        "promised": {"score": 0.8, "low": 0.7, "high": 0.9},
        "scores": points,
        "from_step": start,
        "priced_gpu_hours": 2.0,
        "gpu_hours_spent": 3.0,
        "warnings": [{"rule": "fall", "said": "it fell"}],
    }


def test_a_final_run_is_held_against_its_promise_and_against_stopping_early() -> None:
    final = read(document([0.2, 0.6, 0.6, 0.6, 0.7, 0.7, 0.7, 0.95]), won=40, seed=1)

    assert not final.kept
    assert final.saved == pytest.approx(0.5)
    assert final.lost == pytest.approx((0.7 + 0.7 + 0.95) / 3 - 0.6)
    assert final.warnings == ("fall",)


def test_what_a_pilot_has_trained_is_no_part_of_the_final_run() -> None:
    final = read(document([0.2, 0.6, 0.8, 0.8], start=20), won=30, seed=1)

    assert final.kept
    assert final.saved == pytest.approx(0.5)
    assert read(document([0.2, 0.8]), won=None, seed=1).saved == 0
