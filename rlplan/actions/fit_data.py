"""Fitted curves as plain data: for JSON and for CSV."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rlplan.actions.fitting import Fits, FittedCurve

if TYPE_CHECKING:
    from planner.curves.comparison import Comparison
    from rlplan.actions.law_fitting import FittedLaw, LawFits


def fits_data(fits: Fits) -> dict[str, Any]:
    """Return the document that `fit --format json` prints."""
    return {"curves": [curve_data(curve) for curve in fits.curves]}


def curve_data(curve: FittedCurve) -> dict[str, Any]:
    """Return one curve as the contract names its fields, and what explains them."""
    fit = curve.fit
    return {
        "curve": fit.curve,
        "file": str(curve.file),
        "x": curve.whole.x_name,
        "y": curve.whole.y_name,
        "points": int(curve.whole.x.size),
        "used_points": fit.used_points,
        "last_used_x": float(curve.used.x[-1]),
        "cut": curve.cut,
        "verdict": fit.verdict.value,
        "evidence": fit.evidence,
        "parameters": {name: asdict(interval) for name, interval in fit.parameters.items()},
        "noise_sd": fit.noise_sd,
        "now": asdict(curve.now),
        "predictions": [
            asdict(prediction) | ({} if observed is None else {"observed": observed})
            for prediction, observed in zip(fit.predictions, curve.observed, strict=True)
        ],
        "fit_ms": curve.fit_ms,
        "notes": list(fit.notes),
    }


def csv_rows(fits: Fits) -> list[dict[str, Any]]:
    """Return one flat row for each prediction of each curve."""
    rows = []
    for curve in fits.curves:
        row = curve_data(curve)
        row["x_column"], row["y_column"] = row.pop("x"), row.pop("y")
        predictions, parameters, now = row.pop("predictions"), row.pop("parameters"), row.pop("now")
        notes = "; ".join(row.pop("notes"))
        row |= {f"{name}_{part}": value for name, parts in parameters.items() for part, value in parts.items()}
        row |= {"now": now["mean"], "now_low": now["low"], "now_high": now["high"]}
        for prediction in predictions:
            rows.append(row | {"observed": None} | prediction | {"notes": notes})
    return rows


def laws_data(fits: "LawFits") -> dict[str, Any]:
    """Return the document that `fit --law --format json` prints."""
    return {"law": fits.law.value, "level": fits.level, "fits": [law_data(each, fits.level) for each in fits.fits]}


def law_data(fitted: "FittedLaw", level: float) -> dict[str, Any]:
    """Return one fit of a law; `identified` is false where the table cannot tell, and `evidence` says why."""
    fit = fitted.fit
    return {
        "name": fit.name,
        "file": str(fitted.file),
        "points": sum(int(curve.x.size) for curve in fit.points.values()),
        "identified": fit.identified,
        "evidence": list(fit.doubts),
        "parameters": {name: asdict(interval) for name, interval in fit.parameters(level).items()},
        "noise_sd": None if fit.draws is None else fit.draws.noise_sd,
        "predictions": [asdict(prediction) for prediction in fitted.predictions],
        "notes": list(fit.notes),
    }


def law_rows(fits: "LawFits") -> list[dict[str, Any]]:
    """Return a row for each parameter and each prediction of each fit."""
    rows = []
    for fitted in fits.fits:
        of = {"law": fits.law.value, "name": fitted.fit.name, "identified": str(fitted.fit.identified).lower()}
        parameters = fitted.fit.parameters(fits.level).items()
        rows += [of | {"what": name, "x": None} | asdict(interval) for name, interval in parameters]
        for prediction in fitted.predictions:
            row = asdict(prediction)
            rows.append(of | {"what": f"prediction {row.pop('series')}".rstrip()} | row)
        if fitted.fit.draws is None:
            rows.append(of | dict.fromkeys(("what", "x", "median", "low", "high")))
    return [row | {"level": fits.level} for row in rows]


def comparison_data(comparison: "Comparison") -> dict[str, Any]:
    """Return the document that `compare --format json` prints."""
    return asdict(comparison) | {"notes": list(comparison.notes), "recipes": [asdict(r) for r in comparison.recipes]}


def comparison_rows(comparison: "Comparison") -> list[dict[str, Any]]:
    """Return a flat row for each recipe."""
    rows = []
    for recipe in comparison.recipes:
        row = asdict(recipe)
        parts = {name: row.pop(name) for name in ("A", "B", "C_mid")}
        rows.append(row | {f"{name}_{part}": each for name, values in parts.items() for part, each in values.items()})
    return rows
