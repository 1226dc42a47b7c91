"""Recipes compared as ScaleRL compares them (arXiv 2510.13786): first the asymptote, then how fast it is approached."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from budgets.errors import InputError
from planner.curves.curve import Curve
from planner.curves.families.sigmoid import Sigmoid, SigmoidFit

# Three runs of one recipe differed by up to 0.015 in A; the study calls differences within 0.02 noise.
ASYMPTOTE_MARGIN = 0.02
_ROUNDING = 1e-6  # fits are no more exact than this: 0.610 and 0.590 are a tie
_TWO_SIDED_90 = 1.645


@dataclass(frozen=True)
class ComparedRecipe:
    """A recipe's rank and the numbers it rests on.

    `A` is of the recipe's own fit, and so are the computes that reach 80, 90 and 95 % of the gain; `B` and `C_mid` are
    refitted with A fixed at `common_asymptote`, the mean of the recipes in the same tie group (1 is the best group).
    """

    name: str
    rank: int
    A: float
    tie_group: int
    common_asymptote: float
    B: float
    C_mid: float
    compute_80: float
    compute_90: float
    compute_95: float


def compare(
    curves: Mapping[str, Curve],
    *,
    asymptote_sds: Mapping[str, float] | None = None,
    margin: float = ASYMPTOTE_MARGIN,
    family: Sigmoid | None = None,
) -> tuple[ComparedRecipe, ...]:
    """Fit every curve and rank: higher A first; within a tie the larger B, then the smaller C_mid, at the common A.

    A recipe ties with the best of its group when their A differ by at most the margin, or by what 90 % of draws would
    where `asymptote_sds` are given and that is more.
    """
    if not (math.isfinite(margin) and margin >= 0):
        raise InputError(f"margin {margin}: give the difference of A that counts as a tie, at least 0")
    sds = _checked_sds(curves, asymptote_sds or {})
    family = family or Sigmoid()
    fits = {name: family.fit(curve) for name, curve in curves.items()}
    rows: list[ComparedRecipe] = []
    for group, names in enumerate(_tie_groups({name: fit.A for name, fit in fits.items()}, sds, margin), start=1):
        common = math.fsum(fits[name].A for name in names) / len(names)
        refits = {name: fits[name] for name in names}
        if len(names) > 1:
            refits = {name: replace(family, asymptote=common).fit(curves[name]) for name in names}
        for name in sorted(names, key=lambda name: (-refits[name].B, refits[name].C_mid, name)):
            rows.append(_row(name, len(rows) + 1, fits[name], group, refits[name]))
    return tuple(rows)


def _tie_groups(asymptotes: Mapping[str, float], sds: Mapping[str, float], margin: float) -> list[list[str]]:
    """Split names into groups, each led by the highest A that is left; who ties with the leader belongs to it.

    Ties are with the leader only: chains of small differences would otherwise join recipes that clearly differ.
    """
    left = sorted(asymptotes, key=lambda name: (-asymptotes[name], name))
    groups = []
    while left:
        leader = left[0]
        group = [
            name
            for name in left
            if asymptotes[leader] - asymptotes[name]
            <= max(margin, _TWO_SIDED_90 * math.hypot(sds[leader], sds[name])) + _ROUNDING
        ]
        groups.append(group)
        left = [name for name in left if name not in group]
    return groups


def _row(name: str, rank: int, own: SigmoidFit, group: int, refit: SigmoidFit) -> ComparedRecipe:
    reached = [own.compute_at_gain(fraction) for fraction in (0.80, 0.90, 0.95)]
    return ComparedRecipe(name, rank, own.A, group, refit.A, refit.B, refit.C_mid, *reached)


def _checked_sds(curves: Mapping[str, Curve], sds: Mapping[str, float]) -> dict[str, float]:
    if not curves:
        raise InputError("no curves to compare: give one for each recipe")
    if unknown := sorted(set(sds) - set(curves)):
        raise InputError(f"sd of A for {', '.join(unknown)}: there are curves of {', '.join(sorted(curves))}")
    if wrong := sorted(name for name, sd in sds.items() if not (math.isfinite(sd) and sd >= 0)):
        raise InputError(f"sd of A for {', '.join(wrong)} is not a number of at least 0")
    return {name: sds.get(name, 0.0) for name in curves}
