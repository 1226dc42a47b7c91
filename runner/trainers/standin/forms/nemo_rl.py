"""How runner/trainers/nemo_rl/start.py writes what NeMo-RL logs and dumps; its steps are batches of rollouts."""

from runner.trainers.standin.forms.openrlhf import Form as Batches
from runner.trainers.standin.writing import Said


class Form(Batches):
    """Lines with its names, several of one step; a checkpoint has its name once it is whole."""

    def say(self, said: Said, *, in_two: bool = False) -> None:
        """Write what a step did, and the scores of two problems whose mean and error are those of the step."""
        if said.step % int(self._given["updates"]):
            return
        where = {"step": self._its(said.step), "at_seconds": said.at}
        if said.score is not None:
            error = said.error or 0.0
            self._line({**where, "scores": [[said.score - error], [said.score + error]]})
            self._line({**where, "logs": {"validation/accuracy": said.score}})
        if said.step:
            logs = {"train/loss": said.loss, "train/mean_gen_tokens_per_sample": self._tokens}
            self._line({**where, "logs": logs}, in_two=in_two)
            self._line({**where, "logs": {"timing/train/policy_training": 0.0}})
