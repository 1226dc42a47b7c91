import json
from pathlib import Path
from typing import Any

import pytest

from budgets import catalogue
from budgets.errors import ConfigError, InputError, UnknownNameError

OWN_GPU = {
    "memory_gb": 100,
    "bandwidth_gb_per_s": 4000.5,
    "dense_tflops": 500,
    "link_gb_per_s": 100,
    "decode_overhead_ms": 3,
    "layer_overhead_us": 30,
    "fixed_overhead_s": 4,
    "start_up_s": 100,
    "dollars_per_hour": 1,
}
CONFIG = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
    "max_position_embeddings": 512,
}


@pytest.mark.parametrize("name", catalogue.names("gpus"))
def test_every_shipped_gpu_loads(name: str) -> None:
    gpu = catalogue.gpu(name)
    assert gpu.name == name
    assert gpu.usable_bytes > 1e9


@pytest.mark.parametrize("name", catalogue.names("models"))
def test_every_shipped_model_loads(name: str) -> None:
    model = catalogue.model(name)
    assert model.name == name
    assert 1e8 < model.matmul_parameters <= model.parameters + model.vocabulary * model.hidden


def test_names_are_found_in_any_case() -> None:
    assert catalogue.gpu("H100") == catalogue.gpu("h100")
    assert catalogue.model("Qwen3-8B").name == "qwen3-8b"


@pytest.mark.parametrize(
    ("look_up", "given", "message"),
    [
        (catalogue.gpu, "h1000", r"unknown GPU 'h1000': did you mean 'h100'.*\[gpus.NAME\] in rlplan.toml"),
        (catalogue.gpu, "quantum", r"unknown GPU 'quantum': known are a100-40, a100-80, a800, b200"),
        (catalogue.model, "qwen3-8", r"did you mean 'qwen3-8b'.*A path to a local config.json works too"),
    ],
)
def test_unknown_names_offer_the_nearest(look_up: Any, given: str, message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        look_up(given)


def test_own_tables_add_to_the_shipped_ones() -> None:
    own = {"Mine": OWN_GPU}
    gpu = catalogue.gpu("mine", own)
    assert (gpu.name, gpu.memory_gb, gpu.bandwidth_gb_per_s) == ("Mine", 100, 4000.5)
    assert catalogue.gpu("h100", own).name == "h100"
    with pytest.raises(UnknownNameError, match="did you mean 'Mine'"):
        catalogue.gpu("minee", own)


def test_own_tables_replace_shipped_ones() -> None:
    assert catalogue.gpu("h100", {"H100": OWN_GPU}).memory_gb == 100
    assert catalogue.gpu("h100").memory_gb == 80


def test_own_models() -> None:
    table = {
        "hidden": 64,
        "layers": 2,
        "heads": 4,
        "kv_heads": 2,
        "head_dim": 16,
        "intermediate": 128,
        "vocabulary": 100,
        "context": 512,
        "tied_embeddings": True,
    }
    assert catalogue.model("tiny", {"tiny": table}).tied_embeddings is True
    with pytest.raises(InputError, match="model 'tiny': layers is 0, it must be positive"):
        catalogue.model("tiny", {"tiny": {**table, "layers": 0}})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"memory": 80}, "GPU 'mine' has the unknown key 'memory': did you mean 'memory_gb'"),
        ({"memory_gb": "80"}, "GPU 'mine': memory_gb is '80', a value of type number is needed"),
        ({"memory_gb": True}, "memory_gb is True, a value of type number is needed"),
        ({"memory_gb": 0}, "memory_gb is 0, it must be positive"),
    ],
)
def test_own_tables_are_checked(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        catalogue.gpu("mine", {"mine": {**OWN_GPU, **change}})


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [("layers", 2.5, "whole number"), ("layers", True, "whole number"), ("tied_embeddings", 1, "true or false")],
)
def test_whole_numbers_and_truth_values_are_told_apart(key: str, value: object, kind: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} is {value}, a value of type {kind} is needed"):
        catalogue.model("tiny", {"tiny": {key: value}})


def test_missing_keys_are_all_named() -> None:
    partial = {key: value for key, value in OWN_GPU.items() if key not in ("memory_gb", "start_up_s")}
    with pytest.raises(ConfigError, match="GPU 'mine' lacks memory_gb, start_up_s: give each a value"):
        catalogue.gpu("mine", {"mine": partial})


def test_keys_with_a_default_may_be_left_out() -> None:
    assert catalogue.model("qwen3-8b").experts == 0


def test_a_model_from_a_folder_or_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "other.json").write_text(json.dumps(CONFIG))
    assert catalogue.model(str(folder)).name == "my-model"
    assert catalogue.model(str(folder / "config.json")) == catalogue.model(str(folder))
    assert catalogue.model(str(folder / "other.json")).name == "other"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"cannot be read \(No such file or directory\); give a folder or a config.json"),
        ("{", "config.json is not JSON"),
        ("[1]", "holds no JSON object; a Hugging Face config.json is needed"),
        ("{}", "has no usable 'hidden_size'"),
    ],
)
def test_files_that_are_no_config(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(InputError, match=message):
        catalogue.model(str(tmp_path))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"config\.json is not JSON"):
        catalogue.model(str(tmp_path / "config.json"))
