import re
import tomllib

from planner.config import Config, Layer, resolve, template

SETTING = re.compile(r"^# (\w+ = .+)$", re.MULTILINE)


def test_the_file_as_written_loads_and_changes_nothing() -> None:
    assert resolve([Layer("rlplan.toml", tomllib.loads(template()))]).config == Config()


def test_every_key_is_shown_and_valid_when_its_mark_is_removed() -> None:
    text = template()
    own, marker, _ = text.partition("# A GPU or a model of your own")
    assert marker
    tables = tomllib.loads(SETTING.sub(r"\1", own))
    resolve([Layer("rlplan.toml", tables)])
    for section, field in Config.model_fields.items():
        if section not in ("gpus", "models"):
            assert set(tables[section]) == set(field.annotation.model_fields), section


def test_keys_with_a_default_show_that_default() -> None:
    tables = tomllib.loads(SETTING.sub(r"\1", template().partition("# A GPU or")[0]))
    shown = resolve([Layer("rlplan.toml", tables)]).config
    for section in ("validation", "grid", "pilot"):
        default = getattr(Config(), section).model_dump(exclude_none=True)
        assert getattr(shown, section).model_dump(include=set(default)) == default


def test_the_example_of_an_own_gpu_is_complete() -> None:
    example = template().partition("takes the same keys as those of the catalogue:\n")[2]
    tables = tomllib.loads(re.sub(r"^# ", "", example, flags=re.MULTILINE))
    from budgets import catalogue

    assert catalogue.gpu("my-gpu", tables["gpus"]).memory_gb == 96


def test_every_key_is_explained() -> None:
    for section in Config.model_fields.values():
        inner = getattr(section.annotation, "model_fields", {})
        assert section.description or section.annotation.__doc__
        assert all(field.description for field in inner.values())
