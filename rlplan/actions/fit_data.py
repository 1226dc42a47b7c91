"""Fitted curves as plain data: for JSON and for CSV."""

from dataclasses import asdict
from typing import Any

from rlplan.actions.fitting import Fits, FittedCurve


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
