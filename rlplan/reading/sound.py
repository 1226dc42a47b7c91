"""Takes out of a picture what is no number where there should be one, so that whoever draws it need not ask."""

import math
from collections.abc import Iterable
from dataclasses import replace

from rlplan.reading.damage import Damage
from rlplan.reading.story import Charged, Stretch
from rlplan.reading.sweep_picture import Answer, Money, Picture, Score, TrialRow
from rlplan.reading.sweep_trials import Memory


def sound_picture(
    seen: Picture, ran: tuple[Stretch, ...], charged: tuple[Charged, ...], damage: Damage, memory: Memory
) -> Picture:
    """Return the picture without rows that hold no numbers; those are noted."""
    whole = [trial for trial in seen.trials if damage.whole(trial, f"the trial {trial.name}")]
    return replace(
        seen,
        trials=tuple(_sound_trial(trial, damage, memory) for trial in whole),
        last_decisions=tuple(each for each in seen.last_decisions if damage.whole(each, f"decision {each.number}")),
        answer=_sound_answer(seen.answer, damage) if seen.answer else None,
        money=_sound_money(seen.money, ran, charged),
    )


def _sound_trial(trial: TrialRow, damage: Damage, memory: Memory) -> TrialRow:
    forecast = trial.forecast
    if forecast and not damage.whole(forecast, f"the forecast of {trial.name}"):
        trial = replace(trial, forecast=None)
    known = f"sound scores of trial {trial.id}"
    if memory.get(known, (None, None))[1] is trial.scores:
        return trial
    if _all_finite(trial.scores):
        memory[known] = None, trial.scores
        return trial
    kept = tuple(score for score in trial.scores if _all_finite([score]))
    steps = [str(score.step) for score in trial.scores if not _all_finite([score])]
    shown = ", ".join(steps[:3]) + (f" and {len(steps) - 3} more" if len(steps) > 3 else "")
    damage.found.append(f"scores of {trial.name} are left out, at step {shown}: they are no numbers")
    return replace(trial, scores=kept)


def _all_finite(scores: Iterable[Score]) -> bool:
    """Whether scores hold finite numbers; a sum tells, and takes a tenth of the time that each of them would."""
    try:
        total = math.fsum(value for score in scores for value in score if value is not None)
    except (TypeError, ValueError, OverflowError):
        return False
    return math.isfinite(total)


def _sound_answer(answer: Answer, damage: Damage) -> Answer | None:
    if not damage.whole(answer, "the recommendation"):
        return None
    return replace(
        answer,
        ranking=tuple(row for row in answer.ranking if damage.whole(row, f"rank {row.rank} of the recommendation")),
    )


def _sound_money(money: Money, ran: tuple[Stretch, ...], charged: tuple[Charged, ...]) -> Money:
    """Return the money as it is, or added up again from the rows that hold numbers."""
    if math.isfinite(money.spent + money.reserved):
        return money
    by_outcome: dict[str, float] = {}
    for stretch in ran:
        if stretch.charged_gpu_hours is not None:
            by_outcome[stretch.outcome] = by_outcome.get(stretch.outcome, 0.0) + stretch.charged_gpu_hours
    by_charge: dict[str, float] = {}
    for charge in charged:
        by_charge[charge.kind] = by_charge.get(charge.kind, 0.0) + charge.gpu_hours
    reserved = sum(stretch.reserved_gpu_hours for stretch in ran if stretch.ended_at is None)
    return replace(money, by_outcome=by_outcome, by_charge=by_charge, reserved=reserved)
