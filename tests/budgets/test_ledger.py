import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from budgets.errors import BudgetError, InputError
from budgets.ledger import Ledger

HOURS = st.floats(0, 2000) | st.floats(0, 1) | st.sampled_from([0.1, 0.2, 0.3, 1 / 3])


def state_of(ledger: Ledger) -> tuple[float, float, float]:
    return ledger.spent, ledger.overrun, ledger.reserved


class LedgerMachine(RuleBasedStateMachine):
    """Any order of reserving, charging and releasing, in which every hour that was charged is accounted for."""

    keys = Bundle("keys")

    @initialize(budget=st.floats(0, 5000), share_spent=st.sampled_from([0.0, 0.1, 1.0, 1.5]))
    def start(self, budget: float, share_spent: float) -> None:
        self.ledger = Ledger(budget, spent=budget * share_spent)
        self.charged = [budget * share_spent]
        self.count = 0
        self.granted: dict[str, float] = {}

    def reserve_amount(self, hours: float):
        key = f"segment-{self.count}"
        self.count += 1
        before = state_of(self.ledger)
        if self.ledger.can_reserve(hours):
            self.ledger.reserve(key, hours)
            self.granted[key] = hours
            return key
        with pytest.raises(BudgetError):
            self.ledger.reserve(key, hours)
        assert state_of(self.ledger) == before
        return multiple()

    @rule(target=keys, hours=HOURS)
    def reserve(self, hours: float):
        return self.reserve_amount(hours)

    @rule(target=keys, share=st.floats(0, 1))
    def reserve_a_share_of_what_is_left(self, share: float):
        return self.reserve_amount(share * self.ledger.left)

    @rule(target=keys, ulps=st.integers(-2, 2))
    def reserve_all_but_a_few_ulps(self, ulps: int):
        bare = self.ledger.budget - self.ledger.spent - self.ledger.reserved
        return self.reserve_amount(max(0.0, bare + ulps * math.ulp(self.ledger.budget)))

    @rule(key=keys, hours=HOURS)
    def extend(self, key: str, hours: float) -> None:
        left, reserved = self.ledger.left, self.ledger.reserved
        self.ledger.extend(key, hours)
        more = self.ledger.reserved - reserved
        assert more <= min(hours, left) * (1 + 1e-9) + 1e-9
        assert more >= min(hours, left) * (1 - 1e-9) - 1e-9
        self.granted[key] += more

    @rule(key=consumes(keys), hours=HOURS)
    def charge(self, key: str, hours: float) -> None:
        self.ledger.charge(key, hours)
        self.charged.append(hours)

    @rule(key=consumes(keys))
    def charge_what_was_reserved(self, key: str) -> None:
        hours, overrun = self.granted[key], self.ledger.overrun
        self.ledger.charge(key, hours)
        self.charged.append(hours)
        assert self.ledger.overrun - overrun <= 4 * math.ulp(self.ledger.budget)

    @rule(key=consumes(keys))
    def release(self, key: str) -> None:
        left, overrun = self.ledger.left, self.ledger.overrun
        self.ledger.release(key)
        assert self.ledger.left >= left or overrun > 0  # what was overrun takes the room first
        with pytest.raises(InputError, match="holds no reservation"):
            self.ledger.release(key)

    @rule(key=keys, hours=HOURS)
    def reserve_twice(self, key: str, hours: float) -> None:
        before = state_of(self.ledger)
        with pytest.raises(InputError, match="holds a reservation already"):
            self.ledger.reserve(key, hours)
        assert state_of(self.ledger) == before

    @rule(hours=HOURS)
    def charge_without_a_reservation(self, hours: float) -> None:
        before = state_of(self.ledger)
        with pytest.raises(InputError, match="holds no reservation"):
            self.ledger.charge("never reserved", hours)
        with pytest.raises(InputError, match="holds no reservation"):
            self.ledger.release("never reserved")
        assert state_of(self.ledger) == before

    @rule(key=keys, hours=st.sampled_from([-1.0, math.nan, math.inf]))
    def charge_nonsense(self, key: str, hours: float) -> None:
        before = state_of(self.ledger)
        with pytest.raises(InputError, match="must be a finite number"):
            self.ledger.charge(key, hours)
        assert state_of(self.ledger) == before

    @invariant()
    def never_promises_more_than_the_budget(self) -> None:
        if hasattr(self, "ledger"):
            assert self.ledger.spent + self.ledger.reserved <= self.ledger.budget

    @invariant()
    def every_charged_hour_is_spent_or_overrun(self) -> None:
        if hasattr(self, "ledger"):
            seen = self.ledger.spent + self.ledger.overrun
            assert seen == pytest.approx(math.fsum(self.charged), rel=1e-12, abs=1e-9)

    @invariant()
    def what_is_left_can_be_reserved(self) -> None:
        if hasattr(self, "ledger"):
            assert self.ledger.left == 0 or self.ledger.can_reserve(self.ledger.left)


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(max_examples=150, stateful_step_count=30, deadline=None, derandomize=True)


