import json
import subprocess
import sys
from pathlib import Path

import pytest

from budgets.errors import InputError, TrainingError
from runner.backends.builtin import BuiltinBackend
from runner.backends.opening import open_backend
from runner.backends.simulated import SimulatedBackend
from runner.ports.backend import Segment
from runner.ports.simulation import Failures, SimulationChoice
from runner.simulation.opening import open_world
from tests.runner.simulation.worlds import trial

CHOICE = SimulationChoice(seed=2)


@pytest.mark.parametrize(
    ("choice", "backend"),
    [
        (None, BuiltinBackend),
        (CHOICE, SimulatedBackend),
        (SimulationChoice(kind="table", table="runs.csv"), SimulatedBackend),
    ],
)
def test_a_configuration_opens_its_backend(choice: SimulationChoice | None, backend: type) -> None:
    assert type(open_backend(trial(choice))) is backend


def test_a_trial_fails_as_its_world_says_and_goes_on_from_where_it_was_saved(tmp_path: Path) -> None:
    config = trial(SimulationChoice(failures=Failures(at_step=3, at_step_kind="out-of-memory")))
    backend = SimulatedBackend()
    backend.start(config, tmp_path)
    points = list(backend.advance(Segment(1)))
    backend.checkpoint()
    with pytest.raises(TrainingError, match="update 3") as raised:
        points.extend(backend.advance(Segment(9)))
    assert raised.value.kind == "out-of-memory"
    assert [point.optimizer_step for point in points] == [0, 1, 2]
    assert SimulatedBackend().restore(config, tmp_path) == 1


def test_only_a_stated_pace_makes_it_wait(tmp_path: Path) -> None:
    slept: list[float] = []
    backend = SimulatedBackend(sleep=slept.append)
    backend.start(trial(CHOICE), tmp_path / "swift")
    list(backend.advance(Segment(4)))
    assert slept == []
    paced = SimulationChoice(sleep_seconds_per_update=0.02, sleep_seconds_at_start=0.5)
    backend.start(trial(paced), tmp_path / "paced")
    list(backend.advance(Segment(3)))
    assert slept == [0.5, 0.02, 0.02, 0.02]


def test_a_world_can_be_given_instead_of_named(tmp_path: Path) -> None:
    named, given = SimulatedBackend(), SimulatedBackend(open_world(CHOICE))
    named.start(trial(CHOICE), tmp_path / "named")
    given.start(trial(None), tmp_path / "given")
    assert list(named.advance(Segment(6))) == list(given.advance(Segment(6)))


def test_a_checkpoint_is_small_and_its_folder_is_no_other_backends(tmp_path: Path) -> None:
    backend = SimulatedBackend()
    backend.start(trial(CHOICE), tmp_path)
    list(backend.advance(Segment(2)))
    saved = backend.checkpoint().path
    assert saved.name == "checkpoint-00000002.json"
    assert json.loads(saved.read_bytes().split(b"\n", 2)[2])["step"] == 2
    assert saved.stat().st_size < 20_000
    with pytest.raises(InputError, match="holds checkpoints of a trial already"):
        BuiltinBackend().start(trial(None), tmp_path)


def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path) -> None:
    config = trial(CHOICE)
    backend = SimulatedBackend()
    backend.start(config, tmp_path)
    for step in (1, 2):
        list(backend.advance(Segment(step)))
        saved = backend.checkpoint().path
    saved.write_bytes(saved.read_bytes()[:-9])
    again = SimulatedBackend()
    assert again.restore(config, tmp_path) == 1
    assert "checkpoint-00000002.json is damaged" in again.notes[0]


def test_neither_torch_nor_ray_is_loaded_for_it(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(trial(CHOICE).model_dump_json())
    script = (
        "import sys; from pathlib import Path; from runner.backends.opening import open_backend;"
        "from runner.ports.backend import Segment; from runner.ports.trial import TrialConfig;"
        f"config = TrialConfig.model_validate_json(Path({str(config)!r}).read_text());"
        f"backend = open_backend(config); backend.start(config, Path({str(tmp_path / 'trial')!r}));"
        "list(backend.advance(Segment(3))); backend.checkpoint();"
        "import runner.simulation.executor; print([name for name in ('torch', 'ray') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3]
    )
    assert done.stdout.strip() == "[]"
