"""The screen of `rlplan check`: red flags, the run in nine lines, and what would help most."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace

from budgets.workload import Turns
from planner.axes import named_configuration
from planner.metrics import EQUIVALENCE_MARGIN
from planner.percent import chance, percent
from planner.price.step import Interval
from planner.rules import USUAL
from planner.scripts.changes import WRITABLE, Improvement
from planner.scripts.verdict import Memory, Verdict
from planner.view import Configuration
from rlplan.actions.script_check import CheckedScript
from rlplan.wording.assumptions import ASSUMPTIONS
from rlplan.wording.numbers import duration, hours, interval, plural, rate
from rlplan.wording.screen import Canvas, Cells, Column, Invocation, NextStep, Part, next_steps, one_screen, table_of

GB = 1e9
Row = tuple[str, str]
USUAL_BUDGET, MOST_HOURS = "5000", 1e5  # GPU-hours of a plan where the run's are not known, or beyond any budget
PLANNED = (  # flags that a plan has too
    *("--model", "--gpu", "--gpus", "--response-tokens", "--mean-response-tokens", "--prompts", "--pass-rate"),
    *("--pass-rates-file", "--difficulty", "--config", "--task"),
)
DECISIVE = ("rollouts_per_prompt", "prompts_per_batch", "learning_rate", "gpus", "response_tokens")


def drawn_check(script: CheckedScript, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    """Draw the answer; where a screen is too short for it, facts, then changes are left to --explain, and counted."""
    rows, changes, above = rows_of(script), script.checked.improvements, [*_title(script, canvas), ""]
    below = list(_below(script, canvas))
    if invocation.explain:
        rows.append(("By part", part_line(script.checked.verdict.memory)))
        assumed = table_of(script.assumptions, ASSUMPTIONS, canvas, headed=False)
        below += ["", canvas.line("What this takes for granted", "bold"), assumed]
    steps = []
    if script.fixed is not None and script.fixed.paths:
        by_stem = {f"{path.stem}.checked{path.suffix}": path for path in script.files}
        copies = {str(by_stem[copy.name]): str(copy) for copy in script.fixed.paths if copy.name in by_stem}
        words = tuple(copies.get(word, word) for word in invocation.words if word not in ("--fix", "--explain"))
        steps.append(replace(invocation, words=words).with_flags("checks the copy"))
    elif script.fixed is None and any(change.name in WRITABLE for change in script.checked.improvements):
        steps.append(invocation.with_flags("writes a copy with these changes", "--fix"))
    if len(script.files) == 1:
        steps.append(_plan(script, invocation))
    if not invocation.explain and len(steps) < 2:  # it is named beside what is left out
        steps.append(invocation.explained("every line, and what they rest on"))
    below += next_steps(steps or [invocation.step("price", "", "prices one step by flags alone")], canvas)

    def within(lines: int) -> Iterator[Part]:
        facts = max(1, lines - len(changes))
        yield table_of(rows[:facts], ROWS, canvas, headed=False)
        yield ""
        if changes:
            yield table_of(changes[: max(1, lines - facts)], CHANGES, canvas)
        else:
            yield canvas.line("No single change would help measurably.")
        hidden = {"fact": len(rows) - facts, "change": len(changes) - max(1, lines - facts)}
        if more := [plural(number, what) for what, number in hidden.items() if number > 0]:
            yield canvas.line(f"{' and '.join(more)} more: --explain.", "dim")

    most = len(rows) + len(changes)
    yield from one_screen(above, within, below, canvas, most if invocation.explain else None, most, fewest=2)


def _plan(script: CheckedScript, invocation: Invocation) -> NextStep:
    """Return the command that makes a plan whose champion is the script, with what flags said of it here."""
    launch, words = script.launch, list(invocation.words)
    flags = [word for flag in PLANNED for word in _with_value(words, flag)]
    if any(word in ("-n", "-B") or word.startswith(("--rollouts-per-prompt", "--prompts-per-batch")) for word in words):
        flags += ["--champion", f"n={launch.rollouts_per_prompt},B={launch.update.prompts_per_batch}"]
    spent = script.checked.gpu_hours or 0
    budget = f"{float(f'{spent:.2g}'):.0f}" if 1 <= spent < MOST_HOURS else USUAL_BUDGET
    line = shlex.join(["--budget", budget, "--from", str(script.files[0]), *flags])
    return invocation.step("propose", line, "plans around this script")


def _with_value(words: Sequence[str], flag: str) -> list[str]:
    """Return a flag with its value as it was typed; nothing where it was not."""
    for place, word in enumerate(words):
        if word == flag:
            return list(words[place : place + 2])
        if word.startswith(f"{flag}="):
            return [word]
    return []


ROWS: Sequence[Column[Row]] = (
    Column("what", lambda row: row[0], Cells.NAMES),
    Column("value", lambda row: row[1], Cells.TEXTS),
)


def _title(script: CheckedScript, canvas: Canvas) -> Iterator[Part]:
    launch, flags = script.launch, script.checked.verdict.flags
    names = ", ".join(path.name for path in script.files)
    trainer = f" ({script.facts.maker})" if script.facts.maker else ""
    machine = f"{launch.hardware.gpus_per_trial} {launch.hardware.gpu.name}"
    sizes = f"n = {launch.rollouts_per_prompt}, B = {launch.prompts_per_batch}"
    yield from canvas.lines(f"{names}{trainer}: {launch.workload.model.name} on {machine}, {sizes}", "bold")
    if not script.checked.verdict.stops:
        yield canvas.line("No red flag.")
    for flag in flags:
        likely = f"? {flag.why} A guess: give {flag.asks}."
        yield from canvas.lines(likely if flag.asks else f"! {flag.why}", "yellow" if flag.asks else "bold red")


def rows_of(script: CheckedScript) -> list[Row]:
    """Return what the launch comes to, the most important first."""
    return [(label, text) for label, text in (*_costs(script), *_training(script.checked.verdict)) if text]


def _costs(script: CheckedScript) -> Iterator[Row]:
    verdict, lengths = script.checked.verdict, script.launch.workload.responses
    yield "Fits" if verdict.memory.fits else "Does not fit", fit_line(verdict.memory)
    whole = sum(phase.median for phase in verdict.price.phases)
    phases = sorted(verdict.price.phases, key=lambda row: -row.median)[:3]
    shares = ", ".join(f"{phase.phase.replace('_', ' ')} {percent(phase.median / whole)}" for phase in phases)
    yield "A batch" if script.launch.updates > 1 else "A step", f"{_between(verdict.step_seconds, ' s')}: {shares}"
    yield "The run", _run(script)
    if (score := script.checked.score) is not None:
        steps, spent = script.checked.budget_steps, hours(script.checked.gpu_hours or 0)
        bought = "" if steps is None else f" after {steps:,} steps ({spent} GPU-hours)"
        yield "Score", f"{interval(score.median, score.low, score.high)} expected{bought}"
    unthinking = ", without thinking" if script.facts.values.get("no_thinking") else ""
    cut = f"{percent(verdict.cut_off)} cut off"
    yield "Responses", f"{lengths.mean:,.0f} of {lengths.cap:,} tokens on average{unthinking}, {cut}"
    if images := script.launch.workload.image_tokens:
        yield "Images", f"{images:,.0f} of the {script.launch.workload.prompt_tokens:,.0f} tokens of a prompt"
    if (turns := script.launch.workload.turns).count > 1:
        yield "Turns", _turns(script, turns)
    pass_rate = script.launch.workload.pass_rates.mean
    yield "Dead groups", f"{percent(verdict.dead_groups)} at a mean pass rate of {pass_rate:.2g}"


def _training(verdict: Verdict) -> Iterator[Row]:
    launch, factor, age = verdict.launch, verdict.rate_factor, plural(verdict.staleness, "update")
    if factor is None:
        yield "Learning rate", f"not given; the rule has {rate(launch.rule_rate)}"
    else:
        times = f"{float(f'{factor:.2g}'):g} × the rule's {rate(launch.rule_rate)}"
        stands = "as the rule has it" if 0.95 < factor < 1.05 else times
        rollouts = launch.update.rollouts_per_step
        yield "Learning rate", f"{rate(launch.learning_rate)}, {stands} for {rollouts:,} rollouts an update"
    if launch.updates > 1:
        size = f"{launch.update.prompts_per_batch:,} prompts"
        yield "Updates", f"{launch.updates} of each batch ({size}), the last on rollouts {age} old"
    else:
        behind = f"rollouts up to {age} old" if verdict.staleness else "on fresh rollouts"
        yield "Updates", f"1 of each batch, {behind}"
    if verdict.visible_difference is None:
        yield "Validation", "none"
    else:
        but = "" if verdict.visible_difference <= EQUIVALENCE_MARGIN else f", not {EQUIVALENCE_MARGIN:g}"
        seen = f"sees differences from {verdict.visible_difference:.2g} on{but}"
        yield "Validation", f"{percent(verdict.validation_share)} of the time, {seen}"
    if launch.save_every is None:
        yield "Checkpoints", "none: a crash loses the run"
    elif verdict.checkpoints is None:
        yield "Checkpoints", f"every {launch.save_every} steps"
    else:
        count, each = verdict.checkpoints
        unused = "; a restart does not resume from them" if launch.resume is False else ""
        aside = ", written beside training" if launch.traits.execution.saves_aside else ""
        yield "Checkpoints", f"{count} of {each / GB:,.0f} GB: {count * each / GB:,.0f} GB on disk{aside}{unused}"


def fit_line(memory: Memory) -> str:
    """Say what training and an engine take."""
    held = f"training {memory.used / GB:,.0f}, an engine {memory.engine / GB:,.0f} of {memory.usable / GB:,.0f} GB"
    if memory.tight:
        if memory.used > memory.usable:
            return f"{held}; it fits where GPUs share a sequence"
        return f"{held}; a micro-batch takes {memory.micro_batch / GB:,.0f} more"
    if memory.fits:
        return f"{held} on each GPU"
    fewest = memory.fewest_gpus
    return f"{held}; {'no number of GPUs does' if fewest is None else f'{fewest} GPUs do, all states sharded'}"


def part_line(memory: Memory) -> str:
    """Say what takes the memory."""
    return ", ".join(f"{name} {size / GB:,.1f}" for name, size in memory.training.items()) + " GB"


def _turns(script: CheckedScript, turns: Turns) -> str:
    """Say how many turns a rollout has, what each writes and reads, and what of a step waits for them."""
    seconds = script.launch.without_tools.priced().seconds[0] * script.launch.traits.updates_per_batch
    of_turn = script.facts.values.get("turn_tokens")
    most = f" of up to {turns.most:,}" if turns.most > 1 else ""
    parts = [f"{round(turns.count, 1):,g}{most}", f"at most {of_turn:,} tokens each" if of_turn else ""]
    parts += [f"tools answer up to {turns.tool_tokens:,.0f}" if turns.tool_tokens else ""]
    return f"{', '.join(filter(None, parts))}; {seconds:,.0f} s a step without {turns.tool_seconds:g} s of tools a turn"


def _between(estimate: Interval, unit: str) -> str:
    median, low, high = map(hours, estimate)
    return f"{median}{unit} ({low}–{high})"


def _run(script: CheckedScript) -> str:
    verdict = script.checked.verdict
    if verdict.hours is None or verdict.gpu_hours is None or script.launch.steps is None:
        epochs = script.facts.values.get("epochs")
        return f"{epochs:g} epochs of an unknown number of prompts" if epochs else "of unknown length"
    epochs = (
        f" ({verdict.epochs:.2g} epoch{'' if f'{verdict.epochs:.2g}' == '1' else 's'})"
        if verdict.epochs is not None
        else ""
    )
    if not script.launch.prompts_known and "epochs" in script.facts.keys:
        epochs = f" or {plural(script.facts.values['epochs'], 'epoch')}"
    dollars = f", ${verdict.dollars:,.0f}" if verdict.dollars is not None and verdict.dollars >= 1 else ""
    wall = duration(verdict.hours[0])
    return f"{script.launch.steps:,} steps{epochs}, {wall}, {_between(verdict.gpu_hours, ' GPU-hours')}{dollars}"


LABELS = {
    "staleness": "asynchronous, lag",
    "rollouts_per_prompt": "n",
    "prompts_per_batch": "B",
    "engine_tensor_parallel": "tensor_parallel",
    "update_rollouts": "mini-batch",
}


def _named(each: Improvement) -> str:
    after: object = rate(each.after) if isinstance(each.after, float) else each.after or "none"
    if each.name == "update_rollouts" and each.verdict.launch.trainer == "verl":
        after = each.after // each.verdict.launch.rollouts_per_prompt  # in prompts, as it has them
    return f"{LABELS.get(each.name, each.name)} = {after}"


CLEARED = {
    "schedule": "the schedule ends with the run",
    "sizes": "the trainer takes it",
    "rate": "the rule's rate",
    "resume": "a crash loses little",
    "saves": "a crash loses little",
    "data": "none without data",
}


def _value(value: object) -> str:
    return rate(value) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _gain(each: Improvement) -> str:
    """Say what a change brings."""
    after, gains = each.verdict, []
    if "memory" in each.cleared:
        gains.append(
            f"fits: {max(after.memory.used, after.memory.engine) / GB:,.0f} of {after.memory.usable / GB:,.0f} GB"
        )
    if "cut" in each.cleared:
        gains.append(f"{percent(after.cut_off)} cut off")
    if "dead" in each.cleared:
        gains.append(f"{percent(after.dead_groups)} dead groups")
    gains += [CLEARED[flag] for flag in each.cleared if flag in CLEARED]
    gain, error = each.score_gain or (0.0, 0.0)
    if gain > error > 0:
        gains.append(f"score {gain:+.2g} (± {error:.2g})")
    if each.saved >= 0.01:
        gains.append(f"{percent(each.saved)} fewer GPU-hours")
    return ", ".join(gains)


RISKS = {
    "response_tokens": "longer sequences to allow for",
    "prompts_per_batch": "fewer updates for the same GPU-hours",
    "learning_rate": "the best rate may lie elsewhere: try both",
    "updates_per_batch": "fewer updates",
    "staleness": "rollouts 1 update old, another split",
    "lora_rank": "divide the learning rate by 10",
    "sharding": "slower on slow links",
    "validation_every": "a fall shows later",
    "schedule_steps": "another rate at the end",
}


def _risk(each: Improvement) -> str:
    """Say what a change costs."""
    after = each.verdict
    if each.name == "gpus":
        return f"a step takes {after.step_seconds[0]:,.0f} s"
    if each.name == "engine_tensor_parallel":
        return "more messages between GPUs" if each.after > each.before else "less room for the cache"
    costs = [f"{1 - each.saved:.2g} × the GPU-hours a step"] if each.saved <= -0.05 else []
    costs += [RISKS[each.name]] if each.name in RISKS else []
    return ", ".join(costs) or "little"


CHANGES: Sequence[Column[Improvement]] = (
    Column("what would help most", _named, Cells.NAMES),
    Column("gain", _gain, Cells.TEXTS),
    Column("risk", _risk, Cells.TEXTS),
)


def _below(script: CheckedScript, canvas: Canvas) -> Iterator[Part]:
    """Return what studies expect, what was guessed, and what was written."""
    if (likely := script.checked.usual_chance) is not None:
        usual = named_configuration(Configuration(*USUAL[0]))
        yield from canvas.lines(
            f"Studies expect more of the usual {usual}: {chance(likely)} likely to end higher. "
            f"`rlplan propose --from {script.files[0].name} --advised` starts with it."
        )
    if script.guessed:
        guesses = ", ".join(f"{text} ({flag})" for text, flag in script.guessed)
        yield from canvas.lines(f"Guessed: {guesses}.", "dim")
    if defaults := [
        f"{LABELS.get(name, name.replace('_', ' '))} = {_value(script.facts.assumed[name])}"
        for name in DECISIVE
        if name in script.facts.assumed
    ]:
        yield from canvas.lines(f"Not in the script, {script.facts.maker}'s own: {', '.join(defaults)}.", "dim")
    if script.facts.unresolved:
        yield from canvas.lines(f"In the script: {'; '.join(script.facts.unresolved)}.", "yellow")
    if (fixed := script.fixed) is not None:
        for path in fixed.paths:
            yield from canvas.lines(f"Written: {path}, with {', '.join(fixed.changed)}.")
        if fixed.by_hand:
            yield from canvas.lines(f"To change by hand: {', '.join(fixed.by_hand)}.")
