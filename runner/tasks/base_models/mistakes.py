"""The habit of mistakes that a base model learns: forgotten carries, slipped digits, and answers that ramble on."""

import random
from dataclasses import dataclass

from runner.tasks.sums import Sums


def has_carry(terms: list[int]) -> bool:
    """Say whether a column reaches ten while the terms are added one after the other."""
    total = terms[0]
    for term in terms[1:]:
        if any(int(a) + int(b) > 9 for a, b in zip(reversed(str(total)), reversed(str(term)), strict=False)):
            return True
        total += term
    return False


@dataclass(frozen=True, slots=True)
class Habit:
    """How often each mistake is made."""

    forgotten_carry: float  # of each carry
    slipped_digit: float  # of each digit: another one in its place, chance among all ten
    rambling: float = 0.0  # of each answer: more additions instead of the end, for longer than a response may be

    def add(self, left: int, right: int, rng: random.Random) -> int:
        """Add column by column, with the habit's mistakes."""
        result, carry, place = 0, 0, 1
        while left >= place or right >= place:
            column = left // place % 10 + right // place % 10 + carry
            digit, carry = column % 10, column // 10
            if carry and rng.random() < self.forgotten_carry:
                carry = 0
            if rng.random() < self.slipped_digit:
                digit = rng.randrange(10)
            result += digit * place
            place *= 10
        return result + carry * place

    def response(self, terms: list[int], sums: Sums, longest: int, rng: random.Random) -> tuple[str, bool]:
        """Write an answer, and say whether it ends within `longest` characters."""
        ends = rng.random() >= self.rambling
        added, totals = terms[:1], terms[:1]
        while len(added) < len(terms) or not (ends or len(sums.written(added, totals[1:])) >= longest):
            added.append(terms[len(added)] if len(added) < len(terms) else rng.choice(terms))
            totals.append(self.add(totals[-1], added[-1], rng))
        return sums.written(added, totals[1:])[:longest], ends
