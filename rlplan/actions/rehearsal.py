"""What `--rehearse` does: tries everything that a sweep or a final run needs, and spends nothing of its budget."""

import shutil
import statistics
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from budgets.errors import InputError, RlplanError
from budgets.hardware import SECONDS_PER_HOUR
from planner.axes import named_configuration
from planner.config.trainer import COMMAND
from planner.store.schema import Candidate, Plan
from planner.view import FINAL_POLICY, Configuration
from rlplan.actions.configuration import load_configuration
from rlplan.actions.final_run import describe
from rlplan.actions.machine import Finding, Health, bad, mind, ok, verdict
from rlplan.actions.sweep_request import machine, plan_meant, spec_of
from rlplan.requests.run import LaunchRequest, SweepRequest
from rlplan.wording.numbers import duration, hours, plural, some_of
from runner.machine import cpu_cores
from runner.ports.trial import TrialConfig
from runner.processes import sweep_orphans, sweep_tag
from runner.rehearsal.node_files import try_folder
from runner.rehearsal.trials import RehearsalOutcome, RehearsalRun, standin_spec, take_first_step
from runner.storage.place import Place
from runner.sweep.plan import shortfall, trial_name
from runner.sweep.plan_rows import configuration_of
from runner.sweep.spec import SweepSpec
from runner.sweep.stand_in import without_gpus
from runner.sweep.tune.executor import RayExecutor
from runner.sweep.tune.placement import Placement
from runner.trainers.catalogue import driver_of
from runner.trainers.driver import Rehearsing

SECONDS = 60.0
SLOW = 50.0  # MB/s, below which saves of a large model take minutes
_AT_ONCE = 4  # trainers that look at a configuration
_NAMED = 3  # trials of which the same is said


def rehearse(request: SweepRequest, seconds: float = SECONDS) -> Iterator[Finding]:
    """Yield what was found, as it is found; nothing is stored."""
    plan = plan_meant(request)
    spec = spec_of(request, plan)  # refused where a trial's configuration is not accepted
    pilots = [row for row in plan.candidates if row.pilot_steps]
    yield ok("plan", f"{plan.name}: {plural(len(pilots), 'trial')}, {spec.workers} at once, {_layout(spec)} each")
    yield from _tried(_Asked(spec, plan, pilots, request.ray_address, seconds, request.config))


