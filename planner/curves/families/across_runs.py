"""The laws across runs: of model sizes, of rollouts per prompt, and of updates per step in value-based RL.

log10 L = −k(N)·log10 X + E(N), L = 1 − pass@1, k(N) = K_max/(1 + N_0/N) (arXiv 2509.25300);
log2 n*(C) = L/(1 + exp(−k·(log10 C − c0))) + b (IsoCompute, arXiv 2603.12151);
D(σ, N) = D_min·[1 + (a/σ)^α + (b/N)^β], σ updates per environment step, N the critic's parameters (arXiv 2508.14881).
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.special import expit

from budgets.errors import InputError
from planner.curves.curve import Curve, Vector
from planner.curves.families.draws import (
    CannotTellError,
    LawDraws,
    Separable,
    require_variation,
    size_name,
    vague,
)
from planner.curves.families.one_curve import draw_sigmoid

_SIZE_STARTS = 200  # values of N_0
_SIZE_MARGINS = (1e-2, 1e3)  # N_0 lies between these multiples of the smallest and the largest model
_STEEPEST = 50.0  # K_max
_FARTHEST = 10.0  # log10 L at the middle of a size's points

_GRID = 200  # values of compute along the frontier
_SMOOTHING = 0.05  # running average of the labels, as a part of the grid; the study does not state its window
_STEEPNESS = (1.0, 50.0, 24)  # from and to what, where the study pins k, and how many; the last is a step
_MIDPOINTS = 80
_BEYOND = 1.0  # octaves that floor and ceiling may lie beyond the n that were tried
_DRAWS = 400
_MOST_WITHOUT_CHANGE = 0.1

_EXPONENTS = (0.05, 5.0)  # α and β
_EXPONENT_STARTS = 12  # values of each
_LARGEST_TERM = 1e6  # a term of the sum, in units of the least data seen


def draw_model_sizes(curves: Mapping[float, Sequence[Curve]]) -> LawDraws:
    """Return what K_max, N_0 and the E of each size may be: a larger model needs a few early points of its own."""
    if wrong := [size for size in curves if not (math.isfinite(size) and size > 0)]:
        raise InputError(f"model size {wrong[0]}: give a number of parameters above 0")
    if len(curves) < 2:
        raise CannotTellError(f"there are curves of {len(curves)} model size: how k grows with N needs at least 2")
    sizes = np.array(list(curves))
    points = [_log_points(each) for each in curves.values()]
    middles = np.array([float(log_x.mean()) for log_x, _ in points])
    rows = np.repeat(np.arange(sizes.size), [log_x.size for log_x, _ in points])
    log_x, log_loss = (np.concatenate(column) for column in zip(*points, strict=True))
    ends = sizes.min() * _SIZE_MARGINS[0], sizes.max() * _SIZE_MARGINS[1]
    first, last = (math.log(end) for end in ends)
    farthest = np.full(sizes.size, _FARTHEST)
    # Each size's X is taken from its middle: E at X = 1 lies decades away, where it and k could not be told apart.
    drawn = Separable(
        basis=_size_basis,
        inputs=np.column_stack([np.log(sizes)[rows], log_x - middles[rows], np.eye(sizes.size)[rows]]),
        y=log_loss,
        starts=np.linspace(first, last, _SIZE_STARTS)[:, np.newaxis],
        bounds=(np.array([first, 0.0, *-farthest]), np.array([last, _STEEPEST, *farthest])),
    ).draw(rows)
    if drawn.points[0, 1] < 1e-9:
        raise CannotTellError("scores fall with X in the curves of these sizes: the law is about curves that rise")
    exponents = drawn.points[:, 1:2] * _share(drawn.points[:, :1], np.log(sizes))
    intercepts = drawn.points[:, 2:] + exponents * middles

    def of_size(row: int) -> Callable[[Vector], Vector]:
        return lambda x: np.asarray(1 - 10 ** (intercepts[:, row, None] - exponents[:, row, None] * np.log10(x)))

    law = {"K_max": drawn.points[:, 1], "N_0": np.exp(drawn.points[:, 0])}
    names = [size_name(size) for size in sizes]
    parameters = law | {f"E[{name}]": intercepts[:, row] for row, name in enumerate(names)}
    series = {name: of_size(row) for row, name in enumerate(names)}
    return LawDraws(parameters, series, drawn.noise_sd, vague(law, None, {"N_0": ends}))


def _log_points(curves: Sequence[Curve]) -> tuple[Vector, Vector]:
    """Return log10 X and log10 L of all runs of a size, in the order of X."""
    trained = [curve.where(curve.x > 0) for curve in curves]
    for curve in trained:
        require_variation(curve, "log-linear law", 2)
        if curve.y.min() < 0 or curve.y.max() >= 1:
            raise InputError(
                f"curve '{curve.name}' has scores from {curve.y.min():g} to {curve.y.max():g}: the law is about "
                "log(1 − score) and needs fractions of at least 0 and below 1; divide percentages with --percent"
            )
    joined = Curve.joined(trained)
    return np.log10(joined.x), np.log10(1 - joined.y)


def _size_basis(theta: Vector, inputs: Vector) -> Vector:
    """Return the weights of K_max and of each size's level at its middle, for θ = (log N_0)."""
    slope = -_share(theta, inputs[:, 0]) * inputs[:, 1]
    return np.concatenate([slope[..., None], np.broadcast_to(inputs[:, 2:], (*slope.shape, inputs.shape[1] - 2))], 2)


