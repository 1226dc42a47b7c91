"""The answer: which allocation to run in full, how sure that is, and what speaks for the others; as data and back."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from math import sqrt
from typing import TYPE_CHECKING, Any, TypeVar

from budgets.errors import StoreError
from planner.axes import named_configuration
from planner.belief.draws import JointDraws
from planner.belief.forecasts import PredictedScore
from planner.curves.curve import pass_rate_variance
from planner.metrics import EQUIVALENCE_MARGIN, SEED_SD
from planner.percent import chance, percent
from planner.recommend.cautions import Caution, cautions
from planner.recommend.choice import Alone, Choice, Choices, Chosen, Decided, Succession
from planner.recommend.facts import Facts, alike, require_choice
from planner.recommend.prospect import RUNGS_PER_OCTAVE, Prospect, beats
from planner.view import Configuration

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Record = TypeVar("Record", bound="DataclassInstance")
Document = Mapping[str, Any]

OCTAVES = (-6, 2)  # of the frontier: from 1/64 to 4 × the target
EVEN = 0.05  # of probability: chances are right within as much, so that those nearer to ½ say nothing
SKEWED = "not on average: it would lose more than it would gain"
BUDGETS = (0.25, 0.5, 1.0, 2.0, 4.0)  # times the target: the part of the frontier that people are shown


@dataclass(frozen=True, slots=True)
class AtBudget:
    """What would be taken if the final run had so many times the GPU-hours; None where they pay for no step."""

    factor: float
    gpu_hours: float
    choice: Choice | None


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """The highest expectation beside the chosen one."""

    choice: Choice
    probability_wins: float  # against the chosen
    gap: float  # expected, chosen − runner-up
    although: str = ""  # why it is not taken where it is likelier to end higher

    @property
    def odds(self) -> str:
        """How likely it is to end higher and, where that is likelier than not, why it is not taken."""
        if abs(self.probability_wins - 0.5) <= EVEN:
            return "as likely to end higher as lower"
        likely = f"{chance(self.probability_wins)} likely to end higher"
        return f"{likely}, but {self.although or SKEWED}" if self.probability_wins > 0.5 else likely

    @property
    def sentence(self) -> str:
        """Name it with its odds."""
        return f"Runner-up: {named_configuration(self.choice.configuration)}, {self.odds}"


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """What is recommended at the target, and everything that it rests on.

    Any of `level` will do, for all of them are likely within 0.02 of the best; `equivalent` are those that the evidence
    does not tell from the best, without the chosen one. `ranked` has every configuration that can be run, the chosen
    one first and then by expectation; `left_out` has the others: what has failed, or is too dear for one update.
    """

    target_gpu_hours: float
    chosen: Choice
    why: str
    runner_up: RunnerUp | None = field(repr=False)
    level: tuple[Configuration, ...] = field(repr=False)
    equivalent: tuple[Choice, ...] = field(repr=False)
    ranked: tuple[Choice, ...] = field(repr=False)
    left_out: Facts = field(repr=False)
    frontier: tuple[AtBudget, ...] = field(repr=False)
    cautions: tuple[Caution, ...] = field(repr=False)
    seed_sd: float  # of score, where the chosen one is expected
    draws: int
    succession: Succession | None = None  # where the sweep had a champion
    goes_on: bool = True  # whether a final run can go on from its pilot: one on other GPUs starts anew

    @property
    def budgets(self) -> tuple[AtBudget, ...]:
        """What would be taken at a quarter to four times the target."""
        return tuple(budget for budget in self.frontier if budget.factor in BUDGETS)

    @property
    def enough(self) -> Choice | None:
        """The cheapest choice that is expected within 0.02 of the chosen one; None where that is the target itself."""
        cheaper = (budget.choice for budget in self.frontier if budget.factor < 1 and budget.choice)
        least = self.chosen.expected_score - EQUIVALENCE_MARGIN
        return next((budget for budget in cheaper if budget.expected_score >= least), None)

    @property
    def at_other_budgets(self) -> str:
        """Whether another final run would change the choice, in a sentence."""
        others = [
            budget
            for budget in self.budgets
            if budget.choice and budget.choice.configuration != self.chosen.configuration
        ]
        if not others:
            return "The choice is the same from ¼ to 4 × this budget"
        factors: dict[str, list[str]] = {}
        for other in others:
            if other.choice:
                factors.setdefault(named_configuration(other.choice.configuration), []).append(f"{other.factor:g}")
        text = "; ".join(f"at {' and '.join(times)} × this budget take {name}" for name, times in factors.items())
        return f"A{text[1:]}"

    @property
    def what(self) -> str:
        """What to run, in a sentence, and what it is expected to score, in another."""
        chosen = self.chosen
        equals = alike(len(self.level), 1 + len(self.equivalent))
        take = f"{equals[:1].upper()}{equals[1:]}; take" if equals else "Run"
        if self.succession is not None:
            take = "Go on with"
        return (
            f"{take} {named_configuration(chosen.configuration)} for {chosen.update_steps:,} steps at learning rate "
            f"{chosen.learning_rate:.2g} with recipe {chosen.recipe}. Expected score {chosen.expected_score:.3f} "
            f"({chosen.score_low:.3f}–{chosen.score_high:.3f}) after {chosen.gpu_hours:.3g} GPU-hours."
        )

    @property
    def how_sure(self) -> str:
        """The chances, and why it was taken; of a champion's sweep also where the champion would have ended alone."""
        chosen = self.chosen
        if self.succession is not None:
            name = named_configuration(chosen.configuration)
            return f"{name} goes on: {self.succession.reason}. {self.succession.gone_on_alone}"
        return (
            f"It is {chance(chosen.probability_within_002)} likely within {EQUIVALENCE_MARGIN:g} of the best choice "
            f"and {chance(chosen.probability_best)} likely the best; on average it ends {chosen.expected_regret:.3f} "
            f"below the best. {self.why[:1].upper()}{self.why[1:]}."
        )

    @property
    def valued(self) -> str:
        """Whether the forecast is of the pilot's own run, which the final run can go on from, or of the configuration.

        A pilot's luck is in its checkpoint: as long as nothing says that it passes, it counts for the run that has it.
        """
        seeds = self.chosen.seeds_seen
        if seeds and not self.goes_on:
            return "The forecast is for a fresh run: its pilot had other GPUs, or saved nothing."
        if seeds:
            pilot = "its pilot" if seeds == 1 else f"the longest of its {seeds} pilots"
            return f"The forecast is for continuing {pilot}, not for a fresh run."
        return "It has no pilot of its own: the forecast rests on pilots of other n and B."


