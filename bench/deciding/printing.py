"""Tables for the terminal and the same as data."""

from collections.abc import Iterator, Sequence
from typing import Any

from bench.deciding.outcomes import Method, Outcome
from bench.deciding.statistics import BEYOND_NOISE, Estimate, Results

BAR = 1 / 3


def report(outcomes: Sequence[Outcome], ours: str, shares: Sequence[float]) -> dict[str, Any]:
    """Print everything, and return it as what JSON can hold."""
    groups = sorted({one.group for one in outcomes})
    documents = {}
    for group in [*groups, *(["all"] if len(groups) > 1 else [])]:
        own = [one for one in outcomes if group in (one.group, "all")]
        documents[group] = _group(group, Results(own, ours), shares)
    documents["per table"] = _tables(outcomes, ours, shares)
    return documents


def _group(group: str, results: Results, shares: Sequence[float]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for workers in results.workers:
        print(f"\n{group}, {workers} worker{'s' if workers > 1 else ''}: mean regret ± standard error")
        print(_line("share of the full grid's cost", [f"{share:.3g}" for share in shares]))
        document[f"workers={workers}"] = {
            "regret": dict(_methods(results, workers, shares)),
            "needed": _needed(results, workers, shares),
            "against_random": _random(results, workers, shares),
        }
    return document


def _methods(results: Results, workers: int, shares: Sequence[float]) -> Iterator[tuple[str, Any]]:
    rows = []
    first = [results.ours]
    for name in [*first, *results.peers]:
        settings = {share: results.best_settings(name, workers, share) for share in shares}
        found = {
            share: (one, results.regret(one, workers, share)) for share, one in settings.items() if one is not None
        }
        if found:
            rows.append((name, found))
    place = sum(name in first for name, _ in rows)
    rows[place:] = sorted(
        rows[place:], key=lambda row: sum(estimate.mean for _, estimate in row[1].values()) / len(row[1])
    )
    for name, found in rows:
        cells = [_told(found[share][1]) if share in found else "-" for share in shares]
        counts = {estimate.count for _, estimate in found.values()}
        print(_line(name, [*cells, f"({min(counts)} plays)"]))
        yield (
            name,
            {
                f"{share:g}": {"settings": f"{one.reach} {one.rule}".strip(), **_data(estimate)}
                for share, (one, estimate) in found.items()
            },
        )


def _needed(results: Results, workers: int, shares: Sequence[float]) -> list[dict[str, Any]]:
    print("GPU-hours that ours needs for the regret of the best peer, as a share of the peer's (bar: 0.33)")
    rows = []
    for share in shares:
        peer = results.best_peer(workers, share)
        if peer is None or not results.shares(results.ours):
            continue
        estimate = results.regret(peer, workers, share)
        needed, sign = results.needed(workers, estimate.mean)
        ratio = needed / share
        direct = _at_a_third(results, workers, share, peer)
        met = ratio <= BAR * (1 + 1e-9) and sign != ">"
        print(
            f"  at {share:>5.3g}: {peer} {_told(estimate)}; ours with {sign}{ratio:.2f} of that, "
            f"{'met' if met else 'NOT met'}{direct[0]}"
        )
        rows.append(
            {
                "share": share,
                "peer": str(peer),
                **_data(estimate),
                "ratio": ratio,
                "sign": sign,
                "met": met,
                **direct[1],
            }
        )
    return rows


def _at_a_third(results: Results, workers: int, share: float, peer: Method) -> tuple[str, dict[str, Any]]:
    """Compare ours at a third of the budget with the peer, pair by pair, where ours was played there."""
    thirds = [spent for spent in results.shares(results.ours) if abs(spent / share - BAR) < 0.01]
    ours = results.best_settings(results.ours, workers, thirds[0]) if thirds else None
    if ours is None:
        return "", {}
    paired = results.difference((ours, thirds[0]), (peer, share), workers)
    return (
        f"; ours at a third − peer {paired.mean:+.4f} ± {paired.error:.4f} (over tables ± {paired.over_tables:.4f})",
        {"at_a_third": _data(paired)},
    )


def _random(results: Results, workers: int, shares: Sequence[float]) -> list[dict[str, Any]]:
    rows = []
    for share in shares:
        found = results.against_random(workers, share)
        if found is not None:
            worse = found.mean > BEYOND_NOISE * found.error
            rows.append({"share": share, **_data(found), "worse": worse})
    if rows:
        told = ", ".join(f"{row['share']:g}: {row['mean']:+.4f} ± {row['error']:.4f}" for row in rows)
        verdict = "worse than random somewhere" if any(row["worse"] for row in rows) else "never worse than random"
        print(f"ours − random (its best settings): {told}: {verdict}")
    return rows


def _tables(outcomes: Sequence[Outcome], ours: str, shares: Sequence[float]) -> dict[str, Any]:
    """Print ours and the best peer for each table by itself, and where ours is worse than random."""
    document: dict[str, Any] = {}
    print(f"\ntable by table: ours / best peer at {', '.join(f'{share:g}' for share in shares)}; ! worse than random")
    for table in sorted({one.table for one in outcomes}):
        here = [one for one in outcomes if one.table == table]
        results = Results(here, ours)
        for workers in results.workers:
            cells, rows = [], []
            for share in shares:
                mine, peer = results.best_settings(results.ours, workers, share), results.best_peer(workers, share)
                if mine is None or peer is None:
                    continue
                own, other = results.regret(mine, workers, share), results.regret(peer, workers, share)
                random = results.against_random(workers, share)
                worse = random is not None and random.mean > BEYOND_NOISE * random.error
                cells.append(f"{own.mean:.3f}/{other.mean:.3f}{'!' if worse else ' '}")
                rows.append(
                    {"share": share, "ours": _data(own), "peer": str(peer), "theirs": _data(other), "worse": worse}
                )
            print(_line(f"{table}, {workers}", cells))
            document[f"{table}, workers={workers}"] = rows
    return document


def _told(estimate: Estimate) -> str:
    return f"{estimate.mean:.4f}±{estimate.error:.4f}"


def _data(estimate: Estimate) -> dict[str, float]:
    return {"mean": estimate.mean, "error": estimate.error, "count": estimate.count}


def _line(name: str, cells: Sequence[str]) -> str:
    return f"  {name:<32}" + "".join(f"{cell:>15}" for cell in cells)