def rehearse_final(request: LaunchRequest, seconds: float = SECONDS) -> Iterator[Finding]:
    """Yield what was found of a final run as it would be launched; nothing is stored."""
    planned = describe(request)
    run, spec, candidates = planned.run, planned.spec, planned.plan.candidates
    summary = f"{named_configuration(run.configuration)}, {run.length.steps:,} updates on {_layout(spec)}"
    yield ok("final run", summary)
    sizes = [(row, Configuration(row.rollouts_per_prompt, row.prompts_per_batch, row.axes)) for row in candidates]
    rows = [candidate for candidate, configuration in sizes if configuration == run.configuration]
    yield from _tried(_Asked(spec, planned.plan, rows, request.ray_address, seconds))


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is tried: trials of a sweep, or its final run."""

    spec: SweepSpec
    plan: Plan
    candidates: Sequence[Candidate]
    ray_address: str | None
    seconds: float
    config: Path | str | None = None


def _tried(sweep: _Asked) -> Iterator[Finding]:
    spec = sweep.spec
    yield from _configurations(spec, _trials(spec, sweep.candidates))
    name = f"rehearsal-{uuid.uuid4().hex[:8]}"
    folder, url = Path(spec.folder) / name, spec.storage and f"{spec.storage.rstrip('/')}/{name}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        yield bad("folder", str(folder), f"it cannot be made ({error.strerror or error})", "give another by --folder")
        return
    try:
        obstacles = list(_storage(folder, url, sweep.ray_address))
        yield from obstacles
        if verdict(obstacles) is not Health.BAD:
            yield from _started(sweep, folder / "first-step")
            yield from _played(sweep, folder, url)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if url is not None:
            with suppress(RlplanError):  # what was wrong with it has been said
                place = Place(url)
                place.remove(place.names())
        with suppress(OSError):
            folder.parent.rmdir()  # where nothing else lies


def _trials(spec: SweepSpec, candidates: Sequence[Candidate]) -> dict[str, TrialConfig]:
    rates = {configuration_of(row): row.learning_rate for row in candidates}
    return {trial_name(cell, spec.seed): spec.trial(cell, rate, spec.seed) for cell, rate in rates.items()}


def _configurations(spec: SweepSpec, trials: dict[str, TrialConfig]) -> Iterator[Finding]:
    """Have the trainer itself look at every trial, where it can; our driver has done so already."""
    trainer = spec.training.trainer
    name = "builtin" if trainer is None else trainer.name
    refused: dict[str, list[str]] = {}
    drivers = {trial: driver_of(config) for trial, config in trials.items()} if trainer is not None else {}
    rehearsing = {trial: driver for trial, driver in drivers.items() if isinstance(driver, Rehearsing)}
    with ThreadPoolExecutor(min(_AT_ONCE, cpu_cores())) as pool:  # each waits for an environment to be imported
        answers = pool.map(lambda trial: rehearsing[trial].rehearse(trials[trial]), rehearsing)
        for trial, answer in zip(rehearsing, answers, strict=True):
            for reason in answer:
                refused.setdefault(reason, []).append(trial)
    for reason, names in refused.items():
        yield bad("trainer", name, f"{reason} ({some_of(names, _NAMED)})", "see docs/trainers.md")
    if not refused:
        by = "its program is there, and rlplan's driver" if name == COMMAND else "its own parser"
        by = by if rehearsing else "rlplan's driver of it"
        yield ok(
            "trainer",
            f"{name}: {by} accepts {'the configuration' if len(trials) == 1 else f'all {len(trials)} configurations'}",
        )


def _storage(folder: Path, url: str | None, address: str | None) -> Iterator[Finding]:
    """Try what all machines share: a URL where there is one, for then the folder is each machine's own."""
    place, above = (folder, folder.parent) if url is None else (url, url.rpartition("/")[0])
    remedy = "give a folder by --folder that every machine reaches"
    if url is not None:
        remedy = "every machine needs the package for it, and credentials in its environment"
    try:
        machines = try_folder(place, address)
    except InputError as error:
        yield bad("storage", str(above), str(error), "is the cluster up?")
        return
    for node in machines:
        if node.error:
            yield bad("storage", node.host, node.error, remedy)
    if not (sound := [node for node in machines if not node.error]):
        return
    slowest = min(node.written_per_second or 0.0 for node in sound)
    read = min(node.read_per_second or 0.0 for node in sound)
    who = f"{len(sound)} machines read what another wrote" if len(sound) > 1 else "this machine writes and reads"
    speeds = f"{who} in {above}, {slowest:,.0f} MB/s written and {read:,.0f} MB/s read on the slowest"
    if slowest < SLOW:
        yield mind("storage", speeds, f"100 GB of a checkpoint take {duration(1e5 / slowest / SECONDS_PER_HOUR)}")
    else:
        yield ok("storage", speeds)


def _started(sweep: _Asked, folder: Path) -> Iterator[Finding]:
    """Start the command of a trainer of one's own for one step, on this machine, as its cheapest trial does."""
    spec, trainer = sweep.spec, sweep.spec.training.trainer
    if trainer is None or trainer.name != COMMAND:
        return
    if sweep.ray_address is not None or spec.training.machine.nodes > 1:
        yield mind("command", "not started", "its metrics and checkpoints are tried without --ray-address, on one node")
        return
    trials = _trials(spec, sweep.candidates)
    name, config = min(trials.items(), key=lambda trial: trial[1].rollouts_per_step)
    try:
        stepped = take_first_step(config, folder)
    except RlplanError as error:
        yield bad("command", name, str(error), "mend the trainer's file, or its script: docs/trainers.md")
        return
    score = "no score yet" if stepped.score is None else f"score {stepped.score:.3f}"
    yield ok("command", f"{name}: one step in {stepped.seconds:.0f} s, {score}, saved as {stepped.checkpoint}")