def _share(log_midpoint: Vector, log_sizes: Vector) -> Vector:
    """Return k(N)/K_max."""
    return np.asarray(expit(log_sizes - log_midpoint))


def draw_group_law(curves: Mapping[int, Sequence[Curve]]) -> LawDraws:
    """Return what L, k, c0 and b may be: each draw takes a sigmoid for every n, and the best n at every compute.

    An n counts from its first point on, and past its last one it keeps its score: a run can be stopped, but what it
    would have done later was not seen.
    """
    if wrong := [group for group in curves if group < 1]:
        raise InputError(f"{wrong[0]} rollouts per prompt: give at least 1")
    joined = {group: Curve.joined([run.where(run.x > 0) for run in runs]) for group, runs in sorted(curves.items())}
    ends = [float(curve.x[end]) for curve in joined.values() if curve.x.size for end in (0, -1)]
    compute = np.geomspace(min(ends, default=1.0), max(ends, default=1.0), _GRID)
    scores, notes = {}, []
    for group, curve in joined.items():
        try:
            scores[group] = _reachable(curve, compute, group)
        except CannotTellError as reason:
            notes.append(f"n = {group} left out: {reason}")
    if len(scores) < 2:
        raise CannotTellError(f"{len(scores)} values of n can be fitted, the best n needs 2: {'; '.join(notes)}")
    logs = np.log2(np.array(list(scores), dtype=float))
    labels = logs[np.stack(list(scores.values())).argmax(axis=0)]
    return _group_law(np.log10(compute), labels, logs, tuple(notes))


def _reachable(curve: Curve, compute: Vector, group: int) -> Vector:
    """Return draws of the score at each compute, −∞ before the first point and constant after the last."""
    draws = draw_sigmoid(curve).series[""](np.minimum(compute, curve.x[-1]))
    # Draws of different n must not go together, as those of one random sequence may.
    chosen = np.random.default_rng(group).choice(len(draws), _DRAWS)
    # The grid's end points are computed, so the first one may miss the first point by a rounding error.
    return np.where(compute >= curve.x[0] * (1 - 1e-9), draws[chosen], -np.inf)


def _group_law(log_compute: Vector, labels: Vector, logs: Vector, notes: tuple[str, ...]) -> LawDraws:
    """Fit the law to each draw's labels, the best cell of a grid of (k, c0)."""
    kernel = np.ones(round(_SMOOTHING * _GRID))
    there = np.convolve(np.ones(_GRID), kernel, mode="same")
    smooth = np.stack([np.convolve(each, kernel, mode="same") / there for each in labels])
    cells = np.meshgrid(np.geomspace(*_STEEPNESS), np.linspace(log_compute[0], log_compute[-1], _MIDPOINTS))
    steepness, midpoints = (axis.ravel() for axis in cells)
    gained = expit(steepness[:, None] * (log_compute - midpoints[:, None]))
    basis = np.stack([1 - gained, gained], axis=-1)  # of the floor, and of the ceiling
    gram = np.einsum("gxc,gxd->gcd", basis, basis)
    along = np.einsum("gxc,dx->gcd", basis, smooth, optimize=True)
    levels = np.clip(np.linalg.pinv(gram, hermitian=True) @ along, logs.min() - _BEYOND, logs.max() + _BEYOND)
    squares = np.einsum("gcd,gce,ged->gd", levels, gram, levels, optimize=True) - 2 * (levels * along).sum(axis=1)
    best = squares.argmin(axis=0)
    floor, ceiling = levels[best, :, np.arange(len(labels))].T

    def best_log(log_x: Vector) -> Vector:
        share = expit(steepness[best, None] * (log_x - midpoints[best, None]))
        return np.asarray(floor[:, None] * (1 - share) + ceiling[:, None] * share)

    law = {"L": ceiling - floor, "k": steepness[best], "c0": midpoints[best], "b": floor}
    noise = float(np.sqrt(np.mean((smooth - best_log(log_compute)) ** 2)))
    doubts = _group_doubts(labels, law["c0"], log_compute)
    return LawDraws(law, {"n*": lambda x: np.exp2(best_log(np.log10(x)))}, noise, doubts, notes)


