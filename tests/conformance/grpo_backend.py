"""What a backend promises besides when it really trains with GRPO; its test module takes this test in as well."""

from dataclasses import asdict
from pathlib import Path

from runner.ports.backend import Segment
from runner.ports.trial import TrialConfig
from tests.conformance.trainer_backend import NewBackend


def test_every_update_is_measured(new_backend: NewBackend, config: TrialConfig, tmp_path: Path) -> None:
    backend = new_backend()
    backend.start(config, tmp_path)
    *_, point = backend.advance(Segment(2))
    backend.close()
    wanted = {
        "loss", "reward", "pass_rate", "zero_variance_share", "entropy", "clipped_low_share", "clipped_high_share",
        "mismatch_kl", "response_tokens", "truncated_share", "grad_norm", "learning_rate", "staleness", "queue_depth",
        "generated_rollouts", "trained_rollouts", "seconds",
    }  # fmt: skip
    assert wanted <= point.metrics.keys()
    assert {"train", "sync", "evaluate"} <= point.metrics["seconds"].keys()
    assert asdict(point)["metrics"] == point.metrics  # plain data, fit for a database
