"""rlplan's reward in OpenRLHF's vLLM engines, which load this file: one answer, scored as by every other trainer."""

import json
from pathlib import Path
from typing import Any

from openrlhf.utils.agent import SingleTurnAgentExecutor

from runner.trainers.trainer_process import response_text  # of the trial's `parts`, which PYTHONPATH names
from runner.trainers.trial_reward import judge_in

FOLDER = Path(__file__).absolute().parent


class AgentExecutor(SingleTurnAgentExecutor):
    """OpenRLHF's own single turn, whose response is scored by the tokens that were generated."""

    def __init__(self) -> None:
        """Ask nobody else for the reward."""
        super().__init__(None)
        self._run = json.loads((FOLDER / "run.json").read_text(encoding="utf-8"))

    async def execute(
        self,
        prompt: str,
        label: str,
        sampling_params: Any,
        max_length: int,
        hf_tokenizer: Any,
        llm_engine: Any,
        images: Any = None,
    ) -> dict[str, Any]:
        """Return its experience with the reward: what is trained on, or of a validation problem the plain score."""
        experience: dict[str, Any] = await super().execute(
            prompt, label, sampling_params, max_length, hf_tokenizer, llm_engine, images
        )
        ((begin, end),) = experience["action_ranges"]
        text = response_text(hf_tokenizer, list(experience["observation_tokens"][begin:end]), self._run)
        judge, number = judge_in(str(FOLDER)), int(label)
        score = await judge.awaited(number, text)
        # OpenRLHF adds the penalty of overlong responses itself.
        experience.update(reward=judge.worth(number, score), scores=score)
        return experience
