import re
import tomllib

from planner.config import Config, Layer, resolve, template
from planner.config.trainer import Patience

EXAMPLE = re.compile(r"^## (\w+ = .+)$", re.MULTILINE)
OWN = "## A GPU or a model of your own"


def uncommented() -> str:
    """The file with a comment sign less on every line."""
    return re.sub(r"^#", "", template(), flags=re.MULTILINE)


def test_the_file_changes_nothing_and_without_its_comment_signs_holds_every_default() -> None:
    tables = tomllib.loads(uncommented())
    assert resolve([Layer("rlplan.toml", tomllib.loads(template()))]).config == Config()
    assert resolve([Layer("rlplan.toml", tables)]).config == Config()
    for section, default in Config().model_dump(exclude_none=True, exclude={"gpus", "models"}).items():
        assert tables[section] == default, section


def test_every_key_is_shown_and_each_example_is_valid_by_itself() -> None:
    own, marker, _ = template().partition(OWN)
    assert marker
    shown = tomllib.loads(EXAMPLE.sub(r"\1", re.sub(r"^# ", "", own, flags=re.MULTILINE)))
    defaults = tomllib.loads(uncommented())
    for section, field in Config.model_fields.items():
        if section not in ("gpus", "models"):
            assert set(shown[section]) == set(field.annotation.model_fields), section
            for key in set(shown[section]) - set(defaults[section]):
                resolve([Layer("rlplan.toml", {section: {key: shown[section][key]}})])
    assert set(shown["trainer"]["patience"]) == set(Patience.model_fields)
