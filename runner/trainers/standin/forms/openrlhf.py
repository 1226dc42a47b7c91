"""OpenRLHF's numbers and DeepSpeed's tags, as runner/trainers/openrlhf/start.py writes and marks them."""

from pathlib import Path

from runner.trainers.standin.writing import Plain, Said


class Form(Plain):
    """Lines with the trainer's names; each of its steps is a batch of rollouts, which may be several updates."""

    LOSS, LENGTH = "policy_loss", "rollout/response_length_mean"

    def stands(self, step: int, at: float) -> None:
        """Say that start-up is over, and where it goes on."""
        self._line({"step": self._its(step), "at_seconds": at})

    def say(self, said: Said, *, in_two: bool = False) -> None:
        """Write what a step did, and the scores of two problems whose mean and error are those of the step."""
        if said.step % self._given["updates"]:
            return
        where = {"step": self._its(said.step), "at_seconds": said.at}
        if said.step:
            logs = {self.LOSS: said.loss, self.LENGTH: self._tokens}
            self._line({**where, "logs": logs, "seconds": {}, "whole": said.score is None}, in_two=in_two)
        if said.score is not None:
            error = said.error or 0.0
            self._line({**where, "scores": [[said.score - error], [said.score + error]], "seconds": {}, "whole": True})

    def _path(self, step: int) -> Path:
        return super()._path(self._its(step))

    def _earlier(self, step: int) -> list[Path]:
        return super()._earlier(self._its(step))

    def _its(self, step: int) -> int:
        return step // int(self._given["updates"])
