"""SkyRL's numbers, its folders of checkpoints and its tracker, which it writes last."""

from pathlib import Path

from runner.trainers.standin.forms.openrlhf import Form as Batches


class Form(Batches):
    """As the lines that runner/trainers/skyrl/start.py writes."""

    LOSS, LENGTH = "policy/final_loss", "generate/avg_num_tokens"

    def save(self, step: int, *, torn: bool) -> None:
        """Write a checkpoint, what must be in it, and then the tracker."""
        super().save(step, torn=torn)
        for name in self._given["holds"]:
            (self._path(step) / name).touch()
        Path(self._given["tracker"]).write_text(str(self._its(step)), encoding="utf-8")
