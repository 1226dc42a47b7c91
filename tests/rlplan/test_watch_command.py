import json
import statistics
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from rlplan.commands.watch import WatchEvent, followed
from rlplan.requests.logs import WatchRequest
from tests.rlplan.conftest import Run
from tests.security.limits import limited

RISING = [0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.6, 0.61]
FALLEN = [*RISING, 0.3, 0.25, 0.2]


def table(path: Path, scores: list[float]) -> Path:
    rows = "".join(f"{10 * number},{score}\n" for number, score in enumerate(scores, start=1))
    path.write_text(f"step,score\n{rows}")
    return path


def verl_log(path: Path, rewards: list[float], scores: list[float]) -> Path:
    lines = [
        f"step:{step} - critic/score/mean:{reward} - actor/pg_loss:0.1 - actor/grad_norm:0.5 - timing_s/step:1.0"
        + (f" - val-core/gsm8k/acc/mean@4:{scores[step // 5 - 1]}" if step % 5 == 0 else "")
        for step, reward in enumerate(rewards, start=1)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_healthy_run_ends_with_0(run: Run, tmp_path: Path) -> None:
    assert run("watch", str(table(tmp_path / "run.csv", RISING)), "--once", "--answers", "2000").code == 0


def test_who_follows_a_run_is_told_how_that_ends(run: Run, tmp_path: Path) -> None:
    ran = run("watch", str(table(tmp_path / "run.csv", FALLEN)), "--answers", "2000")
    assert ran.code == 5
    assert "run.csv until it warns; Ctrl-C ends this" in ran.err
    missing = run("watch", "run.log")
    assert (missing.code, missing.err) == (3, "rlplan: no file 'run.log'\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'{}' is empty"),
        ("step,score\n", "'{}' holds a header but no rows"),
        ("step:1 - critic/score/mean:0\n", "'{}'"),
    ],
)
def test_a_log_with_nothing_in_it_yet_is_waited_for_and_that_is_said_once(tmp_path: Path, text: str, said: str) -> None:
    log, heard, looks = tmp_path / "run.csv", list[str](), list[float]()
    log.write_text(text)

    def wait(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) > 1:
            table(log, FALLEN)

    events = list(followed(WatchRequest(log, answers=2000), wait, heard.append))
    assert len(looks) == 2
    assert any(each.warned for each in events)
    assert [each.partition(":")[0] for each in heard] == [
        f"following {log} until it warns; Ctrl-C ends this",
        "nothing to follow yet",
    ]
    assert said.format(log) in heard[1]
    assert heard[1].endswith("; it is looked at every 10 s")


def test_json_is_a_line_a_validation_with_what_is_left(run: Run, tmp_path: Path) -> None:
    saturated = [0.2, 0.4, 0.55, 0.6, 0.62, *([0.63] * 35)]
    ran = run("watch", str(table(tmp_path / "run.csv", saturated)), "--once", "--end", "500", "--format", "json")
    lines = [json.loads(line) for line in ran.out.splitlines()]

    assert [line["score"] for line in lines] == saturated
    assert lines[0]["left"] is None
    assert lines[-1]["left"]["won"] is True
    assert lines[-1]["left"]["share"] == pytest.approx(0.2)


def test_a_log_that_grows_is_followed_until_it_warns(tmp_path: Path) -> None:
    path = table(tmp_path / "run.csv", FALLEN[:3])
    parts = iter([FALLEN[:6], FALLEN])
    looks: list[float] = []

    def wait(seconds: float) -> None:
        looks.append(seconds)
        table(path, next(parts))

    seen: list[WatchEvent] = list(followed(WatchRequest(path, answers=2000, every=3.0), wait))

    assert [each.scored.score for each in seen if each.scored] == FALLEN
    assert looks == [3.0, 3.0]
    assert [each.warned is not None for each in seen].count(True) == 1


@pytest.mark.parametrize("ends", ["5\n", ""])
def test_a_line_that_is_being_written_is_read_when_it_has_ended(tmp_path: Path, ends: str) -> None:
    path = tmp_path / "run.csv"
    path.write_text("step,score\n0,0.5\n5,0.6")
    seen: list[list[float | None]] = []

    def wait(_: float) -> None:
        seen.append([each.score for each in found])
        path.write_text(f"step,score\n0,0.5\n5,0.6{ends}")

    found: list[WatchEvent] = []
    for each in followed(WatchRequest(path), wait):
        found.append(each)
        if len(found) == 2:
            break
    assert seen == [[0.5]]
    assert [each.score for each in found] == [0.5, float(f"0.6{ends}")]