def answer(
    joint: JointDraws,
    facts: Facts,
    target_gpu_hours: float,
    *,
    seed_sd: float = SEED_SD,
    prompt_set_size: int | None = None,
    paid: bool = False,
    decided: Decided | None = None,
    promised: Callable[[Configuration, float], PredictedScore] | None = None,
    goes_on: bool = True,
) -> FinalAnswer:
    """Return the recommendation for a final run of so many GPU-hours, beside those of its pilot where they are `paid`.

    `seed_sd` is how far runs of a configuration end apart, in √(p(1 − p)). What a sweep with a champion has `decided`
    is taken; each is described by what is `promised` of its final run, which `goes_on` from its pilot or starts anew.
    NotFoundError when nothing was seen or all has failed, BudgetError when no update step can be paid for.
    """
    require_choice(facts, target_gpu_hours)
    prospect = Prospect.of(joint, facts, target_gpu_hours, paid=paid)
    choices = Choices(prospect, seed_sd, None if decided is None else decided.verdict.configuration, promised)
    rung = prospect.rung(0)
    chosen = choices.chosen(rung)
    by_expectation = sorted(range(len(prospect.configurations)), key=lambda row: -prospect.expected[rung, row])
    able = [row for row in by_expectation if prospect.able[rung, row] and row != chosen.row]
    succession = None if decided is None else decided.succession(joint, facts, seed_sd)
    others = sorted((choices.described(rung, row) for row in able), key=lambda row: -row.expected_score)
    warned = cautions(choices, chosen.row, len(chosen.undecided), prompt_set_size)
    return FinalAnswer(
        target_gpu_hours=target_gpu_hours,
        chosen=choices.choice(rung),
        why=chosen.reason if succession is None else succession.why,
        runner_up=_runner_up(choices, chosen, able, succession),
        level=tuple(prospect.configurations[row] for row in chosen.level),
        equivalent=tuple(choices.described(rung, row) for row in chosen.undecided if row != chosen.row),
        ranked=(choices.choice(rung), *others),
        left_out={
            prospect.configurations[row]: prospect.facts[row] for row in by_expectation if not prospect.able[rung, row]
        },
        frontier=tuple(_frontier(choices)),
        cautions=tuple(caution for caution in warned if succession is None or caution.kind != "unsure"),
        seed_sd=seed_sd * sqrt(pass_rate_variance(prospect.expected[rung, chosen.row])),
        draws=prospect.scores.shape[1],
        succession=succession,
        goes_on=goes_on,
    )


def _runner_up(
    choices: Choices, chosen: Chosen, others: Sequence[int], succession: Succession | None
) -> RunnerUp | None:
    """Return the first of the others, which come by expectation; after a verdict the one that it was passed against."""
    prospect = choices.prospect
    if succession is not None:
        others = [row for row in others if prospect.configurations[row] == succession.passed_over]
    if not others:
        return None
    rung, row = prospect.rung(0), others[0]
    gap = float(prospect.expected[rung, chosen.row] - prospect.expected[rung, row])
    wins, although = beats(prospect.scores[rung], row, chosen.row), chosen.cause if gap <= 0 else ""
    if succession is not None and succession.probability is not None:
        wins = 1 - succession.probability if succession.switched else succession.probability
        bar = succession.bar or 0.0
        although = f"a switch needs {percent(bar)}" if wins < bar else ""
    return RunnerUp(choices.described(rung, row), wins, gap, although)


