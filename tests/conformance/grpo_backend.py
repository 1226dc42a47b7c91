"""What a backend promises besides when it really trains with GRPO: the measures of every update."""

from dataclasses import asdict

from runner.ports.backend import Point

MEASURES = {
    *("loss", "reward", "pass_rate", "zero_variance_share", "entropy", "clipped_low_share", "clipped_high_share"),
    *("mismatch_kl", "response_tokens", "truncated_share", "grad_norm", "learning_rate", "staleness", "queue_depth"),
    *("generated_rollouts", "trained_rollouts", "seconds"),
}


def assert_measured(point: Point) -> None:
    assert point.metrics.keys() >= MEASURES
    assert {"train", "sync", "evaluate"} <= point.metrics["seconds"].keys()
    assert asdict(point)["metrics"] == point.metrics  # plain data, fit for a database