def test_validations_are_followed_from_the_first_where_there_was_training_alone(tmp_path: Path) -> None:
    rewards, scores = [0.3 + 0.01 * step for step in range(20)], [0.3, 0.4, 0.5, 0.6]
    log = verl_log(tmp_path / "verl.log", rewards[:4], [])
    grown = iter([lambda: verl_log(log, rewards, scores)])
    seen = list(islice(followed(WatchRequest(log), lambda _: next(grown)()), 8))

    assert [each.scored.score for each in seen if each.scored] == [*rewards[:4], *scores]
    assert any("the validation of verl" in note for note in seen[4].notes)


def test_time_cost_and_the_best_come_last_with_the_end_that_a_progress_bar_says(run: Run, tmp_path: Path) -> None:
    log = verl_log(tmp_path / "verl.log", [0.4] * 20, [0.3, 0.5, 0.45, 0.4])
    log.write_text(f"{log.read_text()}Training Progress:  50%|█████     | 20/40 [00:20<00:20,  1.00s/it]\n")
    ran = run("watch", str(log), "--once", "--gpus", "7200", "--gpu", "h100")
    said = ran.text
    assert "Best 0.500 at step 10; now 0.400 at step 20" in said
    assert "Time step 20 of 40, 20 s left; a step takes 1 s" in said
    assert "Cost 40 GPU-hours ($100) so far, 80 GPU-hours ($200) at its end" in said


def test_prime_rls_two_logs_are_one_run(run: Run, tmp_path: Path) -> None:
    for part, row in (("trainer", {"loss/mean": 0.1}), ("orchestrator", {"eval/aime/all/solver/avg@4": 0.5})):
        (tmp_path / "run" / part).mkdir(parents=True)
        rows = [
            json.dumps({"step": step, "time": 100.0 * step, "progress/total_rollouts": 8, **row}) for step in (1, 2)
        ]
        (tmp_path / "run" / part / "metrics.jsonl").write_text("\n".join(rows))
    assert "score 0.500 at step 2" in run("watch", str(tmp_path / "run"), "--once").out


def test_a_long_log_is_watched_within_seconds_and_little_memory(run: Run, tmp_path: Path) -> None:
    many = 30_000
    log = verl_log(tmp_path / "run.log", [0.5] * many, [0.2 + step / many for step in range(many // 5)])
    with limited():
        ran = run("watch", str(log), "--once")
    assert ran.code == 0
    assert f"step {many:,}" in ran.out


def test_a_look_at_a_long_log_costs_little_beside_the_parsing_of_its_numbers(tmp_path: Path) -> None:
    names = [f"actor/metric_{number}/mean" for number in range(40)]
    said = ["critic/score/mean:0.4", "response_length/mean:200.5", "timing_s/gen:60.5", "timing_s/step:90.2"]

    def line(step: int) -> str:
        validation = [f"val-core/gsm8k/acc/mean@4:{0.2 + step / 20_000}"] if step % 10 == 0 else []
        numbers = [f"{name}:{(step * place % 97) / 97}" for place, name in enumerate(names)]
        return f"(TaskRunner pid=7) {' - '.join([f'step:{step}', *validation, *numbers, *said])}\n"

    path = tmp_path / "run.log"
    path.write_text("".join(map(line, range(1, 8_001))))

    def parse() -> None:
        for text in path.read_text().splitlines():
            [float(piece.rpartition(":")[2]) for piece in text.partition("pid=7) ")[2].split(" - ")]

    def look() -> None:
        assert sum(1 for _ in followed(WatchRequest(str(path), once=True))) == 800

    def seconds(call: Callable[[], None]) -> float:
        began = time.process_time()
        call()
        return time.process_time() - began

    assert statistics.median(seconds(look) / seconds(parse) for _ in range(5)) < 5


def test_the_best_is_named_by_the_logs_own_step(run: Run, tmp_path: Path) -> None:
    lines = [
        f"step:{step} - critic/score/mean:0.4 - actor/pg_loss:0.1 - timing_s/gen:1.0 - timing_s/update_actor:1.0"
        + (f" - val-core/gsm8k/acc/mean@4:{0.2 + step / 1000}" if step % 100 == 0 else "")
        for step in range(401)
    ]
    (tmp_path / "run.log").write_text("\n".join(lines) + "\n")
    ran = run("watch", str(tmp_path / "run.log"), "--once", "--end", "500")
    assert "Best   0.600 at step 400" in ran.out
    assert "step 400 of 500" in ran.text
    assert "401" not in ran.out
