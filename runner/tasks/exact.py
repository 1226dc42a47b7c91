"""The simplest verifiable reward: the response is the answer, or it is wrong."""

from collections.abc import Sequence

from runner.ports.task import Problem, Scores


class ExactReward:
    """1 where response and answer are the same text, else 0."""

    def __init__(self, *, strip: bool = True) -> None:
        """Compare without surrounding white space, unless `strip` is off and every character counts."""
        self._strip = strip

    def score(self, problems: Sequence[Problem], responses: Sequence[str]) -> Scores:
        """Return one score for each response."""
        pairs = zip(problems, responses, strict=True)
        if self._strip:
            values = [float(response.strip() == problem.answer.strip()) for problem, response in pairs]
        else:
            values = [float(response == problem.answer) for problem, response in pairs]
        return Scores(values, {})

    def close(self) -> None:
        """There is nothing to stop."""
