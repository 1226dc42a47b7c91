"""The text by which SkyPilot or KubeRay is asked for the machines of a final run, and told to run it."""

import re
import shlex
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from string import Template

CLUSTERS = ("skypilot", "kuberay")
OLDEST_RAY = "2.55.0"  # that rlplan takes, where none is installed here
CPUS_PER_GPU = 8  # that cloud machines with eight GPUs have at least
# SkyPilot's names of accelerators, where they are not ours in capitals.
SKYPILOT = {"a100-40": "A100", "a100-80": "A100-80GB", "a6000": "RTXA6000", "rtx4090": "RTX4090"}


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is run on how many machines."""

    what: str  # in words
    name: str  # of the plan or sweep
    command: tuple[str, ...]
    nodes: int
    gpu: str | None  # None for machines without
    gpus_per_node: int
    cpus_per_node: int
    server: bool  # whether the database is PostgreSQL, whose address stays in the environment


def text_of(manifest: Manifest, cluster: str) -> str:
    """Return the file for one of CLUSTERS."""
    template = Template(files("runner.clusters").joinpath(f"{cluster}.yaml").read_text(encoding="utf-8"))
    resources = _for_skypilot(manifest) if cluster == "skypilot" else _for_kuberay(manifest)
    return template.substitute(
        what=manifest.what,
        name=re.sub(r"[^a-z0-9]+", "-", f"rlplan-{manifest.name}".lower()).strip("-")[:50],
        command=shlex.join(manifest.command),
        nodes=manifest.nodes,
        resources=resources,
        database="\n  RLPLAN_DB: null # sky launch --secret RLPLAN_DB" if manifest.server else "",
        files="rlplan.toml" if manifest.server else "rlplan.db and rlplan.toml",
        package=f"rlplan[{'sweep,postgres' if manifest.server else 'sweep'}]",
        ray=_ray(),
    )


def _for_skypilot(manifest: Manifest) -> str:
    if manifest.gpu is None:
        return f"cpus: {manifest.cpus_per_node}+"
    return f"accelerators: {SKYPILOT.get(manifest.gpu, manifest.gpu.upper())}:{manifest.gpus_per_node}"


def _for_kuberay(manifest: Manifest) -> str:
    cpus = f'cpu: "{manifest.cpus_per_node}"'
    return cpus if manifest.gpu is None else f"{cpus}\n{' ' * 18}nvidia.com/gpu: {manifest.gpus_per_node}"


def _ray() -> str:
    try:
        return version("ray")
    except PackageNotFoundError:
        return OLDEST_RAY
