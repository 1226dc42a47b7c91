"""These tests need verl, whose environment is its own (`make test-trainers`); elsewhere nothing here is collected."""

import sys
import warnings
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

collect_ignore_glob = [] if find_spec("verl") else ["*.py"]

if find_spec("verl"):
    with warnings.catch_warnings():  # of its imports, which are not ours
        warnings.simplefilter("ignore")
        import verl.experimental.reward_loop.reward_manager
        import verl.trainer.ppo.v1.trainer_base  # noqa: F401

OWN = Path(__file__).parents[2] / "runner" / "trainers" / "verl"


def program(name: str, path: Path) -> ModuleType:
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def start() -> ModuleType:
    """Return start.py, which runs in verl's interpreter."""
    return program("verl_start", OWN / "start.py")


@pytest.fixture(scope="session")
def estimator(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """Register our estimator, as verl does when it is imported in a trial."""
    folder = tmp_path_factory.mktemp("estimator")
    (folder / "advantage.json").write_text('{"scale": "group", "epsilon": 1e-4}')
    path = folder / "rlplan_verl.py"
    path.write_text((OWN / "rlplan_verl.py").read_text())
    return program("rlplan_verl", path)


@pytest.fixture
def saving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have verl changed as in a trial, until the test is over; return the trial's folder."""
    from verl.trainer.ppo.v1 import PPOTrainerSeparateAsync, PPOTrainerSync
    from verl.trainer.ppo.v1.replay_buffer import ReplayBufferAsync

    for kind in (PPOTrainerSync, PPOTrainerSeparateAsync):
        monkeypatch.setattr(kind, "on_step_end", kind.on_step_end)
    monkeypatch.setattr(ReplayBufferAsync, "_has_enough_samples", ReplayBufferAsync._has_enough_samples)
    path = tmp_path / "rlplan_saving.py"
    path.write_text((OWN / path.name).read_text())
    monkeypatch.setitem(sys.modules, path.stem, program(path.stem, path))
    return tmp_path
