"""What follows a run from within its trainer; verl's and prime-rl's classes stand in as their sources have them."""

import asyncio
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rlplan.callbacks.run_watch import RunWatch

SCORES = [0.3, 0.4, 0.5, 0.58, 0.6, 0.59, 0.6, 0.59, 0.3, 0.25, 0.2, 0.2]


def of_verl(step: int) -> dict[str, Any]:
    row = {"critic/score/mean": 0.3 + step / 100, "actor/pg_loss": 0.1, "timing_s/step": 60.0}
    return row if step % 5 else row | {"val-core/gsm8k/acc/mean@1": SCORES[step // 5 - 1]}


def test_a_run_that_falls_is_warned_of_once_with_how_far_it_is() -> None:
    said: list[str] = []
    watch = RunWatch("verl", gpus=8, end=120, say=said.append)
    warned = [watch.see(step, of_verl(step)) for step in range(1, 61)]
    assert [each.rule for each in warned if each] == ["hacking"]
    assert sum("WARNING" in each for each in said) == 1
    assert "Best   0.600 at step 25; now 0.200 at step 60" in said[-1]
    assert "step 60 of 120, 60 min left" in said[-1]
    assert "8 GPU-hours so far" in said[-1]


def test_trls_callback_reads_its_state_and_can_end_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = ModuleType("transformers")
    vars(module).update(TrainerCallback=object)
    monkeypatch.setitem(sys.modules, "transformers", module)
    monkeypatch.delitem(sys.modules, "rlplan.callbacks.trl", raising=False)
    from rlplan.callbacks.trl import WatchCallback

    callback, control = WatchCallback(gpus=2, stop=True), SimpleNamespace(should_training_stop=False)
    for step in range(1, 8):
        state = SimpleNamespace(is_world_process_zero=True, global_step=step, max_steps=100)
        callback.on_log(None, state, control, {"reward": 0.0, "frac_reward_zero_std": 1.0, "step_time": 30.0})
    assert control.should_training_stop
    assert "WARNING (dead)" in capsys.readouterr().out


def test_verl_knows_one_logger_more(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Tracking:
        supported_backend = ("console",)

        def __init__(
            self, project_name: str, experiment_name: str, default_backend: Any = "console", config: Any = None
        ):
            assert set(default_backend) <= set(self.supported_backend)
            self.logger: dict[str, Any] = {}

    module = ModuleType("verl.utils.tracking")
    vars(module).update(Tracking=Tracking)
    for name in ("verl", "verl.utils", "rlplan.callbacks.verl"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "verl.utils.tracking", module)
    monkeypatch.delitem(sys.modules, "rlplan.callbacks.verl")
    import rlplan.callbacks.verl  # noqa: F401

    config = {"trainer": {"nnodes": 2, "n_gpus_per_node": 8, "total_training_steps": 100}}
    tracking = Tracking("p", "e", ["console", "rlplan"], config)
    for step in range(1, 6):
        tracking.logger["rlplan"].log(data=of_verl(step), step=step)
    assert "step 5 of 100" in capsys.readouterr().out


def test_prime_rl_registers_one_monitor_more(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("prime_rl.monitors")
    vars(module).update(MONITORS=[], Monitor=object)

    async def setup(**further: Any) -> None:
        module.MONITORS.append("its own")

    vars(module).update(setup=setup)
    package = ModuleType("prime_rl")
    vars(package).update(monitors=module)
    monkeypatch.setitem(sys.modules, "prime_rl", package)
    monkeypatch.setitem(sys.modules, "prime_rl.monitors", module)
    monkeypatch.delitem(sys.modules, "rlplan.callbacks.prime_rl", raising=False)
    import rlplan.callbacks.prime_rl  # noqa: F401

    asyncio.run(module.setup(run_config=SimpleNamespace(max_steps=100)))
    own, watching = module.MONITORS
    asyncio.run(watching.log_metrics({"progress/total_rollouts": 8.0, "loss/mean": 0.1}, step=1))
    assert own == "its own"
