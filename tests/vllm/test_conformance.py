"""vLLM keeps the port's promises."""

from tests.conformance.rollout_engine import RolloutEngineSuite


class TestVllmEngine(RolloutEngineSuite):
    """The promises of the port."""
