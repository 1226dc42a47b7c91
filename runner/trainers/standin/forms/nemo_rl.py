"""How runner/trainers/nemo_rl/start.py writes what NeMo-RL logs and dumps; its steps are batches of rollouts."""

from runner.trainers.standin.writing import Plain, Said


class Form(Plain):
    """Lines with its names, several of one step; a checkpoint has its name once it is whole."""

    def stands(self, step: int, at: float) -> None:
        """Say that start-up is over, and where it goes on."""
        self._line({"step": self._its(step), "at_seconds": at})

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

    def save(self, step: int, *, torn: bool) -> None:
        """Save what it has done, by its own count."""
        super().save(self._its(step), torn=torn)

    def load(self, step: int) -> None:
        """Go on from its own count."""
        super().load(self._its(step))

    def _its(self, step: int) -> int:
        return step // int(self._given["updates"])
