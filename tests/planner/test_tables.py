from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from planner.tables import Layer, flattened, merged

KEYS = st.sampled_from("abc")
TABLES = st.recursive(
    st.dictionaries(KEYS, st.integers()), lambda inner: st.dictionaries(KEYS, st.integers() | inner), max_leaves=6
)


@given(below=TABLES, above=TABLES)
def test_the_later_layer_wins_and_neither_is_changed(below: dict[str, Any], above: dict[str, Any]) -> None:
    before = (repr(below), repr(above))
    tables, sources = merged([Layer("below", below), Layer("above", above)])
    values = dict(flattened(tables))
    for key, value in flattened(above):
        assert values[key] == value
        assert sources[key] == "above"
    assert set(values) <= dict(flattened(below)).keys() | dict(flattened(above)).keys()
    assert (repr(below), repr(above)) == before


def test_three_layers_deep_tables_do_not_leak_into_the_first() -> None:
    first = {"gpus": {"mine": {"memory": 1}}}
    merged([Layer("1", first), Layer("2", {"gpus": {"mine": {"memory": 2}}}), Layer("3", {"gpus": {"mine": {"x": 3}}})])
    assert first == {"gpus": {"mine": {"memory": 1}}}
