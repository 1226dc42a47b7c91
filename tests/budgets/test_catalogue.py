import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from budgets import catalogue
from budgets.errors import InputError, UnknownNameError
from tests.budgets.workloads import DENSE

OWN_GPU = {name: value for name, value in asdict(catalogue.gpu("h100")).items() if name != "name"}
OWN_GPU |= {"memory_gb": 100, "bandwidth_gb_per_s": 4000.5}


def test_every_shipped_gpu_and_model_loads() -> None:
    for name in catalogue.names("gpus"):
        assert catalogue.gpu(name).usable_bytes > 1e9
    for model in map(catalogue.model, catalogue.names("models")):
        assert 1e8 < model.matmul_parameters <= model.parameters + model.vocabulary * model.hidden


@pytest.mark.parametrize(
    ("look_up", "given", "message"),
    [
        (catalogue.gpu, "h1000", r"unknown GPU 'h1000': did you mean 'h100'.*\[gpus.NAME\] in rlplan.toml"),
        (catalogue.gpu, "quantum", r"unknown GPU 'quantum': known are a100-40, a100-80, a6000, a800"),
        (catalogue.model, "qwen3-8", r"did you mean 'qwen3-8b'.*A path to a local config.json works too"),
    ],
)
def test_unknown_names_offer_the_nearest(look_up: Any, given: str, message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        look_up(given)


def test_own_tables_add_to_the_shipped_ones_or_replace_them_and_names_are_found_in_any_case() -> None:
    own = {"Mine": OWN_GPU, "H100": OWN_GPU}
    gpu = catalogue.gpu("mine", own)
    assert (gpu.name, gpu.memory_gb, gpu.bandwidth_gb_per_s) == ("Mine", 100, 4000.5)
    assert (catalogue.gpu("h100", own).memory_gb, catalogue.gpu("H100").memory_gb) == (100, 80)
    with pytest.raises(UnknownNameError, match="did you mean 'Mine'"):
        catalogue.gpu("minee", own)


@pytest.mark.parametrize(
    ("look_up", "table", "message"),
    [
        (catalogue.gpu, {**OWN_GPU, "memory": 80}, "GPU 'mine' has the unknown key 'memory': did you mean 'memory_gb'"),
        (catalogue.gpu, {**OWN_GPU, "memory_gb": "80"}, "memory_gb is '80', a value of type number is needed"),
        (catalogue.gpu, {**OWN_GPU, "memory_gb": 0}, "memory_gb is 0, it must be positive"),
        (catalogue.gpu, {"memory_gb": 80}, "GPU 'mine' lacks bandwidth_gb_per_s, decode_.*: give each a value"),
        (catalogue.model, {"layers": 2.5}, "model 'mine': layers is 2.5, a value of type whole number is needed"),
        (catalogue.model, {"tied_embeddings": 1}, "tied_embeddings is 1, a value of type true or false is needed"),
    ],
)
def test_own_tables_are_checked(look_up: Any, table: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        look_up("mine", {"mine": table})


def test_a_model_from_a_folder_or_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(DENSE))
    (folder / "other.json").write_text(json.dumps(DENSE))
    assert catalogue.model(str(folder)).name == "my-model"
    assert catalogue.model(str(folder / "config.json")) == catalogue.model(str(folder))
    assert catalogue.model(str(folder / "other.json")).name == "other"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"cannot be read \(No such file or directory\); give a folder or a config.json"),
        (b"{", "config.json is not JSON"),
        (b"[1]", "holds no JSON object; a Hugging Face config.json is needed"),
    ],
)
def test_files_that_are_no_config(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(InputError, match=message):
        catalogue.model(str(tmp_path))


@pytest.mark.parametrize(
    ("given", "known"),
    [
        ("Qwen/Qwen3-8B", "qwen3-8b"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("meta-llama/Meta-Llama-3.1-8B", "llama-3.1-8b"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "r1-distill-qwen-7b"),
        ("deepseek-ai/DeepSeek-R1", "deepseek-r1"),
        ("mistralai/Mistral-7B-v0.3", "mistral-7b"),
        ("Qwen/Qwen2.5-Math-7B", "qwen2.5-7b"),
        ("Qwen/QwQ-32B", "qwen2.5-32b"),
        ("deepseek-ai/deepseek-math-7b-instruct", "deepseek-llm-7b"),
        ("agentica-org/DeepScaleR-1.5B-Preview", "r1-distill-qwen-1.5b"),
        ("Qwen/Qwen3.6-27B", "qwen3.5-27b"),
    ],
)
def test_a_name_of_the_hub_is_that_of_the_catalogue(given: str, known: str) -> None:
    assert catalogue.model(given).name == known
    people = {"4090": "rtx4090", "a100": "a100-80", "RTX 4090": "rtx4090", "nvidia-h100": "h100"}
    assert [catalogue.gpu(name).name for name in people] == list(people.values())
