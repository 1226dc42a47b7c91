"""TRL's numbers, as runner/trainers/trl/following.py writes them beside its scores."""

from runner.trainers.standin.forms.openrlhf import Form as Batches


class Form(Batches):
    """A line for each step, and one for its scores."""

    LOSS, LENGTH = "loss", "completions/mean_length"
