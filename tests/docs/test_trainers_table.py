from docs.tools.trainers_table import PAGE, judges, write
from planner.recipes import load_recipe
from runner.trainers.ability import degree


def test_the_page_shows_what_the_drivers_say() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert write(page) == page, "run docs/tools/trainers_table.py"


def test_trl_does_some_recipes_exactly_some_nearly_and_some_not_at_all() -> None:
    trl = judges()["trl"]

    found = {name: degree(trl.differences(load_recipe(name))) for name in ("grpo", "minimax", "dapo")}

    assert found == {"grpo": "exact", "minimax": "approximate", "dapo": "refused"}
