import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets.errors import InputError
from planner.config.task import ProblemSource
from runner.ports.task import Problem
from runner.tasks.problems import LARGEST_HELD_OUT_SHARE, apart, hold_out, mixed, read_problems


def written(folder: Path, *rows: object, name: str = "p.jsonl") -> str:
    path = folder / name
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def read(path: str, *, answers_needed: bool = True, **columns: Any) -> list[Problem]:
    """Return the problems of one source."""
    (problems,), _ = read_problems([ProblemSource(path=path, **columns)], answers_needed=answers_needed)
    return problems


def test_the_fields_of_a_line(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}]
    path = written(
        tmp_path,
        {"id": "a", "prompt": "1 + 1?", "answer": "2", "level": 3, "tests": ["x"]},
        "\n   \n",
        {"id": 7, "prompt": messages, "answer": 4},
        {"prompt": "½ ?", "answer": 0.5},
    )
    Path(path).write_bytes(b"\xef\xbb\xbf" + Path(path).read_bytes())  # a byte order mark is no part of the first line
    first, second, third = read(path)
    assert first == Problem("a", "1 + 1?", "2", {"level": 3, "tests": ["x"]})
    assert second == Problem("7", tuple(messages), "4", None)
    assert (third.prompt, third.answer, third.extra) == ("½ ?", "0.5", None)


def test_an_id_made_from_prompt_and_answer_never_changes(tmp_path: Path) -> None:
    (problem,) = read(written(tmp_path, {"prompt": "1 + 1?", "answer": "2"}))
    (reordered,) = read(written(tmp_path, {"answer": 2, "level": 1, "prompt": "1 + 1?"}))
    (other,) = read(written(tmp_path, {"prompt": "1 + 1?", "answer": "3"}))
    assert problem.id == reordered.id == "4af7124203825bd5"
    assert other.id != problem.id


