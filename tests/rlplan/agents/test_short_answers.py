"""Answers are cut to what an agent's context holds, and say so."""

import json

from rlplan.agents.server import short_answer


def test_what_is_short_stays_as_it_is() -> None:
    assert short_answer({"score": 0.123456}, 100) == ({"score": 0.123456}, {})


def test_lists_keep_their_beginning_or_their_newest_end() -> None:
    answer = {"rows": [{"rank": rank, "score": rank / 7} for rank in range(200)], "plan": "plan-1"}
    short, left_out = short_answer(answer, 400)
    assert len(json.dumps(short)) <= 400
    assert short["plan"] == "plan-1"
    assert [row["rank"] for row in short["rows"]] == list(range(len(short["rows"])))
    assert left_out == {"rows": f"{len(short['rows'])} of 200"}
    assert short_answer(answer, 400, newest=True)[0]["rows"][-1]["rank"] == 199


def test_whatever_an_answer_holds_it_fits() -> None:
    short, left_out = short_answer({"a": "x" * 900, "b": {"c": ["y" * 900] * 9}, "plan": "plan-1"}, 300)
    assert short["plan"] == "plan-1"
    assert len(json.dumps(short)) <= 300
    assert left_out["a"] == "nothing"
    assert left_out["c"] == "0 of 9"
