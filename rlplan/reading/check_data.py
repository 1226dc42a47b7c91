"""The document of `rlplan check`: what a script would launch, what is wrong with it, and what would help."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.vetting.changes import Checked, Improvement
from planner.vetting.verdict import DIFFERENCE, Interval, Memory, Verdict
from rlplan.wording.assumptions import Assumption
from rlplan.wording.numbers import median_and_bounds

if TYPE_CHECKING:
    from planner.adopting.script import ScriptFacts


def check_data(
    files: Sequence[Path],
    facts: "ScriptFacts",
    checked: Checked,
    assumptions: Sequence[Assumption],
    guessed: Sequence[tuple[str, str]],
) -> dict[str, Any]:
    """Return the document of `rlplan check --format json`."""
    launch = checked.verdict.launch
    return {
        "files": [str(path) for path in files],
        "trainer": facts.trainer,
        "model": launch.workload.model.name,
        "gpu": launch.hardware.gpu.name,
        "gpus": launch.hardware.gpus_per_trial,
        "rollouts_per_prompt": launch.rollouts_per_prompt,
        "prompts_per_batch": launch.prompts_per_batch,
        **_judged(checked.verdict),
        "expected_score": None if checked.score is None else asdict(checked.score),
        "budget_steps": checked.budget_steps,
        "changes": [_change(each, facts) for each in checked.improvements],
        "keys": dict(facts.keys),
        "assumed": dict(facts.assumed),
        "unresolved": list(facts.unresolved),
        "guessed": {flag: text for text, flag in guessed},
        "assumptions": [asdict(each) for each in assumptions],
    }


def _judged(found: Verdict) -> dict[str, Any]:
    launch = found.launch
    saved = found.checkpoints
    return {
        "red_flags": [asdict(flag) for flag in found.flags if flag.asks is None],
        "likely_flags": [asdict(flag) for flag in found.flags if flag.asks is not None],
        **memory_data(found.memory),
        "steps": launch.steps,
        "seconds_per_step": median_and_bounds(*found.step_seconds),
        "phases": {each.phase: each.median * launch.traits.updates_per_batch for each in found.price.phases},
        "hours": _interval(found.hours),
        "gpu_hours": _interval(found.gpu_hours),
        "dollars": found.dollars,
        "mean_response_tokens": launch.workload.responses.mean,
        "response_tokens": launch.workload.responses.cap,
        "cut_off": found.cut_off,
        "dead_groups": found.dead_groups,
        "learning_rate": launch.learning_rate,
        "rule_learning_rate": launch.rule_rate,
        "updates_per_batch": launch.updates,
        "staleness": found.staleness,
        "epochs": found.epochs,
        "validation": {
            "share_of_time": found.validation_share,
            "visible_difference": found.visible_difference,
            "sees": None if found.visible_difference is None else found.visible_difference <= DIFFERENCE,
        },
        "checkpoints": None if saved is None else {"kept": saved[0], "bytes": saved[0] * saved[1]},
    }


def memory_data(memory: Memory) -> dict[str, Any]:
    """Return whether training and engine fit, and what they take."""
    return {
        "fits": memory.fits,
        "memory": {
            "training_bytes_per_gpu": dict(memory.training),
            "micro_batch_bytes_per_gpu": memory.micro_batch,
            "engine_bytes_per_gpu": memory.engine,
            "usable_bytes_per_gpu": memory.usable,
            "fewest_gpus": memory.fewest_gpus,
        },
    }


def _interval(found: Interval | None) -> dict[str, float] | None:
    return None if found is None else median_and_bounds(*found)


def _change(each: Improvement, facts: "ScriptFacts") -> dict[str, Any]:
    after = each.verdict
    return {
        "name": each.name,
        "key": facts.keys.get(each.name),
        "before": each.before,
        "after": each.after,
        "clears": list(each.cleared),
        "score_gain": None if each.score_gain is None else dict(zip(("median", "error"), each.score_gain, strict=True)),
        "gpu_hours_saved": each.saved,
        "seconds_per_step": median_and_bounds(*after.step_seconds),
        "cut_off": after.cut_off,
        "dead_groups": after.dead_groups,
    }