def test_overrun_is_kept_apart() -> None:
    ledger = Ledger(10.0)
    ledger.reserve("a", 4.0)
    ledger.reserve("b", 5.0)
    ledger.charge("a", 7.0)
    assert (ledger.spent, ledger.reserved, ledger.overrun, ledger.left) == (5.0, 5.0, 2.0, 0.0)
    ledger.charge("b", 1.0)
    assert (ledger.spent, ledger.reserved, ledger.overrun, ledger.left) == (8.0, 0.0, 0.0, 2.0)


@pytest.mark.parametrize(
    ("budget", "spent", "other", "own"), [(67.27, 20.27, 17.1, 14.95), (1.7, 0.9, 0.6, 0.09999999999999998)]
)
def test_charging_all_that_is_left_does_not_round_past_the_budget(
    budget: float, spent: float, other: float, own: float
) -> None:
    # spent + (budget − spent − other) + other is an ulp above the budget for these numbers.
    assert spent + (budget - spent - other) + other > budget
    ledger = Ledger(budget, spent=spent)
    ledger.reserve("other", other)
    ledger.reserve("own", own)
    ledger.charge("own", 1000.0)
    assert ledger.spent + ledger.reserved <= budget
    assert ledger.spent + ledger.overrun == pytest.approx(spent + 1000)


@pytest.mark.parametrize(
    ("budget", "spent", "others", "hours"),
    [(5.0, 0.4, [0.44], 4.16), (100.0, 3.62, [17.35, 14.58, 0.43], 64.02000000000001)],
)
def test_a_reservation_that_fits_only_before_rounding_is_refused(
    budget: float, spent: float, others: list[float], hours: float
) -> None:
    assert spent + math.fsum(others) + hours <= budget < spent + math.fsum([*others, hours])
    ledger = Ledger(budget, spent=spent)
    for index, other in enumerate(others):
        ledger.reserve(str(index), other)
    assert not ledger.can_reserve(hours)


@pytest.mark.parametrize(("spent", "others"), [(6.32, [19.19, 2.38]), (5.65, [7.65, 11.14])])
def test_what_is_left_can_be_reserved_although_the_plain_difference_cannot(spent: float, others: list[float]) -> None:
    ledger = Ledger(100.0, spent=spent)
    for index, other in enumerate(others):
        ledger.reserve(str(index), other)
    assert not ledger.can_reserve(100.0 - spent - ledger.reserved)
    assert ledger.left == pytest.approx(100.0 - spent - sum(others))
    ledger.reserve("all", ledger.left)


def test_a_refused_reservation_says_what_is_left() -> None:
    ledger = Ledger(10.0, spent=2.0)
    ledger.reserve("a", 5.0)
    with pytest.raises(BudgetError, match=r"cannot reserve 4 .* 'b': 3 are left of 10 \(2 spent, 5 reserved\)"):
        ledger.reserve("b", 4.0)


def test_a_wrong_key_lists_the_open_ones() -> None:
    ledger = Ledger(10.0)
    with pytest.raises(InputError, match="open: none"):
        ledger.release("a")
    ledger.reserve("y", 1.0)
    ledger.reserve("x", 1.0)
    with pytest.raises(InputError, match="open: x, y"):
        ledger.charge("a", 1.0)
