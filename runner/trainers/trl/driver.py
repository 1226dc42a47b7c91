"""What rlplan knows of TRL 1.16: how its GRPOTrainer is started, what it says, and which checkpoints are whole."""

from collections.abc import Sequence
from pathlib import Path

from runner.ports.trial import TrialConfig
from runner.trainers.driver import Attempt, Launch
from runner.trainers.driving import asked_itself, opened_task, options_in, refuse, started
from runner.trainers.spec import TrainerSpec
from runner.trainers.table import TableDriver
from runner.trainers.trl.folder import TrlOptions, files_of, require_runnable, run_of


class TrlDriver(TableDriver):
    """TRL's GRPOTrainer by train.py, which waits at the gate."""

    gated = True

    def check(self, config: TrialConfig) -> None:
        """Refuse a recipe or a layout that TRL cannot run, and a task that cannot be opened."""
        options_in(config, TrlOptions)
        config = self.as_done(config)
        require_runnable(config)
        refuse(config, self.title, self.spec.refuses)
        run_of(config, opened_task(config), Attempt(Path(), 1, 0, 1, None))

    def launch(self, config: TrialConfig, attempt: Attempt, rank: int) -> Launch | None:
        """Start start.py on every host, which starts that host's processes."""
        config = self.as_done(config)
        argv, files = ("start.py", str(rank)), files_of(config, opened_task(config), attempt)
        return started(config, attempt, rank, argv, files, {"TRL_EXPERIMENTAL_SILENCE": "1"}, everywhere=True)

    def rehearse(self, config: TrialConfig) -> Sequence[str]:
        """Have TRL make its GRPOConfig of the settings, in its own environment."""
        config = self.as_done(config)
        files = files_of(config, opened_task(config), Attempt(Path(), 1, 0, 1, None))
        code, said = asked_itself(config, files, "train.py", "--rehearse")
        if code == 0:
            return []
        known = self.classify(code, said)
        return [known[1] if known else f"TRL's environment cannot be used: {said.splitlines()[-1]}"]


JUDGE = TrlDriver(TrainerSpec.load("trl"))