GOOD = {"prompt": "a", "answer": "b"}


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([], "holds no problems"),
        ([GOOD, "{'prompt': 1}\n"], "line 2 is not JSON"),
        ([GOOD, "\n", "[1]\n"], "line 3 is no JSON object"),
        (["[" * 200_000], "line 1 is not JSON"),
        ([{"question": "a", "answer": "b"}], r"line 1: 'prompt' is missing \(it has 'question', 'answer'\)"),
        ([{"prompt": "a", "solution": "b"}], "'answer' is missing"),
        ([{"prompt": " ", "answer": "b"}], "'prompt' is empty"),
        ([{"prompt": 3, "answer": "b"}], "'prompt' is 3: it should be text, or a list of chat messages"),
        ([{"prompt": [], "answer": "b"}], r"'prompt' is \[\]"),
        ([{"prompt": ["hello"], "answer": "b"}], "message 1 of 'prompt' is \"hello\""),
        ([{"prompt": [{"role": "user", "content": "x", "name": "y"}], "answer": "b"}], "nothing else"),
        ([{"prompt": [{"role": "assistant", "content": "x"}], "answer": "b"}], "ends with a message of the assistant"),
        ([{"prompt": "a", "answer": True}], "'answer' is true: it should be text or a number"),
        ([{"prompt": "a", "answer": ["x" * 100]}], "'answer' is .*…"),
        (['{"prompt": "a", "answer": NaN}\n'], "'answer' is NaN"),
        ([{"prompt": "a", "answer": "  "}], "'answer' is empty"),
        ([{"id": "", "prompt": "a", "answer": "b"}], "'id' is empty"),
        ([{"id": "x", **GOOD}, {"id": "x", "prompt": "c", "answer": "d"}], "line 2: id 'x' is that of .*line 1"),
        ([{"id": 1, **GOOD}, {"id": "1", **GOOD}], "id '1' is that of .*line 1"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_line(tmp_path: Path, rows: list[object], says: str) -> None:
    with pytest.raises(InputError, match=says) as error:
        read(written(tmp_path, *rows))
    assert "p.jsonl" in str(error.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read(str(tmp_path / "gone.jsonl"))
    with pytest.raises(InputError, match="package datasets, which is not installed"):
        read(str(tmp_path))
    (tmp_path / "latin.jsonl").write_bytes('{"prompt": "é", "answer": "b"}'.encode("latin-1"))
    with pytest.raises(InputError, match="not UTF-8"):
        read(str(tmp_path / "latin.jsonl"))


def test_a_line_without_an_answer_where_none_is_needed(tmp_path: Path) -> None:
    path = written(tmp_path, {"prompt": "write f", "tests": ["f(1) == 2"]})
    (problem,) = read(path, answers_needed=False)
    assert (problem.prompt, problem.answer, problem.extra) == ("write f", "", {"tests": ["f(1) == 2"]})


PROBLEMS = st.lists(
    st.builds(Problem, id=st.uuids().map(str), prompt=st.sampled_from("abcdefghijklmnop"), answer=st.just("x")),
    min_size=2,
    max_size=60,
    unique_by=lambda problem: problem.id,
).filter(lambda problems: len({problem.prompt for problem in problems}) > 1)


@given(PROBLEMS, st.integers(1, 40), st.randoms(use_true_random=False))
def test_the_held_out_problems_depend_on_nothing_but_their_ids(problems: list[Problem], wanted: int, random) -> None:
    train, validation = hold_out(problems, wanted, "p.jsonl")
    random.shuffle(shuffled := list(problems))
    train_again, validation_again = hold_out(shuffled, wanted, "p.jsonl")
    assert validation_again == validation
    assert {p.id for p in train_again} == {p.id for p in train}
    assert sorted(p.id for p in [*train, *validation]) == sorted(p.id for p in problems)
    assert train
    assert validation
    assert not {p.prompt for p in train} & {p.prompt for p in validation}


@pytest.mark.parametrize(("count", "wanted", "held"), [(1000, 128, 128), (100, 128, 25), (2, 128, 1), (40, 3, 3)])
def test_as_many_are_held_out_as_wanted_but_never_more_than_a_quarter(count: int, wanted: int, held: int) -> None:
    problems = [Problem(str(i), f"prompt {i}", "x") for i in range(count)]
    train, validation = hold_out(problems, wanted, "p.jsonl")
    assert len(validation) == held
    assert len(validation) <= max(1, LARGEST_HELD_OUT_SHARE * count)
    assert [p for p in problems if p in train] == train  # the order of the file


def test_one_prompt_alone_cannot_be_divided() -> None:
    with pytest.raises(InputError, match="give --validation"):
        hold_out([Problem("1", "a", "x"), Problem("2", "a ", "y")], 5, "p.jsonl")


def test_a_prompt_that_is_validated_on_is_not_trained_on() -> None:
    train = [Problem("1", "a", "x"), Problem("2", "b", "x")]
    assert apart(train, [Problem("1", "c", "x")]) == train
    assert apart(train, [Problem("8", "c", "x"), Problem("9", " b", "y")]) == train[:1]


def test_rows_of_any_form_and_names_of_columns(tmp_path: Path) -> None:
    rows = [{"question": f"{k} + 1?", "told": {"right": f"so #### {k + 1}"}, "level": k} for k in range(3)]
    columns = {"prompt": "question", "answer": "told.right", "answer_after": "####"}
    expected = [
        Problem(each.id, f"{k} + 1?", f"{k + 1}", {"level": k})
        for k, each in enumerate(read(written(tmp_path, *rows), **columns))
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "p.parquet")
    assert [
        replace(each, extra={"level": k}) for k, each in enumerate(read(str(tmp_path / "p.parquet"), **columns))
    ] == expected
    (tmp_path / "p.csv").write_text("question,answer\n1 + 1?,2\n")
    assert [(each.prompt, each.answer) for each in read(str(tmp_path / "p.csv"), prompt="question")] == [
        ("1 + 1?", "2")
    ]
    with pytest.raises(
        InputError, match=r"row 1: 'prompt' is missing \(it has 'question', 'answer'\): name its column"
    ):
        read(str(tmp_path / "p.csv"))


def test_a_name_is_what_datasets_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def load(path: str, subset: str | None, *, split: str) -> list[dict[str, Any]]:
        asked.append((path, subset, split))
        return [{"question": "1 + 1?", "answer": "it is #### 2"}]

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load))
    source = {"subset": "main", "split": "test", "prompt": "question", "answer_after": "####"}
    assert [each.answer for each in read("openai/gsm8k", **source)] == ["2"]
    assert asked == [("openai/gsm8k", "main", "test")]


def test_a_mixture_has_its_weights_and_asks_every_problem() -> None:
    few, many = (
        [Problem(f"{name}{k}", f"{name} {k}", "x") for k in range(count)] for name, count in (("a", 10), ("b", 60))
    )
    assert len(mixed([few, many], [None, None])) == 70
    whole = mixed([few, many], [1.0, 3.0])
    assert sum(each.id[0] == "a" for each in whole) == 20  # each twice, for a quarter of all
    assert {each.id for each in whole} == {each.id for each in (*few, *many)}
    with pytest.raises(InputError, match="to every source, or to none"):
        mixed([few, many], [1.0, None])


def test_sources_may_number_their_problems_alike_and_repeat_each_other(tmp_path: Path) -> None:
    first = written(tmp_path, {"id": 1, "prompt": "a", "answer": "x"}, GOOD, name="one.jsonl")
    second = written(tmp_path, {"id": 1, "prompt": "b", "answer": "y"}, GOOD, GOOD, name="two.jsonl")
    parts, repeated = read_problems([ProblemSource(path=first), ProblemSource(path=second)], system="Be brief.")
    assert [[each.id for each in part][:1] for part in parts] == [["1"], ["two/1"]]
    assert repeated == 2
    assert parts[1][0].prompt == ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "b"})
