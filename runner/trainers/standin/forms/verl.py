"""The files of verl: its file logger's lines, the answers of its validations, and checkpoints behind a tracker."""

import json
import math
from pathlib import Path

from runner.trainers.standin.forms.openrlhf import Form as Batches
from runner.trainers.standin.writing import Said


class Form(Batches):
    """A line {"step", "data"} for each batch, with the score where there is one, which follows the answers."""

    def stands(self, step: int, at: float) -> None:
        """Open the log, which says that everything has been started; what was saved beyond counts for nothing."""
        self._write("", in_two=False)
        self._track(self._its(step))

    def say(self, said: Said, *, in_two: bool = False) -> None:
        """Write what a step did."""
        if said.step % int(self._given["updates"]):
            return
        step = self._its(said.step)
        data: dict[str, float | None] = {}
        if said.step:
            loss = said.loss if math.isfinite(said.loss) else None  # as orjson writes what is no number
            data |= {"actor/pg_loss": loss, "response_length/mean": self._tokens, "training/global_step": step}
        if said.score is not None:
            self._answer(step, said.score, said.error or 0.0)
            data[f"val-core/rlplan/acc/mean@{self._given['validation']['samples']}"] = said.score
        if data:
            self._line({"step": step, "data": data}, in_two=in_two)

    def save(self, step: int, *, torn: bool) -> None:
        """Write a checkpoint, and then the tracker."""
        super().save(step, torn=torn)
        (self._path(step) / "actor").mkdir()
        (self._path(step) / "data.pt").touch()
        self._track(self._its(step))

    def _track(self, step: int) -> None:
        tracker = Path(self._given["tracker"])
        tracker.parent.mkdir(parents=True, exist_ok=True)
        tracker.write_text(str(step), encoding="utf-8")

    def _answer(self, step: int, score: float, error: float) -> None:
        """Write answers whose mean is the score, and the error of that mean over problems the one given."""
        problems, samples = (int(self._given["validation"][name]) for name in ("problems", "samples"))
        apart = error * math.sqrt(problems * (problems - 1) / (problems // 2 * 2)) if problems > 1 else 0.0
        folder = Path(self._given["scores"])
        folder.mkdir(exist_ok=True)
        with (folder / f"{step}.jsonl").open("w", encoding="utf-8") as file:
            for problem in range(problems):
                paired = problem < problems // 2 * 2
                value = score + (apart if problem % 2 else -apart) * paired
                for sample in range(samples):
                    file.write(json.dumps({"uid": f"p{problem}_{sample}_0", "step": step, "acc": value}) + "\n")
