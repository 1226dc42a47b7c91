"""What the first screen of a plan says of its champion: that it starts, what is tried beside it, what to expect."""

from collections.abc import Iterator

from planner.axes import LEARNING_RATE, MODEL, named_configuration, rate_factor, value_of, without
from planner.percent import chance
from planner.proposals import Candidate, Proposal
from planner.proposals.proposal import ChampionPlan
from planner.view import Configuration
from rlplan.wording.numbers import duration, hours, interval, listing, rate, share, steps

# What exploring costs, as it was measured on recorded tables (docs/concepts/decisions.md).
EXPLORING = (
    "Exploring is for the n × B map. With 10 % for pilots it ended 0.014 ± 0.012 below the usual choice alone, "
    "with the same GPU-hours."
)
LIKELY, UNLIKELY = 0.75, 0.25  # chances of ending above the champion, beyond which a row is not called level with it


def champion_lines(proposal: Proposal, champion: ChampionPlan) -> Iterator[str]:
    """Yield what is started, what is tried beside it, and what to expect."""
    named = _named(champion.row, with_rate=True)
    alone = champion.terms.alone
    pilot = "it has all GPU-hours, and no challengers" if alone else "it is its own pilot"
    models = [str(value_of(candidate.axes, MODEL)) for candidate in champion.terms.candidates]
    if len(models) > 1:
        sizes = named_configuration(champion.row.cell.configuration._replace(axes=()))
        yield f"Race {listing(models)} first, with {sizes}: the one that leads goes on as its own pilot."
    elif champion.source == "script":
        yield f"Start your run, {named}: {pilot}."
    else:
        yield f"Start with {named}: {pilot}."
    if champion.usual_ahead is not None:
        rate_differs = rate_factor(champion.usual.axes) != rate_factor(champion.row.axes)
        likely, usual = chance(champion.usual_ahead.chance), _named(champion.usual, with_rate=rate_differs)
        yield f"Studies expect more of the usual {usual}: {likely} likely higher. --advised starts with it."
    if not alone:
        yield _challengers(proposal, champion)
    yield _expected(proposal, champion.row)
    if not alone:
        alarm, look = share(champion.terms.alarm_share), hours(champion.look_gpu_hours)
        yield f"If its first {look} GPU-hours give alarm, up to {alarm} go into what could mend it."


def _challengers(proposal: Proposal, champion: ChampionPlan) -> str:
    part = share(champion.terms.challenger_share)
    raced = [each.cell.configuration in champion.terms.candidates for each in champion.challengers]
    rows = [each for each, races in zip(champion.challengers, raced, strict=True) if not races]
    if any(raced) and not rows:
        race = hours(sum(each.pilot.gpu_hours for each in champion.challengers))
        return f"The race costs {race} GPU-hours for the models that lose it, of {part} for challengers."
    if not rows:
        return f"No challenger is worth a look today: the {part} for them wait for an alarm."
    rate_differs = any(rate_factor(each.axes) != rate_factor(champion.row.axes) for each in rows)
    names = listing([_named(each, with_rate=rate_differs) for each in rows])
    cost, time = sum(each.pilot.gpu_hours for each in rows), duration(proposal.pilot_wall_hours)
    kind = without(champion.row.axes, LEARNING_RATE)  # of another recipe or model studies say nothing
    alike = [each.against_champion for each in rows if without(each.axes, LEARNING_RATE) == kind]
    chances = listing([chance(gap.chance) for gap in alike if gap is not None]) if len(alike) == len(rows) else ""
    likely = f"; {chances} likely to end higher, by studies" if chances else ""
    return (
        f"Challengers get at most {part}, where a look is worth its cost: first {names}, {hours(cost)} GPU-hours, "
        f"{time}{likely}. The better one goes on to the end."
    )


def _named(row: Candidate, *, with_rate: bool = False) -> str:
    n, B, axes = row.cell.configuration
    named = named_configuration(Configuration(n, B, without(axes, LEARNING_RATE)))
    return f"{named} at learning rate {rate(row.learning_rate)}" if with_rate else named


def _expected(proposal: Proposal, row: Candidate) -> str:
    hardware, score, cell = proposal.request.hardware, row.cell.expected_score, row.cell
    used = proposal.run_gpu_hours
    on = f"{hardware.gpus_per_trial}" + (f" of {hardware.gpus}" if hardware.gpus > hardware.gpus_per_trial else "")
    dollars = proposal.spent_gpu_hours * hardware.gpu.dollars_per_hour
    price = f", ${dollars:,.0f}" if dollars >= 1 else ""
    stops = used < proposal.final_gpu_hours
    end = f" It uses {hours(used)} GPU-hours: more passes over the prompts should do harm." if stops else ""
    return (
        f"Expected score {interval(score.median, score.low, score.high)} after {steps(cell.allocation.update_steps)} "
        f"steps, {duration(used / hardware.gpus_per_trial)} on {on} {hardware.gpu.name}{price}.{end}"
    )


def against_champion(row: Candidate, champion: ChampionPlan) -> str:
    """Say how a row stands against the champion, in a cell of the table."""
    gap = row.against_champion
    if row is champion.row or gap is None:
        return "yours" if champion.given else "usual"
    if abs(gap.median) > gap.error:
        return f"{gap.median:+.2f} ± {gap.error:.2f}"
    if UNLIKELY <= gap.chance <= LIKELY:
        return "level"
    return "likely higher" if gap.chance > LIKELY else "likely lower"


def pilot_text(row: Candidate, champion: ChampionPlan) -> str:
    """Say what a look at a row costs."""
    if row is champion.row:
        return "its own"
    return f"{hours(row.pilot.gpu_hours)} GPU-hours" if row.pilot.steps else "–"
