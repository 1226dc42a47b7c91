"""What a recommendation should be read with."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

from planner.axes import named_configuration
from planner.curves.curve import pass_rate_variance
from planner.metrics import EQUIVALENCE_MARGIN
from planner.percent import percent
from planner.prior.studies import HARMFUL_EPOCHS, HARMLESS_EPOCHS
from planner.recommend.choice import Choice, Choices
from planner.recommend.facts import ConfigurationFacts
from planner.recommend.prospect import Prospect
from planner.view import octaves_apart

FAR_TIMES = 8.0  # times the longest pilot, from which on a prediction is called far
MOST_TIMES = 1000  # that are told as a number
RISKY = 0.10  # risk to collapse
UNSURE = 0.5  # P(within 0.02 of the best), below which the pilots have told too little
FEWEST_ROLLOUTS = 2  # of a prompt
NEIGHBOUR = 1.5  # octaves


@dataclass(frozen=True, slots=True)
class Caution:
    """One warning: a word for programs, a sentence for people."""

    kind: str
    text: str


def cautions(choices: Choices, chosen: int, undecided: int, prompt_set_size: int | None) -> tuple[Caution, ...]:
    """Return the warnings about the chosen configuration at the target, with which so many are not told apart."""
    prospect = choices.prospect
    choice = choices.described(prospect.rung(0), chosen)
    return (
        *_learning(prospect),
        *_evidence(prospect, prospect.facts[chosen]),
        *_data(choice, prompt_set_size),
        *_edges(prospect, chosen),
        *_stability(prospect, chosen, choice),
        *_separation(prospect, choice, undecided, choices.seed_sd),
        *_failures(prospect),
        *_fit(prospect),
    )


def _learning(prospect: Prospect) -> Iterator[Caution]:
    ends = [score for facts in prospect.facts for _, score in facts.end]
    if ends and max(ends) <= 0:
        yield Caution(
            "nothing-learnt",
            "no run has scored above 0: nothing has learnt. Check the reward and the form of the answers first",
        )


def _evidence(prospect: Prospect, facts: ConfigurationFacts) -> Iterator[Caution]:
    if facts.has_own_curve and prospect.target_gpu_hours > FAR_TIMES * facts.reached_gpu_hours:
        times = min(prospect.target_gpu_hours / facts.reached_gpu_hours, MOST_TIMES)
        yield Caution(
            "extrapolation",
            f"its longest pilot trained for {facts.reached_gpu_hours:.3g} GPU-hours: the forecast reaches "
            f"{'more than ' if times == MOST_TIMES else ''}{times:,.0f} × as far",
        )


def _data(choice: Choice, prompt_set_size: int | None) -> Iterator[Caution]:
    if not prompt_set_size:
        return
    epochs = choice.prompts_per_batch * choice.update_steps / prompt_set_size
    if epochs > HARMLESS_EPOCHS:
        beyond = "by" if epochs <= HARMFUL_EPOCHS else "already by"
        yield Caution(
            "epochs",
            f"the run goes {epochs:,.0f} times over the {prompt_set_size:,} prompts: {HARMLESS_EPOCHS:g} are known to "
            f"be harmless, and degradation was seen {beyond} {HARMFUL_EPOCHS:g}",
        )


def _edges(prospect: Prospect, chosen: int) -> Iterator[Caution]:
    sizes = [
        (configuration.rollouts_per_prompt, configuration.prompts_per_batch)
        for configuration in prospect.configurations
    ]
    for place, (letter, label) in enumerate((("n", "rollouts per prompt"), ("B", "prompts per batch"))):
        values = sorted({size[place] for size in sizes})
        chosen_size = sizes[chosen][place]
        if chosen_size == FEWEST_ROLLOUTS and letter == "n":
            continue  # one rollout has no group
        if len(values) > 1 and chosen_size in (values[0], values[-1]):
            end = "largest" if chosen_size == values[-1] else "smallest"
            side = "more" if chosen_size == values[-1] else "fewer"
            yield Caution(
                f"edge-{letter}",
                f"{letter} = {chosen_size} is the {end} of the grid: {side} {label} may be better still",
            )


def _stability(prospect: Prospect, chosen: int, choice: Choice) -> Iterator[Caution]:
    facts, here = prospect.facts[chosen], prospect.configurations[chosen]
    bad = facts.collapsed_runs + facts.declining_runs
    if bad:
        trouble = "collapsed" if facts.collapsed_runs else "declined after a peak"
        yield Caution("unstable", f"{bad} of its own {facts.seeds_seen} runs {trouble}")
    if choice.collapse_risk > RISKY:
        near = [
            named_configuration(other)
            for other, its in zip(prospect.configurations, prospect.facts, strict=True)
            if other != here and its.collapsed_runs + its.declining_runs and octaves_apart(other, here) <= NEIGHBOUR
        ]
        where = f", seen at {'; '.join(near[:3])}" if near else ""
        yield Caution("collapse", f"about {percent(choice.collapse_risk)} of runs near it collapse or decline{where}")


def _separation(prospect: Prospect, choice: Choice, undecided: int, seed_sd: float) -> Iterator[Caution]:
    apart = seed_sd * sqrt(pass_rate_variance(choice.expected_score))
    if apart > EQUIVALENCE_MARGIN:
        yield Caution(
            "noise",
            f"seeds differ by {apart:.3f} (standard deviation): single runs say little about differences of "
            f"{EQUIVALENCE_MARGIN:g}",
        )
    if choice.probability_within_002 < UNSURE:
        count = int(prospect.able[prospect.rung(0)].sum())
        yield Caution(
            "unsure",
            f"it is within {EQUIVALENCE_MARGIN:g} of the best with a probability of "
            f"{choice.probability_within_002:.2f}, and {undecided} of {count} configurations are level: more pilot "
            "GPU-hours may separate them (the last "
            "decision says why the pilots ended)",
        )


def _fit(prospect: Prospect) -> Iterator[Caution]:
    if prospect.unconverged:
        yield Caution(
            "fit",
            f"{percent(prospect.unconverged)} of the fit of all curves had not converged: scores and chances may be "
            "off, and intervals too narrow",
        )


def _failures(prospect: Prospect) -> Iterator[Caution]:
    failed = [
        named_configuration(configuration)
        for configuration, facts in zip(prospect.configurations, prospect.facts, strict=True)
        if facts.failed
    ]
    if failed:
        more = f" and {len(failed) - 3} more" if len(failed) > 3 else ""
        yield Caution("failed", f"left out, since every run of theirs failed: {'; '.join(failed[:3])}{more}")
