"""What verl's own loggers and metrics write is what our driver reads, and its traps are still there."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.utils.tracking import FileLogger

from runner.trainers.verl.job import VerlLog
from tests.runner.trainers.standins import attempt
from tests.trainers_verl.trials import trial

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs
SCORES = np.random.default_rng(7).integers(0, 2, (20, 4)).astype(float)  # of problems and samples
UIDS = [f"problem-{number}" for number in range(20) for _ in range(4)]


def opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> FileLogger:
    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", str(path))
    return FileLogger("rlplan", "trial")


def validated() -> dict[str, float]:
    infos = {"reward": list(SCORES.flatten()), "acc": list(SCORES.flatten()), "score": list(SCORES.flatten())}
    return PPOTrainer._val_metrics_update(None, ["rlplan"] * 80, UIDS, infos, [2] * 80)


def test_what_its_logger_and_its_validation_write_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = attempt(tmp_path)
    logger = opened(one.metrics, monkeypatch)
    log = VerlLog(trial(), one)
    (stands,) = log.read()
    keys = [f"{uid}_{place % 4}_0" for place, uid in enumerate(UIDS)]
    extra = {"reward": list(SCORES.flatten()), "acc": list(SCORES.flatten()), "uid": keys}
    texts = ["a"] * 80
    PPOTrainer._write_generations(texts, texts, texts, list(SCORES.flatten()), extra, tmp_path / "validation-1", 0)
    logger.log(validated(), 0)
    step = {
        "actor/pg_loss": np.float64(0.25),
        "actor/entropy": 1.5,
        "response_length/mean": 7.5,
        "response_length/clip_ratio": 0.125,
        "critic/score/mean": 0.5,
        "timing_s/gen": 3.0,
        "timing_s/update_actor": 2.0,
        "timing_s/step": 6.0,
        "timing_s/testing": 4.0,
    }
    logger.log({**step, **validated()}, 1)
    first, second = log.read()

    assert (stands.step, stands.score, dict(stands.metrics)) == (0, None, {})
    assert (first.step, second.step) == (0, 1)
    assert first.score == second.score == pytest.approx(SCORES.mean())
    assert first.score_standard_error == pytest.approx(SCORES.mean(1).std(ddof=1) / math.sqrt(20))
    assert first.whole
    assert second.score_standard_error is None  # its answers are not there yet
    assert not second.whole
    assert second.response_tokens == 7.5
    wanted = {"loss": 0.25, "entropy": 1.5, "truncated_share": 0.125, "reward": 0.5}
    assert wanted.items() <= second.metrics.items()
    assert second.seconds == {"generate": 3.0, "update": 2.0, "validation": 4.0}


def test_its_logger_truncates_so_that_every_attempt_has_a_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (1, 2):
        opened(tmp_path / "one.jsonl", monkeypatch).log({"a": 1.0}, step)
    assert [json.loads(line)["step"] for line in (tmp_path / "one.jsonl").read_text().splitlines()] == [2]
    assert attempt(tmp_path).metrics != attempt(tmp_path, number=2).metrics


def test_its_logger_writes_what_is_no_number_as_null_which_is_read_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = attempt(tmp_path)
    opened(one.metrics, monkeypatch).log({"actor/pg_loss": math.nan, "actor/entropy": 1.0}, 1)
    assert math.isnan(VerlLog(trial(), one).read()[-1].metrics["loss"])
