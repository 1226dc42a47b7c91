"""How each trainer that is driven writes metrics and checkpoints; the standard library alone, as the stand-in."""

import csv
import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.trainers.standin.process import StandinFiles, StepReport, main


class Form(StandinFiles):
    """Checkpoints by a trainer's pattern, with what makes them whole."""

    def __init__(self, run: Mapping[str, Any]) -> None:
        super().__init__(run)
        self.pattern = run["checkpoint"]
        self.updates = int(run.get("updates", 1))  # of a step of the trainer, which is a batch of rollouts

    def number(self, step: int) -> str:
        return str(step // self.updates)

    def mark(self, step: int, path: Path) -> None:
        if mark := self._run.get("mark"):
            text = json.dumps({"step": step, "response_tokens": self._tokens})
            (path / mark.replace("{step}", str(step))).write_text(text, encoding="utf-8")
        for name in self._run.get("holds", ()):
            (path / name).parent.mkdir(exist_ok=True)
            (path / name).touch()
        if tracker := self._run.get("tracker"):
            Path(tracker).parent.mkdir(parents=True, exist_ok=True)
            Path(tracker).write_text(self.number(step), encoding="utf-8")


class Described(Form):
    """JSON lines or a table with the columns that a trainer's file names."""

    def log(self, values: Mapping[str, Any], *, in_two: bool = False) -> None:
        columns: Mapping[str, str] = self._run["columns"]
        if not self._run["table"]:
            super().log({columns[ours]: value for ours, value in values.items() if ours in columns}, in_two=in_two)
            return
        if not self._log.tell():
            csv.writer(self._log).writerow(columns.values())
        cells = ("" if values.get(ours) is None else str(values[ours]) for ours in columns)
        self.write(",".join(cells) + "\n", in_two)


class Batches(Form):
    """Lines with the trainer's names, as the program of ours writes them that runs in its process."""

    def __init__(self, run: Mapping[str, Any]) -> None:
        super().__init__(run)
        self.loss, self.length = run["names"]

    def begin(self, step: int, at: float) -> None:
        self.log({"step": step // self.updates, "at_seconds": at})

    def report(self, report: StepReport, *, in_two: bool = False) -> None:
        if report.step % self.updates:
            return
        for line in self.lines(report):
            self.log({"step": report.step // self.updates, "at_seconds": report.at, **line}, in_two=in_two)
            in_two = False

    def lines(self, report: StepReport) -> list[dict[str, Any]]:
        logs = {"logs": {self.loss: report.loss, self.length: self._tokens}, "whole": report.score is None}
        scores = {"scores": two_scores(report), "whole": True}
        return [{**line, "seconds": {}} for line in [logs] * bool(report.step) + [scores] * (report.score is not None)]


class NemoRl(Batches):
    """Several lines of one step: first the scores, then what it logs."""

    def lines(self, report: StepReport) -> list[dict[str, Any]]:
        lines: list[dict[str, Any]] = []
        if report.score is not None:
            lines += [{"scores": two_scores(report)}, {"logs": {"validation/accuracy": report.score}}]
        if report.step:
            timing = {"timing/train/policy_training": 0.0}
            lines += [{"logs": {self.loss: report.loss, self.length: self._tokens}}, {"logs": timing}]
        return lines


class Slime(Batches):
    """Several lines of one step; checkpoints count from 0, and last comes the place in the prompts."""

    def number(self, step: int) -> str:
        return f"{step // self.updates - 1:07d}"

    def mark(self, step: int, path: Path) -> None:
        super().mark(step, path)
        folder = path.parent / "rollout"
        folder.mkdir(exist_ok=True)
        (folder / f"global_dataset_state_dict_{step // self.updates - 1}.pt").touch()

    def lines(self, report: StepReport) -> list[dict[str, Any]]:
        logs = [{"logs": {self.length: self._tokens}}, {"logs": {self.loss: report.loss}}] if report.step else []
        return logs + ([] if report.score is None else [{"scores": two_scores(report)}])


class Verl(Batches):
    """A line {"step", "data"} for each batch, with the score where there is one, which follows the answers."""

    def begin(self, step: int, at: float) -> None:
        self.write("")  # the log is opened when everything has been started
        Path(self._run["tracker"]).parent.mkdir(parents=True, exist_ok=True)
        Path(self._run["tracker"]).write_text(self.number(step), encoding="utf-8")  # what was saved beyond is void

    def report(self, report: StepReport, *, in_two: bool = False) -> None:
        if report.step % self.updates:
            return
        step, data = report.step // self.updates, dict[str, float | None]()
        if report.step:
            loss = report.loss if math.isfinite(report.loss) else None  # as orjson writes what is no number
            data |= {self.loss: loss, self.length: self._tokens, "training/global_step": step}
        if report.score is not None:
            self.answer(step, report.score, report.error or 0.0)
            data[f"val-core/rlplan/acc/mean@{self._run['validation']['samples']}"] = report.score
        if data:
            self.log({"step": step, "data": data}, in_two=in_two)

    def answer(self, step: int, score: float, error: float) -> None:
        """Write answers whose mean is the score, and the error of that mean over problems the one given."""
        problems, samples = (int(self._run["validation"][name]) for name in ("problems", "samples"))
        paired = problems // 2 * 2
        apart = error * math.sqrt(problems * (problems - 1) / paired) if problems > 1 else 0.0
        lines = []
        for problem in range(problems):
            value = score + (apart if problem % 2 else -apart) * (problem < paired)
            lines += [{"uid": f"p{problem}_{sample}_0", "step": step, "acc": value} for sample in range(samples)]
        write_lines(Path(self._run["scores"]) / f"{step}.jsonl", lines)


class PrimeRl(Form):
    """Rows of its orchestrator and of its trainer.

    A validation is in the log before the trainer's row of a step, and its traces are there before that.
    """

    began = 0.0

    def begin(self, step: int, at: float) -> None:
        self.began = at  # the first row says how long it took since then

    def report(self, report: StepReport, *, in_two: bool = False) -> None:
        step = report.step
        if step:
            took = {"time/step": report.at - self.began, "time/pack": 0.0}
            tokens = {"train/agg/all/agent/num_output_tokens/mean": self._tokens}
            self.log({"step": step, "time": report.at, **took, **tokens}, in_two=in_two)
            self.began = report.at
        if report.score is not None:
            self.validated(report)
        for due in (step, step + 1) if step else ():
            if due % self._run["validate_every"] == 0:
                self.log({"step": due, "time": report.at, "eval/validation/policy_version": step})
        with Path(self._run["trainer_metrics"]).open("a", encoding="utf-8") as trainer:
            if step:
                row = {"step": step, "time": report.at, "time/forward_backward": 0.0, "loss/mean": report.loss}
                trainer.write(json.dumps(row) + "\n")

    def validated(self, report: StepReport) -> None:
        step = max(1, report.step)
        rewards = [{"rlplan": {"score": score, "weight": 1.0}} for (score,) in two_scores(report)]
        traces = [{"task": {"data": {"number": at}}, "rewards": reward} for at, reward in enumerate(rewards)]
        path = Path(self._run["traces"]) / f"step_{step}" / "eval" / "effective" / "traces.jsonl"
        write_lines(path, [{"traces": [trace]} for trace in traces])
        means = {f"eval/validation/all/agent/avg@{self._run['validation']['samples']}": report.score}
        self.log({"step": step, "time": report.at, **means, "eval/validation/policy_version": report.step})


def two_scores(report: StepReport) -> list[list[float]]:
    """Return the scores of two problems, whose mean and whose error are those of a step."""
    return [[(report.score or 0.0) + sign * (report.error or 0.0)] for sign in (-1, 1)]


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


OWN = {"command": Described, "nemo-rl": NemoRl, "prime-rl": PrimeRl, "slime": Slime, "verl": Verl}

if __name__ == "__main__":
    main(sys.argv[1:], lambda run: OWN.get(run["form"], Batches)(run))
