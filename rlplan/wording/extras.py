"""Which packages the light installation leaves out, and what brings them."""

from importlib.util import find_spec

EXTRAS = {
    "sweep": ("ray", "torch", "transformers", "safetensors", "math_verify", "optuna"),
    "dashboard": ("fastapi", "uvicorn", "itsdangerous"),
    "tensorboard": ("tensorboard",),
}


def extra_with(module: str | None) -> str | None:
    """Say what to install for a module that is missing; None of one that no extra has."""
    package = (module or "").partition(".")[0]
    extra = next((name for name, packages in EXTRAS.items() if package in packages), None)
    return extra and f"this needs {package}, which is not installed: pip install 'rlplan[{extra}]'"


def lacking_for_sweeps(*, ours: bool) -> str | None:
    """Say what a sweep lacks before anything of it is stored: Ray, and torch where the trainer is ours."""
    needed = ("ray", *(("torch", "transformers") if ours else ()))
    missing = next((each for each in needed if find_spec(each) is None), None)
    return None if missing is None else extra_with(missing)
