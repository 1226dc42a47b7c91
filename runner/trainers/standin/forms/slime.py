"""How runner/trainers/slime/rlplan_slime.py tells what slime logs; slime counts batches, and checkpoints, from 0."""

from pathlib import Path

from runner.trainers.standin.forms.openrlhf import Form as Batches
from runner.trainers.standin.writing import Plain, Said


class Form(Batches):
    """Lines with its names, several of one step; Megatron's tracker, and last the place in the prompts."""

    def say(self, said: Said, *, in_two: bool = False) -> None:
        """Write what a step did, and the scores of two problems whose mean and error are those of the step."""
        if said.step % int(self._given["updates"]):
            return
        where = {"step": self._its(said.step), "at_seconds": said.at}
        if said.step:
            self._line({**where, "logs": {"rollout/response_len/mean": self._tokens}}, in_two=in_two)
            self._line({**where, "logs": {"train/pg_loss": said.loss}})
        if said.score is not None:
            error = said.error or 0.0
            self._line({**where, "scores": [[said.score - error], [said.score + error]]})

    def save(self, step: int, *, torn: bool) -> None:
        """Write a checkpoint, the tracker, and the place in the prompts."""
        super().save(step, torn=torn)
        batch = self._its(step) - 1
        Path(self._given["tracker"]).write_text(str(batch), encoding="utf-8")
        position = Path(str(self._given["position"]).replace("{batch}", str(batch)))
        position.parent.mkdir(exist_ok=True)
        position.touch()

    def _path(self, step: int) -> Path:
        return Path(self._checkpoint.replace("{step}", f"{self._its(step) - 1:07d}"))

    def _earlier(self, step: int) -> list[Path]:
        return Plain._earlier(self, self._its(step) - 1)
