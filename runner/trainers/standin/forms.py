"""How each trainer that is driven writes metrics and checkpoints; the standard library alone, as the stand-in."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.trainers.standin.writing import Described, Plain, StepReport


class Batches(Plain):
    """Lines with the trainer's names, as the program of ours writes them that runs in its process.

    A step of the trainer is a batch of rollouts, which may be several updates.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        """Take what the process was given."""
        super().__init__(given)
        self._loss, self._length = given["names"]
        self._updates = int(given["updates"])

    def stands(self, step: int, at: float) -> None:
        """Say that start-up is over, and where it goes on."""
        self._line({"step": self._batch(step), "at_seconds": at})

    def say(self, report: StepReport, *, in_two: bool = False) -> None:
        """Write what a step did, and the scores of two problems whose mean and error are those of the step."""
        if report.step % self._updates:
            return
        for line in self._lines(report):
            self._line({"step": self._batch(report.step), "at_seconds": report.at, **line}, in_two=in_two)
            in_two = False

    def _lines(self, report: StepReport) -> list[dict[str, Any]]:
        logs = {"logs": {self._loss: report.loss, self._length: self._tokens}, "whole": report.score is None}
        scores = {"scores": _two_scores(report), "whole": True}
        return [{**line, "seconds": {}} for line in [logs] * bool(report.step) + [scores] * (report.score is not None)]

    def _batch(self, step: int) -> int:
        return step // self._updates

    def _its(self, step: int) -> int:
        return self._batch(step)


class NemoRl(Batches):
    """Several lines of one step: first the scores, then what it logs."""

    def _lines(self, report: StepReport) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        if report.score is not None:
            found += [{"scores": _two_scores(report)}, {"logs": {"validation/accuracy": report.score}}]
        if report.step:
            timing = {"timing/train/policy_training": 0.0}
            found += [{"logs": {self._loss: report.loss, self._length: self._tokens}}, {"logs": timing}]
        return found


class Slime(Batches):
    """Several lines of one step; batches and checkpoints count from 0, and last comes the place in the prompts."""

    def save(self, step: int, *, torn: bool) -> None:
        """Write a checkpoint, and the place in the prompts."""
        super().save(step, torn=torn)
        position = Path(str(self._given["position"]).replace("{batch}", str(self._its(step))))
        position.parent.mkdir(exist_ok=True)
        position.touch()

    def _lines(self, report: StepReport) -> list[dict[str, Any]]:
        logs = [{"logs": {self._length: self._tokens}}, {"logs": {self._loss: report.loss}}] if report.step else []
        return logs + ([] if report.score is None else [{"scores": _two_scores(report)}])

    def _its(self, step: int) -> int:
        return self._batch(step) - 1

    def _path(self, step: int) -> Path:
        return Path(self._checkpoint.replace("{step}", f"{self._its(step):07d}"))


class Verl(Batches):
    """A line {"step", "data"} for each batch, with the score where there is one, which follows the answers."""

    def stands(self, step: int, at: float) -> None:
        """Open the log, which says that everything has been started; what was saved beyond counts for nothing."""
        self._write("", in_two=False)
        self._track(step)

    def say(self, report: StepReport, *, in_two: bool = False) -> None:
        """Write what a step did."""
        if report.step % self._updates:
            return
        step = self._batch(report.step)
        data: dict[str, float | None] = {}
        if report.step:
            loss = report.loss if math.isfinite(report.loss) else None  # as orjson writes what is no number
            data |= {self._loss: loss, self._length: self._tokens, "training/global_step": step}
        if report.score is not None:
            self._answer(step, report.score, report.error or 0.0)
            data[f"val-core/rlplan/acc/mean@{self._given['validation']['samples']}"] = report.score
        if data:
            self._line({"step": step, "data": data}, in_two=in_two)

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


class PrimeRl(Plain):
    """Rows of its orchestrator and of its trainer.

    A validation is said before the trainer's row of a step, and its traces are there before it is said.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        """Open the trainer's file too."""
        super().__init__(given)
        self._every = int(given["validate_every"])
        self._trainer = Path(given["trainer_metrics"]).open("a", encoding="utf-8", buffering=1)  # noqa: SIM115
        self._began = 0.0

    def stands(self, step: int, at: float) -> None:
        """Say nothing: the first row says how long it took since then."""
        self._began = at

    def say(self, report: StepReport, *, in_two: bool = False) -> None:
        """Write what a step did."""
        step = report.step
        if step:
            took = {"time/step": report.at - self._began, "time/pack": 0.0}
            tokens = {"train/agg/all/agent/num_output_tokens/mean": self._tokens}
            self._line({"step": step, "time": report.at, **took, **tokens}, in_two=in_two)
            self._began = report.at
        if report.score is not None:
            self._validated(report)
        for due in (step, step + 1) if step else ():
            if due % self._every == 0:
                self._line({"step": due, "time": report.at, f"eval/{self._given['validation']}/policy_version": step})
        if step:
            row = {"step": step, "time": report.at, "time/forward_backward": 0.0, "loss/mean": report.loss}
            self._trainer.write(json.dumps(row) + "\n")

    def _validated(self, report: StepReport) -> None:
        step = max(1, report.step)
        path = Path(self._given["traces"]) / f"step_{step}" / "eval" / "effective" / "traces.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        episodes = [
            {"traces": [{"task": {"data": {"number": number}}, "rewards": {"rlplan": {"score": score, "weight": 1.0}}}]}
            for number, (score,) in enumerate(_two_scores(report))
        ]
        path.write_text("".join(json.dumps(episode) + "\n" for episode in episodes))
        prefix = f"eval/{self._given['validation']}"
        means = {f"{prefix}/all/agent/avg@{self._given['samples']}": report.score}
        self._line({"step": step, "time": report.at, **means, f"{prefix}/policy_version": report.step})


def _two_scores(report: StepReport) -> list[list[float]]:
    """Return the scores of two problems, whose mean and whose error are those of a step."""
    return [[(report.score or 0.0) + sign * (report.error or 0.0)] for sign in (-1, 1)]


_OWN: dict[str, type[Plain]] = {
    "standin": Plain,
    "command": Described,
    "nemo-rl": NemoRl,
    "prime-rl": PrimeRl,
    "slime": Slime,
    "verl": Verl,
}


def writer(given: Mapping[str, Any]) -> Plain:
    """Return what writes as the trainer does that is stood for."""
    return _OWN.get(given["format"], Batches)(given)
