"""What `rlplan launch --print skypilot|kuberay` prints: a file that asks for the machines of a final run."""

from pathlib import Path

from planner.adopting.starting import starters
from planner.store import open_store
from planner.store.engine import locate
from rlplan.reading.rank_reading import ranking
from rlplan.reading.starting import by_hand
from runner.clusters.manifest import CPUS_PER_GPU, Manifest, text_of
from runner.sweep.planned import CPU, nodes_of


def cluster_file(database: str, name: str | None, cluster: str, row: int | None) -> str:
    """Return the file for a row of a plan, or for what a sweep recommends; another row of a sweep is named by sizes."""
    of, chosen = ranking(database, name), by_hand(database, name, starters()[0], row or 1).row
    with open_store(database, read_only=True) as store:
        plan = store.plan(of.plan)
    gpu, gpus = str(plan.hardware["gpu"]), int(plan.hardware["gpus_per_trial"])
    nodes = nodes_of(plan, gpus)
    sizes = f"n={chosen.rollouts_per_prompt},B={chosen.prompts_per_batch}"
    flags = ("--row", str(chosen.rank)) if of.sweep is None else ("--allocation", sizes) if row else ()
    return text_of(
        Manifest(
            what=f"{of.sweep or of.plan}, row {chosen.rank}: {sizes}, {chosen.update_steps:,} steps on {gpus} {gpu}",
            name=of.sweep or of.plan,
            command=("rlplan", "launch", of.sweep or of.plan, *flags),
            nodes=nodes,
            gpu=None if gpu == CPU else gpu,
            gpus_per_node=gpus // nodes,
            cpus_per_node=gpus // nodes * (1 if gpu == CPU else CPUS_PER_GPU),
            server=not isinstance(locate(database), Path),
        ),
        cluster,
    )
