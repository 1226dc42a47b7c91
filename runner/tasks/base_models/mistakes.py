"""The habit of mistakes that a base model learns: forgotten carries, slipped digits, and answers that ramble on."""

import random
from dataclasses import dataclass

from runner.tasks.sums import Sums


@dataclass(frozen=True, slots=True)
class Habit:
    """How often each mistake is made."""

    forgotten_carry: float  # of each carry
    slipped_digit: float  # of each digit: another one in its place, chance among all ten
    rambling: float = 0.0  # of each answer: more totals instead of the end, for longer than a response may be

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
        totals = [terms[0]]
        for term in terms[1:]:
            totals.append(self.add(totals[-1], term, rng))
        if not sums.totals_written:
            return str(totals[-1]), True
        ends = rng.random() >= self.rambling
        text = ",".join(map(str, totals[1:]))
        while not ends and len(text) < longest:
            totals.append(self.add(totals[-1], rng.choice(terms), rng))
            text += f",{totals[-1]}"
        return text[:longest], ends
