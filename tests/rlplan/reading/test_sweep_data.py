"""A story as one document: nothing is lost, and any JSON reader can read it."""

import json
from datetime import datetime

from planner.pooling.bands import Band
from rlplan.reading.story import Beliefs
from rlplan.reading.story_reading import story
from rlplan.reading.sweep_data import StoryData, SweepData
from rlplan.wording.documents import plain
from tests.rlplan.sweep_rows import Seeder, later


def test_the_document_is_json_and_has_all_that_status_has(seeder: Seeder) -> None:
    seeder.recommend()
    told = story(seeder.store, now=later(seeder))
    data = json.loads(json.dumps(plain(StoryData(told.picture, told, None)), allow_nan=False))
    known = json.loads(json.dumps(plain(SweepData(told.picture))))
    assert {name: data[name] for name in known if name != "trials"} == {
        name: known[name] for name in known if name != "trials"
    }
    assert [{name: trial[name] for name in known["trials"][0]} for trial in data["trials"]] == known["trials"]
    lists = ("segments", "charges", "decision_log", "cells", "assumptions", "flags")
    rows = (told.stretches, told.charges, told.decisions, told.cells, told.assumptions, told.flags)
    assert [len(data[name]) for name in lists] == [len(each) for each in rows]
    assert datetime.fromisoformat(data["segments"][0]["started_at"]) == told.stretches[0].started_at
    assert sum(each["ended_at"] is None for each in data["segments"]) == 2
    assert (data["segments"][0]["outcome"], data["flags"][0]["health"]) == ("committed", "bad")
    assert data["decision_log"][0]["seen"] == {"p": 0.5}
    assert (data["answer"], data["why_no_answer"], data["trials"][0]["band"]) == (None, None, None)


def test_what_is_no_finite_number_is_null(seeder: Seeder) -> None:
    told = story(seeder.store, now=later(seeder))
    first = told.picture.trials[0].id
    band = Band((0.0, float("inf")), (0.5, float("nan")), (0.4, 0.4), (0.6, 0.6))
    beliefs = Beliefs(None, "nothing was seen", {first: band}, {first: float("nan")})
    data = plain(StoryData(told.picture, told, beliefs))
    assert data["trials"][0]["band"]["gpu_hours"] == [0.0, None]
    assert data["trials"][0]["collapsed_from_gpu_hours"] is None
    assert data["why_no_answer"] == "nothing was seen"
    json.dumps(data, allow_nan=False)
