"""Rollouts by vLLM in this process, with weights that are replaced in place."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from budgets.errors import InputError
from runner.engines.vllm_start import forcing, start_vllm, stop_vllm
from runner.ports.engine import Interruption, Rollouts, Sampling, Weights, require_sound

if TYPE_CHECKING:
    from torch import Tensor

COLDEST = 0.01  # vLLM raises a temperature between 0 and this without a word


class VllmEngine:
    """Implements the port `RolloutEngine` on `vllm.LLM`, one engine at a time in a process.

    Weights go in through vLLM's `reload_weights`, layer by layer and in place; none touch the disk.
    """

    def __init__(
        self,
        model_path: str,
        *,
        end_id: int,
        pad_id: int,
        context: int,
        fp32_head: bool = True,
        weights: str = "float32",
        device: str = "cpu",
    ) -> None:
        self._end_id, self._pad_id, self._context = end_id, pad_id, context
        self._loads = 0
        self._llm: Any = start_vllm(model_path, context=context, fp32_head=fp32_head, weights=weights, device=device)

    def generate(self, prompts: Sequence[Sequence[int]], per_prompt: int, sampling: Sampling, seed: int) -> Rollouts:
        """Return `per_prompt` responses to each prompt; see `RolloutEngine`."""
        llm = self._open()
        require_sound(prompts, sampling.max_tokens, self._context)
        if 0 < sampling.temperature < COLDEST:
            raise InputError(
                f"vLLM samples at no temperature between 0 and {COLDEST:g}, and {sampling.temperature:g} was given: "
                "use 0 or machine.engine = 'torch'"
            )
        cut, count = sampling.interruption, len(prompts) * per_prompt
        places = cut.places(seed, count).tolist() if cut else [0] * count
        options = _options(sampling, self._end_id)
        # Independent streams of one seed, within what vLLM takes.
        streams = (np.random.SeedSequence([seed, row]).generate_state(1, np.uint64)[0] for row in range(count))
        drawn = [
            options(seed=int(stream >> np.uint64(1)), extra_args=forcing(cut, place) if cut else None)
            for stream, place in zip(streams, places, strict=True)
        ]
        # The salt keeps requests from reusing cached keys and values of a prompt that older weights wrote.
        requests = [{"prompt_token_ids": list(prompt), "cache_salt": str(self._loads)} for prompt in prompts]
        repeated = [prompt for prompt in requests for _ in range(per_prompt)]
        outputs = llm.generate(repeated, drawn, use_tqdm=False) if count else []
        return self._rollouts(prompts, per_prompt, [output.outputs[0] for output in outputs], cut, places)

    def load_weights(self, weights: Weights) -> None:
        """Use these weights, named as in the model's state dictionary, from now on."""
        llm = self._open()
        try:
            llm.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(weights)})
        except BaseException:
            self.close()  # half of the weights would be new
            raise
        self._loads += 1

    def close(self) -> None:
        """Free what the engine holds; closing twice is allowed."""
        llm, self._llm = self._llm, None
        if llm is not None:
            stop_vllm(llm)

    def _open(self) -> Any:
        if self._llm is None:
            raise InputError("this vLLM engine is closed: make a new one")
        return self._llm

    def _rollouts(
        self,
        prompts: Sequence[Sequence[int]],
        per_prompt: int,
        outputs: Sequence[Any],
        cut: Interruption | None,
        places: Sequence[int],
    ) -> Rollouts:
        import torch

        rows: list[list[int]] = [list(output.token_ids) for output in outputs]
        lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
        mask = torch.arange(int(lengths.max()) if rows else 0) < lengths[:, None]

        def filled(values: Iterable[float], padding: float, kind: "torch.dtype") -> "Tensor":
            whole = torch.full(mask.shape, padding, dtype=kind)
            whole[mask] = torch.tensor(list(values), dtype=kind)
            return whole

        forced = torch.zeros(mask.shape, dtype=torch.bool)
        if cut is not None:
            flags = (flag for row, place in zip(rows, places, strict=True) for flag in cut.forced(place, row))
            forced = filled(flags, False, torch.bool)
        logprobs = (value for output in outputs for value in output.logprobs.logprobs)
        return Rollouts(
            prompts=prompts,
            per_prompt=per_prompt,
            tokens=filled((token for row in rows for token in row), self._pad_id, torch.int64),
            mask=mask,
            forced=forced,
            logprobs=filled(logprobs, 0.0, torch.float32).where(~forced, 0.0),
            truncated=torch.tensor([row[-1] != self._end_id for row in rows], dtype=torch.bool),
        )


def _options(sampling: Sampling, end_id: int) -> Callable[..., Any]:
    from vllm import SamplingParams

    return partial(
        SamplingParams,
        max_tokens=sampling.max_tokens,
        temperature=sampling.temperature,
        logprobs=0,
        flat_logprobs=True,
        stop_token_ids=[end_id],
        ignore_eos=True,
        detokenize=False,
    )
