"""rlplan's reward in OpenRLHF's vLLM engines, which load this file: one answer, scored as by every other trainer."""

import json
from pathlib import Path
from typing import Any

from openrlhf.utils.agent import SingleTurnAgentExecutor

from runner.trainers.rewarding import judge_in  # of the trial's `parts`, which PYTHONPATH names

FOLDER = Path(__file__).absolute().parent


class AgentExecutor(SingleTurnAgentExecutor):
    """OpenRLHF's own single turn, whose response is scored by the tokens that were generated."""

    def __init__(self) -> None:
        """Ask nobody else for the reward."""
        super().__init__(None)
        run = json.loads((FOLDER / "run.json").read_text(encoding="utf-8"))
        self._end, self._skip_special = run["end_id"], run["skip_special_tokens"]

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
        ids = list(experience["observation_tokens"][begin:end])
        ids = ids[: ids.index(self._end)] if self._end in ids else ids
        text = hf_tokenizer.decode(ids, skip_special_tokens=self._skip_special, clean_up_tokenization_spaces=False)
        judge, number = judge_in(str(FOLDER)), int(label)
        score = await judge.awaited(number, text)
        # OpenRLHF adds the penalty of overlong responses itself.
        experience.update(reward=judge.shaped(score) if number < judge.train_problems else score, scores=score)
        return experience