def _group_doubts(labels: Vector, midpoint: Vector, log_compute: Vector) -> tuple[str, ...]:
    constant = np.ptp(labels, axis=1) == 0
    if constant.mean() > _MOST_WITHOUT_CHANGE:
        values, counts = np.unique(labels[constant], return_counts=True)
        likeliest = 2 ** values[counts.argmax()]
        return (
            f"the best n may be the same at every compute (P = {constant.mean():.2f}, then likeliest "
            f"n = {likeliest:.0f}); add runs of other n, or of more compute",
        )
    low, high = np.quantile(midpoint[~constant], (0.05, 0.95))
    if high - low > (log_compute[-1] - log_compute[0]) / 2:
        return (f"where the best n changes may be anywhere from 10^{low:.2f} to 10^{high:.2f}",)
    return ()


def draw_value_based(rows: Vector) -> LawDraws:
    """Return what D_min, a, α, b and β may be, from rows of (σ, N, D).

    Relative residuals are fitted, since D spans orders of magnitude; so `noise_sd` is relative too.
    """
    if not bool(np.all(rows > 0)):
        raise InputError("σ, N and D hold values that are not above 0: each must be a positive number")
    updates, sizes, data = rows.T
    if data.size < 6 or np.unique(updates).size < 3 or np.unique(sizes).size < 3:
        raise CannotTellError(
            f"{data.size} rows with {np.unique(updates).size} different σ and {np.unique(sizes).size} different N: the "
            "law has five parameters and needs at least 6 rows, 3 different σ and 3 different N"
        )
    unit, sigma, size = float(data.min()), float(updates.min()), float(sizes.min())
    exponents, ends = np.log(np.geomspace(0.2, 3.0, _EXPONENT_STARTS)), np.log(_EXPONENTS)
    problem = Separable(
        basis=_value_basis,
        inputs=np.stack([np.log(updates / sigma), np.log(sizes / size), np.log(data / unit)], axis=-1),
        y=np.ones_like(data),
        starts=np.stack(np.meshgrid(exponents, exponents), axis=-1).reshape(-1, 2),
        bounds=(np.array([ends[0], ends[0], 1e-9, 0.0, 0.0]), np.array([ends[1], ends[1], *[_LARGEST_TERM] * 3])),
    )
    drawn = problem.draw(np.arange(data.size))  # each row is a run of its own
    alpha, beta = np.exp(drawn.points[:, :2]).T
    least, by_updates, by_size = drawn.points[:, 2:].T
    law = {
        "D_min": unit * least,
        "a": sigma * (by_updates / least) ** (1 / alpha),
        "alpha": alpha,
        "b": size * (by_size / least) ** (1 / beta),
        "beta": beta,
    }

    def of_size(parameters: float) -> Callable[[Vector], Vector]:
        place = math.log(parameters / size)
        return lambda x: (
            unit
            * problem.values(
                drawn.points, np.stack([np.log(x / sigma), np.full_like(x, place), np.zeros_like(x)], axis=-1)
            )
        )

    doubts = vague(law, drawn.levels, {"alpha": _EXPONENTS, "beta": _EXPONENTS})
    series = {size_name(each): of_size(float(each)) for each in np.unique(sizes)}
    return LawDraws(law, series, drawn.noise_sd, doubts, levels=drawn.levels)


def _value_basis(theta: Vector, inputs: Vector) -> Vector:
    """Return the three terms of the sum at each triple, divided by its own D."""
    by_updates, by_size = (-np.exp(theta[:, which, None]) * inputs[:, which] for which in (0, 1))
    return np.exp(np.stack([np.zeros_like(by_updates), by_updates, by_size], axis=-1) - inputs[:, 2, None])