def _frontier(choices: Choices) -> Iterator[AtBudget]:
    prospect = choices.prospect
    for third in range(OCTAVES[0] * RUNGS_PER_OCTAVE, OCTAVES[1] * RUNGS_PER_OCTAVE + 1):
        octaves = third / RUNGS_PER_OCTAVE
        rung = prospect.rung(octaves)
        choice = choices.choice(rung) if prospect.able[rung].any() else None
        yield AtBudget(2.0**octaves, float(prospect.gpu_hours[rung]), choice)


def answer_data(answer: FinalAnswer) -> dict[str, Any]:
    """Return the document of an answer."""
    rival, enough = answer.runner_up, answer.enough
    return {
        "target_gpu_hours": answer.target_gpu_hours,
        "recommendation": choice_data(answer.chosen),
        "sentences": [answer.what, answer.how_sure],
        "why": answer.why,
        "valued": answer.valued,
        "runner_up": rival and choice_data(rival.choice) | _own(rival) | {"sentence": rival.sentence},
        "level": [configuration_data(item) for item in answer.level],
        "equivalent": [choice_data(item) for item in answer.equivalent],
        "budgets": [_with_choice(budget) for budget in answer.budgets],
        "frontier": [_with_choice(item) for item in answer.frontier],
        "enough": enough and choice_data(enough),
        "warnings": [asdict(caution) for caution in answer.cautions],
        "ranking": [choice_data(item) | {"rank": rank} for rank, item in enumerate(answer.ranked, start=1)],
        "left_out": [configuration_data(item) for item in answer.left_out],
        "seed_sd": answer.seed_sd,
        "draws": answer.draws,
        "goes_on": answer.goes_on,
        **({} if answer.succession is None else {"champion": _succession_data(answer.succession)}),
    }


def _succession_data(succession: Succession) -> dict[str, Any]:
    names = ("configuration", "challenger")
    return asdict(succession) | {name: _named(getattr(succession, name)) for name in names}


def _named(configuration: Configuration | None) -> dict[str, Any] | None:
    return None if configuration is None else configuration_data(configuration)


def choice_data(choice: Choice) -> dict[str, Any]:
    """Return one choice, its axes as an object."""
    return asdict(choice) | {"axes": dict(choice.axes), "name": named_configuration(choice.configuration)}


def configuration_data(configuration: Configuration) -> dict[str, Any]:
    """Return what tells a configuration apart."""
    return {
        "rollouts_per_prompt": configuration.rollouts_per_prompt,
        "prompts_per_batch": configuration.prompts_per_batch,
        "axes": dict(configuration.axes),
        "name": named_configuration(configuration),
    }


def _own(record: RunnerUp | AtBudget) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record) if field.name != "choice"}


def _with_choice(record: AtBudget) -> dict[str, Any]:
    return _own(record) | {"choice": record.choice and choice_data(record.choice)}


def restored(document: Document, left_out: Facts) -> FinalAnswer | None:
    """Return the answer that `answer_data` wrote; None for the document of a version that wrote less.

    What cannot be run is in the document by name alone: its facts are given.
    """
    try:
        return _answer(document, left_out)
    except (StoreError, KeyError, TypeError, ValueError, AttributeError):
        return None


def _answer(document: Document, left_out: Facts) -> FinalAnswer:
    rival = document["runner_up"]
    return FinalAnswer(
        target_gpu_hours=document["target_gpu_hours"],
        chosen=_choice(document["recommendation"]),
        why=document["why"],
        runner_up=rival and _made(RunnerUp, rival, choice=_choice(rival)),
        level=tuple(map(_configuration, document["level"])),
        equivalent=tuple(map(_choice, document["equivalent"])),
        ranked=tuple(map(_choice, document["ranking"])),
        left_out=left_out,
        frontier=tuple(
            _made(AtBudget, row, choice=row["choice"] and _choice(row["choice"])) for row in document["frontier"]
        ),
        cautions=tuple(_made(Caution, row) for row in document["warnings"]),
        seed_sd=document["seed_sd"],
        draws=document["draws"],
        succession=_succession(document.get("champion")),
        goes_on=document.get("goes_on", True),
    )


def _succession(document: Document | None) -> Succession | None:
    if document is None:
        return None
    challenger = document["challenger"]
    return _made(
        Succession,
        document,
        configuration=_configuration(document["configuration"]),
        challenger=challenger and _configuration(challenger),
        alone=Alone(**document["alone"]),
    )


def _configuration(values: Document) -> Configuration:
    return Configuration(values["rollouts_per_prompt"], values["prompts_per_batch"], tuple(values["axes"].items()))


def _made(kind: type[Record], values: Document, **others: Any) -> Record:
    """Make a record of what is written of its fields, TypeError where a number is none; all beside is not its own."""
    attributes = {attribute.name: attribute for attribute in fields(kind) if attribute.name in values}
    for name, attribute in attributes.items():
        if attribute.type in (int, float) and not isinstance(values[name], int | float):
            raise TypeError(f"{name} is no number")
    return kind(**{name: values[name] for name in attributes} | others)


def _choice(values: Document) -> Choice:
    return _made(Choice, values, axes=tuple(values["axes"].items()))
