import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from budgets.errors import ConfigError, InputError, UnknownNameError
from planner.recipes import Recipe, explain, load_recipe, recipe_names
from planner.recipes.library import SHIPPED
from planner.tables import dotted_keys, flattened

Write = Callable[[str, str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a recipe and return its path."""

    def call(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return str(path)

    return call


def sources_of(recipe: Recipe) -> dict[str, str]:
    return {key: source for key, _, source in explain(recipe)}


def test_a_shipped_recipe_is_found_in_any_case_and_by_its_path() -> None:
    assert load_recipe("ScaleRL").name == "scalerl"
    assert load_recipe("scalerl") == load_recipe("SCALERL") == load_recipe(str(SHIPPED / "scalerl.toml"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("scale-rl", "unknown recipe 'scale-rl': did you mean 'scalerl'"),
        ("zzz", r"unknown recipe 'zzz': known are cispo, dapo, .*scalerl\. The path of a \.toml file works too"),
        ("", "unknown recipe '': known are"),
    ],
)
def test_unknown_names_offer_the_nearest(given: str, message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        load_recipe(given)


def test_an_empty_file_is_all_defaults_and_named_after_itself(write: Write) -> None:
    recipe = load_recipe(write("mine.toml", ""))
    assert recipe == Recipe(name="mine")
    assert set(sources_of(recipe).values()) == {"default"}


def test_a_file_may_inherit_a_shipped_recipe_and_change_a_part(write: Write) -> None:
    mine = load_recipe(write("mine.toml", 'inherits = "ScaleRL"\n[objective]\nclip_high = 7.0\n'))
    shipped = load_recipe("scalerl")
    assert mine.name == "mine"
    assert mine.summary == ""
    assert mine.objective.clip_high == 7.0
    assert mine.objective.model_copy(update={"clip_high": 4.0}) == shipped.objective
    assert mine.optimizer == shipped.optimizer


def test_files_inherit_files_relative_to_themselves(
    write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write("ours/base.toml", 'name = "base"\ninherits = "grpo"\n[objective]\nkl = 0.02\nentropy = 0.001\n')
    write("ours/mine/child.toml", 'inherits = "../base.toml"\n[objective]\nkl = 0.01\n')
    monkeypatch.chdir(tmp_path / "ours")
    monkeypatch.setenv("HOME", str(tmp_path))
    child = load_recipe("mine/child.toml")
    assert load_recipe("~/ours/mine/child.toml") == child
    assert child.name == "child"
    assert (child.objective.kl, child.objective.entropy) == (0.01, 0.001)
    assert child.objective.aggregation == "token"


def test_none_undoes_an_inherited_number(write: Write) -> None:
    undone = '[objective]\nclip_low = "none"\nclip_high = "none"\ntruncated_importance = "none"\n'
    recipe = load_recipe(write("mine.toml", f'inherits = "hard"\n{undone}[optimizer]\nclip_norm = "none"\n'))
    assert recipe.objective.clip_low is recipe.objective.clip_high is recipe.objective.truncated_importance is None
    assert recipe.optimizer.clip_norm is None
    assert recipe.filters.curriculum == "none"


def test_a_recipe_survives_json() -> None:
    for name in recipe_names():
        recipe = load_recipe(name)
        assert Recipe.model_validate_json(recipe.model_dump_json()) == recipe


def test_explain_tells_the_source_of_every_value(write: Write) -> None:
    own = '[sources]\nobjective.kl = "our ablation"\n"objective.ratio" = "checked"\n'
    own += "[objective]\nkl = 0.01\nclip_low = 0.1\n"
    sources = sources_of(load_recipe(write("mine.toml", f'inherits = "grpo"\n{own}')))
    assert list(sources) == [key for key in dotted_keys(Recipe) if key not in ("name", "summary", "sources")]
    assert (sources["objective.kl"], sources["objective.ratio"]) == ("our ablation", "checked")
    assert sources["objective.clip_low"] == "mine.toml"
    assert "1707.06347" in sources["objective.clip_high"]
    assert sources["advantage.epsilon"] == "default"


def test_a_changed_value_does_not_keep_the_source_of_the_old_one(write: Write) -> None:
    write("base.toml", '[objective]\nkl = 0.02\n[sources]\n"objective.kl" = "an ablation"\n')
    child = load_recipe(write("child.toml", 'inherits = "base.toml"\n[objective]\nkl = 0.05\n'))
    assert sources_of(child)["objective.kl"] == "child.toml"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[objective]\nclip_hgh = 1", r"mine.toml: unknown key 'objective.clip_hgh': did you mean 'clip_high'"),
        ('inherit = "grpo"', r"mine.toml: unknown key 'inherit': did you mean 'inherits'"),
        ('[objective]\nkl = "much"', r"mine.toml: objective.kl = 'much' should be a valid number$"),
        ('[objective]\nclip_low = "no"', "objective.clip_low = 'no' should be a valid number or 'none'"),
        ('[objective]\nclip = "pop"', "objective.clip = 'pop' should be 'ppo', 'cispo', 'soft', 'gamma' or 'none'"),
        ('objective = 3\ninherits = "grpo"', r"mine.toml: objective = 3 should be a table, such as \[objective\]"),
        ("sources = 3", r"mine.toml: sources = 3 should be a table"),
        ("inherits = 3", "mine.toml: inherits = 3 should be the name of a recipe or the path of a .toml file"),
        ('inherits = "gpro"', "mine.toml: inherits an unknown recipe 'gpro': did you mean .*'grpo'"),
        ('inherits = "no/where.toml"', r"recipe .*no/where.toml does not exist; shipped are cispo, .*scalerl"),
        ('[sources]\n"objective.kll" = "x"', "mine.toml: a source for the unknown key 'objective.kll': did you mean"),
        (
            "[schedule]\nstaleness_bound = 8",
            "mine.toml: schedule.staleness_bound = 8 with objective.against = 'trainer'",
        ),
        (
            "[interruptions]\nearliest = 0.7",
            "mine.toml: interruptions.earliest = 0.7 without interruptions.phrase: give",
        ),
        (
            '[interruptions]\nearliest = 0.7\nlatest = 0.5\nphrase = "!"',
            "mine.toml: interruptions.earliest = 0.7 and latest = 0.5: .* a latest of at least 0.7",
        ),
        (
            'inherits = "scalerl"\n[interruptions]\nphrase = "Enough."',
            "mine.toml: interruptions.closed_by = '</think>' is no part of the phrase 'Enough.'",
        ),
        ('name = "GRPO"', "mine.toml: 'GRPO' is the name of a shipped recipe.*such as name = 'mine'"),
    ],
)
def test_a_mistake_names_the_file_the_value_and_the_fix(write: Write, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_recipe(write("mine.toml", text))


def test_a_mistake_in_an_inherited_file_names_that_file(write: Write) -> None:
    write("base.toml", "[objective]\nkl = -1\n")
    with pytest.raises(ConfigError, match=r"base.toml: objective.kl = -1") as caught:
        load_recipe(write("child.toml", 'inherits = "base.toml"\n[rewards]\nwrong = "no"\n'))
    assert "child.toml: rewards.wrong = 'no'" in str(caught.value)


def test_a_cycle_is_refused_and_named(write: Write) -> None:
    write("a.toml", 'inherits = "b.toml"\n')
    write("b.toml", 'inherits = "sub/../c.toml"\n')
    write("c.toml", 'inherits = "b.toml"\n')
    write("sub/unused.toml", "")
    with pytest.raises(
        ConfigError, match=r"^\S*b.toml inherits \S*c.toml inherits \S*b.toml: .*remove one `inherits`"
    ) as it:
        load_recipe(str(Path(write("start.toml", 'inherits = "a.toml"\n'))))
    assert "a.toml" not in str(it.value)
    with pytest.raises(ConfigError, match=r"own.toml inherits \S*own.toml: a recipe cannot inherit itself"):
        load_recipe(write("own.toml", 'inherits = "own.toml"\n'))


def test_a_schedule_that_depends_on_the_length_cannot_be_priced(write: Write) -> None:
    recipe = load_recipe(write("mine.toml", '[optimizer]\nlearning_rate_schedule = "cosine"\n'))
    with pytest.raises(InputError, match="recipe 'mine' has the learning-rate schedule 'cosine'"):
        recipe.traits()


ABOUT_ITSELF = {"name", "summary", "inherits", "sources"}


@pytest.mark.parametrize("name", recipe_names())
def test_every_value_that_is_written_has_a_source_that_is_a_paper_or_owns_up(name: str) -> None:
    tables = tomllib.loads((SHIPPED / f"{name}.toml").read_text(encoding="utf-8"))
    settings = {key for key, _ in flattened({k: v for k, v in tables.items() if k not in ABOUT_ITSELF})}
    assert set(tables["sources"]) == settings
    for key, text in tables["sources"].items():
        assert "arXiv 2" in text or "not published" in text, key
        assert ("not published" in text) == ("rlplan's choice, because" in text), key
    assert "arXiv" in load_recipe(name).summary


def test_scalerl_alone_ends_thinking_and_not_where_an_answer_is_a_sum_alone() -> None:
    recipe = load_recipe("scalerl")
    assert recipe.closing() == (recipe.interruptions.phrase, "</think>")
    assert recipe.interruptions.phrase.strip().endswith("</think>")
    assert recipe.closing("sum-steps") == (";=", ";=")
    assert recipe.closing("sum-easy") == ("", "")
    assert recipe.traits("sum-easy") == recipe.traits().uninterrupted
    assert all(load_recipe(name).closing() == ("", "") for name in recipe_names() if name != "scalerl")
