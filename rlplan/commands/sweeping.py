"""`rlplan sweep` runs the pilots of a plan, `launch` its final run; the others say how these go on."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from rlplan.requests import options
from rlplan.requests.completing import plans_and_sweeps, tasks, trials
from rlplan.wording.formats import DEFAULT_DATABASE, Format
from runner.clusters.manifest import CLUSTERS


def sweep(
    context: typer.Context,
    plan: options.PlanArgument = None,
    task: Annotated[
        str | None,
        typer.Option(
            help="Propose for an embedded task on this machine's CPU first, then run that.", autocompletion=tasks
        ),
    ] = None,
    budget: Annotated[
        float | None, options.money("--budget", "Propose for these GPU-hours first, then run that.")
    ] = None,
    recipes: options.RecipesOption = None,
    models: options.ModelsOption = None,
    pilot_fraction: options.PilotFractionOption = None,
    pilot_gpus: options.PilotGpusOption = None,
    config: options.ConfigOption = None,
    policy: options.PolicyOption = "rlplan",
    search: Annotated[
        str | None,
        typer.Option(
            metavar="tpe|gp|qmc|none",
            help="Which of Optuna's samplers names cells without a pilot; none: the policy itself.",
        ),
    ] = None,
    seed: options.SeedOption = 0,
    workers: options.WorkersOption = None,
    ray_address: options.RayAddressOption = None,
    folder: Annotated[
        Path | None, typer.Option(metavar="<folder>", help="Checkpoints and logs; on a cluster, shared storage.")
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(metavar="<url>", help="A copy of each trial's checkpoints and points, such as s3://bucket/path."),
    ] = None,
    learn_from: options.LearnFromOption = None,
    retries: Annotated[int, options.whole("--retries", "Times in a row that a lost trial is tried again.")] = 3,
    problems: options.ProblemsOption = None,
    model: options.ModelOption = None,
    reward: options.RewardOption = None,
    validation: options.ValidationOption = None,
    engine: options.EngineOption = None,
    device: options.DeviceOption = None,
    weights: options.WeightsOption = None,
    micro_batch_tokens: options.MicroBatchOption = None,
    trainer: options.TrainerOption = None,
    script: Annotated[
        Path | None,
        typer.Option("--from", metavar="<script>", help="What starts verl already: what the plan leaves open is kept."),
    ] = None,
    approximate: options.ApproximateOption = False,
    rehearse: Annotated[
        bool, typer.Option("--rehearse", help="Try cluster, folder and trainer for a minute, and spend nothing.")
    ] = False,
    slurm: options.SlurmOption = False,
    sbatch: options.SbatchOption = None,
    dry_run: options.DryRunOption = False,
    db: options.DatabaseOption = DEFAULT_DATABASE,
    format: options.FormatOption = Format.TABLE,
) -> int:
    """Run the pilots of a plan and recommend an allocation; Ctrl-C saves the state, `rlplan resume` goes on.

    Example: rlplan sweep --task sum-easy --budget 0.03
    """
    asked = dict(locals())
    from rlplan.actions.sweep_request import SweepRequest, describe  # noqa: PLC0415
    from rlplan.actions.sweeping import start  # noqa: PLC0415
    from rlplan.live.sweep_running import run_sweep  # noqa: PLC0415
    from rlplan.printing.sweep_output import print_dry_run  # noqa: PLC0415

    request = SweepRequest.of(asked)
    if _rehearses(rehearse, slurm, sbatch, dry_run):
        from rlplan.actions.rehearsing import rehearse as tried  # noqa: PLC0415
        from rlplan.printing.doctor_output import print_rehearsal  # noqa: PLC0415

        return print_rehearsal(tried(request, db), format)
    if _for_slurm(slurm, sbatch, ray_address):
        from rlplan.actions.submitting import submit_new  # noqa: PLC0415
        from rlplan.printing.submitted_output import print_submitted  # noqa: PLC0415

        return print_submitted(submit_new(request, db, sbatch=sbatch or (), write_only=dry_run), db, format)
    if dry_run:
        print_dry_run(describe(request, db), format, options.invocation(context, db, explain=False))
        return 0
    return run_sweep(partial(start, request, db), db, format)


def resume(
    sweep: options.SweepArgument = None,
    accept_changes: options.AcceptOption = False,
    folder: options.OwnFolderOption = None,
    ray_address: options.RayAddressOption = None,
    workers: options.WorkersOption = None,
    wait: Annotated[float, options.plain("--wait", "Seconds to wait for another driver to let go of it.")] = 0.0,
    slurm: options.SlurmOption = False,
    sbatch: options.SbatchOption = None,
    dry_run: options.JobOnlyOption = False,
    db: options.DatabaseOption = DEFAULT_DATABASE,
    format: options.FormatOption = Format.TABLE,
) -> int:
    """Go on with a sweep after any interruption or pause: the plan minus what is finished. Failed trials stay failed.

    Example: rlplan resume sweep-1
    """
    changes: dict[str, Any] = {"accept_changes": accept_changes, "folder": folder}
    changes |= {"ray_address": ray_address, "workers": workers}
    if _for_slurm(slurm, sbatch, ray_address, dry_run, wait):
        return _submitted(sweep, changes | {"sbatch": sbatch or (), "write_only": dry_run}, db, format)
    if wait:
        changes["wait"] = wait
    else:
        from rlplan.actions.asking import let_go_on  # noqa: PLC0415

        asked = let_go_on(db, sweep, {f"--{name.replace('_', '-')}": value for name, value in changes.items()})
        if asked is not None:
            from rlplan.printing.sweep_output import print_asked  # noqa: PLC0415

            return print_asked(asked, db, format)
    from rlplan.actions.sweeping import resume as go_on  # noqa: PLC0415
    from rlplan.live.sweep_running import run_sweep  # noqa: PLC0415

    return run_sweep(partial(go_on, sweep, db, **changes), db, format)


def retry(
    sweep: options.SweepArgument = None,
    trial: Annotated[
        list[str] | None,
        typer.Option(metavar="<name>", help="A failed trial; may be repeated. All without it.", autocompletion=trials),
    ] = None,
    accept_changes: options.AcceptOption = False,
    folder: options.OwnFolderOption = None,
    ray_address: options.RayAddressOption = None,
    workers: options.WorkersOption = None,
    slurm: options.SlurmOption = False,
    sbatch: options.SbatchOption = None,
    dry_run: options.JobOnlyOption = False,
    db: options.DatabaseOption = DEFAULT_DATABASE,
    format: options.FormatOption = Format.TABLE,
) -> int:
    """Run the failed trials of a sweep again, and go on with the rest of it.

    Example: rlplan retry sweep-1 --trial n512-B32-s0
    """
    changes: dict[str, Any] = {"accept_changes": accept_changes, "folder": folder}
    changes |= {"ray_address": ray_address, "workers": workers}
    if _for_slurm(slurm, sbatch, ray_address, dry_run):
        changes |= {"sbatch": sbatch or (), "write_only": dry_run, "again": tuple(trial or ())}
        return _submitted(sweep, changes, db, format)
    from rlplan.actions.sweeping import retry as run_again  # noqa: PLC0415
    from rlplan.live.sweep_running import run_sweep  # noqa: PLC0415

    return run_sweep(partial(run_again, sweep, db, trials=tuple(trial or ()), **changes), db, format)


def pause(
    sweep: options.SweepArgument = None,
    db: options.DatabaseOption = DEFAULT_DATABASE,
    format: options.FormatOption = Format.TABLE,
) -> int:
    """Pause a running sweep: segments under way end, no new one starts, idle workers go; `rlplan resume` goes on.

    Example: rlplan pause sweep-1
    """
    return _asked("pause", sweep, db, format)


def stop(
    sweep: options.SweepArgument = None,
    db: options.DatabaseOption = DEFAULT_DATABASE,
    format: options.FormatOption = Format.TABLE,
) -> int:
    """Stop a running sweep as its Ctrl-C does: updates under way end, all is saved; `rlplan resume` goes on.

    Example: rlplan stop sweep-1
    """
    return _asked("stop", sweep, db, format)


def launch(
    context: typer.Context,
    sweep: Annotated[
        str | None,
        typer.Argument(
            metavar="sweep|plan",
            help="A sweep; the newest without it. Or a plan, whose first row is run without pilots.",
            autocompletion=plans_and_sweeps,
        ),
    ] = None,
    allocation: Annotated[
        str | None, typer.Option(metavar="n=<int>,B=<int>", help="Another allocation than the recommended one.")
    ] = None,
    validations: Annotated[
        int, options.whole("--validations", "Times that it is scored, each with a checkpoint.")
    ] = 40,
    stop_when_won: Annotated[
        bool, typer.Option("--stop-when-won", help="End it where nothing is left to win, and keep the rest.")
    ] = False,
    switch: Annotated[
        bool, typer.Option("--switch", help="End the final run that there is, and run what promises more now.")
    ] = False,
    from_best: Annotated[
        bool, typer.Option("--from-best", help="End the final run that there is, and go on from its best checkpoint.")
    ] = False,
    learning_rate: Annotated[
        float | None, options.plain("--learning-rate", "With --from-best: the rate from there on.")
    ] = None,
    ray_address: options.RayAddressOption = None,
    rehearse: Annotated[
        bool, typer.Option("--rehearse", help="Try cluster, folder and trainer for a minute, and spend nothing.")
    ] = False,
    print_for: options.PrintForOption = None,
    row: Annotated[
        int | None, options.whole("--row", "Of a plan, or with --print: as `rlplan rank` numbers it; 1.")
    ] = None,
    trainer: options.TrainerOption = None,
    problems: options.ProblemsOption = None,
    model: options.ModelOption = None,
    reward: options.RewardOption = None,
    validation: options.ValidationOption = None,
    approximate: options.ApproximateOption = False,
    slurm: options.SlurmOption = False,
    sbatch: options.SbatchOption = None,
    dry_run: options.DryRunOption = False,
    db: options.DatabaseOption = DEFAULT_DATABASE,
    format: options.FormatOption = Format.TABLE,
) -> int:
    """Run what a sweep recommends, or a plan's row, held against its promise; Ctrl-C saves, `rlplan resume` goes on.

    Exit code 5 when it ended and a warning stands. Example: rlplan launch sweep-1 --stop-when-won
    """
    own: dict[str, Any] = {"trainer": trainer, "problems": problems, "model": model, "reward": reward}
    own |= {"validation": validation, "approximate": approximate or None}
    own = {name: value for name, value in own.items() if value is not None}
    if print_for in CLUSTERS:
        from rlplan.actions.cluster_files import cluster_file  # noqa: PLC0415
        from rlplan.printing.by_hand_output import print_cluster_file  # noqa: PLC0415

        print_cluster_file(print_for, cluster_file(db, sweep, print_for, row), format)
        return 0
    if print_for is not None:
        from rlplan.printing.by_hand_output import print_by_hand  # noqa: PLC0415
        from rlplan.reading.starting import by_hand  # noqa: PLC0415

        print_by_hand(by_hand(db, sweep, print_for, row or 1), format)
        return 0
    from rlplan.actions.launching import LaunchRequest, describe  # noqa: PLC0415
    from rlplan.actions.launching import launch as run  # noqa: PLC0415
    from rlplan.actions.sweep_request import SweepRequest  # noqa: PLC0415
    from rlplan.live.sweep_running import run_sweep  # noqa: PLC0415
    from rlplan.printing.final_output import print_planned  # noqa: PLC0415

    request = LaunchRequest(
        sweep=sweep,
        allocation=allocation,
        validations=validations,
        stop_when_won=stop_when_won,
        switch=switch,
        ray_address=ray_address,
        from_best=from_best,
        learning_rate=learning_rate,
        row=row,
        training=SweepRequest.of(own | {"ray_address": ray_address}) if own else None,
    )
    if _rehearses(rehearse, slurm, sbatch, dry_run):
        from rlplan.actions.rehearsing import rehearse_final  # noqa: PLC0415
        from rlplan.printing.doctor_output import print_rehearsal  # noqa: PLC0415

        return print_rehearsal(rehearse_final(request, db), format)
    if _for_slurm(slurm, sbatch, ray_address):
        from rlplan.actions.submitting import submit_final  # noqa: PLC0415
        from rlplan.printing.submitted_output import print_submitted  # noqa: PLC0415

        return print_submitted(submit_final(request, db, sbatch=sbatch or (), write_only=dry_run), db, format)
    if dry_run:
        return print_planned(describe(request, db), format, options.invocation(context, db, explain=False))
    return run_sweep(partial(run, request, db), db, format)


def _rehearses(rehearse: bool, slurm: bool, sbatch: list[str] | None, dry_run: bool) -> bool:
    """Whether it is only to be tried; refused beside what would do something else."""
    from budgets.errors import InputError  # noqa: PLC0415

    if rehearse and (slurm or sbatch or dry_run):
        raise InputError("--rehearse tries it here and now: leave out --slurm, --sbatch and --dry-run")
    return rehearse


def _for_slurm(
    slurm: bool, sbatch: list[str] | None, ray_address: str | None, dry_run: bool = False, wait: float = 0.0
) -> bool:
    """Whether a job is to be submitted; refused is what makes no sense with it, or without it."""
    from budgets.errors import InputError  # noqa: PLC0415

    if not slurm and (sbatch or dry_run):
        raise InputError(f"{'--sbatch' if sbatch else '--dry-run'} is about a job: give --slurm too")
    if slurm and wait:
        raise InputError("--wait is for a driver here; a job waits for the one before by itself: leave it out")
    if slurm and ray_address is not None:
        raise InputError(
            f"--slurm and --ray-address {ray_address} are both given: a job starts a Ray of its own; leave one out"
        )
    return slurm


def _submitted(sweep: str | None, given: dict[str, Any], db: str, format: Format) -> int:
    from rlplan.actions.submitting import submit_stored  # noqa: PLC0415
    from rlplan.printing.submitted_output import print_submitted  # noqa: PLC0415

    del given["ray_address"]
    return print_submitted(submit_stored(sweep, db, **given), db, format)


def _asked(kind: str, sweep: str | None, db: str, format: Format) -> int:
    from planner.store.schema import RequestKind  # noqa: PLC0415
    from rlplan.actions.asking import ask  # noqa: PLC0415
    from rlplan.printing.sweep_output import print_asked  # noqa: PLC0415

    return print_asked(ask(db, sweep, RequestKind(kind)), db, format)