def _played(sweep: _Asked, folder: Path, url: str | None) -> Iterator[Finding]:
    spec, plan, seconds = sweep.spec, sweep.plan, sweep.seconds
    address, nodes = sweep.ray_address, spec.training.machine.nodes
    standing_in = standin_spec(spec, plan.candidates)
    if address is None:
        lacking = shortfall(spec, plan, *machine())
        if lacking:
            yield bad("cluster", "this machine", lacking, "rehearse with --ray-address")
        standing_in = without_gpus(standing_in)
    need, tag = standing_in.resources, sweep_tag(str(folder))
    cluster = load_configuration(sweep.config).config.cluster
    size = need.cpus, need.gpus, standing_in.training.machine.nodes
    executor = RayExecutor(folder, spec.workers, tag, address, *size, cluster.start_seconds, Placement.of(cluster))
    try:
        if address is not None and (lacking := shortfall(spec, plan, *executor.resources().largest(nodes))):
            yield bad("cluster", address, lacking, "join a larger one, or make a plan that fits")
            return
        playing = RehearsalRun(executor, standing_in, _trials(standing_in, sweep.candidates), folder, url)
        played = playing.play(seconds)
        final = _final_run(playing, standing_in, plan, seconds) if address is not None else None
    except RlplanError as error:
        yield bad("cluster", address or "this machine", str(error), "see the log of Ray")
        return
    finally:
        executor.close()
        sweep_orphans(tag)
    yield from _judged(played, spec, plan)
    if final is not None:
        yield final


def _final_run(playing: RehearsalRun, spec: SweepSpec, plan: Plan, seconds: float) -> Finding | None:
    """Place the final run of the plan's first row, where its layout is another than that of the pilots."""
    first = next((row for row in plan.candidates if row.update_steps), None)
    if spec.final_gpus is None or first is None:
        return None
    config = spec.trial(configuration_of(first), first.learning_rate, spec.seed)
    layout = f"{spec.final_gpus} {spec.resources.gpu} on {plural(spec.final_nodes, 'node')}"
    reason = playing.place("final", spec.as_final(config), seconds)
    if reason is None:
        return ok("final run", f"{layout}: placed")
    return bad("final run", layout, reason, "join a larger cluster, or make a plan with fewer --gpus-per-trial")


def _judged(played: RehearsalOutcome, spec: SweepSpec, plan: Plan) -> Iterator[Finding]:
    for trial, reason in played.failures.items():
        yield bad("stand-in", trial, reason, "its trainer would fare no better")
    if played.waiting:
        outcome = f"not through within the minute: {some_of(played.waiting, _NAMED)}"
        yield bad("stand-in", plural(len(played.waiting), "trial"), outcome, "is it busy?")
    if played.trials:
        begin, first = statistics.median(played.begin_seconds), statistics.median(played.first_point_seconds or [0.0])
        yield ok(
            "stand-in",
            f"{plural(len(played.trials), 'trial')} trained, scored and saved; a worker begins {begin:.1f} s after it "
            f"is asked for, and its first score comes {first:.1f} s later",
        )
    if not played.at_once or spec.policy == FINAL_POLICY:
        return
    wall = plan.pilot_gpu_hours / (played.at_once * spec.resources.slots)
    pilots = f"the pilots' {hours(plan.pilot_gpu_hours)} GPU-hours take {duration(wall)}"
    outcome = f"{plural(played.at_once, 'trial')} at once; {pilots}"
    if played.at_once < min(spec.workers, len(played.trials)):
        yield mind("sweep", outcome, f"the plan reckons with {spec.workers} at once")
    else:
        yield ok("sweep", outcome)


def _layout(spec: SweepSpec) -> str:
    need, nodes = spec.resources, spec.training.machine.nodes
    what = f"{need.slots} {need.gpu}" if need.gpus else f"{need.cpus:g} CPU"
    return f"{what} on {nodes} nodes" if nodes > 1 else what
