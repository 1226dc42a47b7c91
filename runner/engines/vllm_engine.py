"""Rollouts by vLLM in this process, with weights that are replaced in place."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from budgets.errors import InputError
from runner.engines.vllm_start import forcing, start_vllm, stop_vllm
from runner.policy.model import require_checkpoint
from runner.ports.engine import Weights
from runner.ports.rollouts import Interruption, Rollouts, Sampling, require_sound

if TYPE_CHECKING:
    from torch import Tensor

COLDEST = 0.01  # vLLM raises a temperature between 0 and this without a word
TIED = "lm_head.weight"  # in a state dictionary also when it is the embedding, which a checkpoint stores once


@dataclass(slots=True)
class _Row:
    """One response as it grows."""

    interruption: Interruption | None
    place: int  # where it is interrupted
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)

    def forced(self) -> list[bool]:
        """Return for each token whether it had to be this one."""
        cut = self.interruption
        return cut.forced(self.place, self.tokens) if cut else [False] * len(self.tokens)


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
        self._version = self._loads = 0
        self._llm: Any = start_vllm(model_path, context=context, fp32_head=fp32_head, weights=weights, device=device)
        self._parameters = Parameters(model_path)

    @property
    def version(self) -> int:
        """Version of the weights in use; 0 until the first `load_weights`."""
        return self._version

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        per_prompt: int,
        sampling: Sampling,
        seed: int,
        between_tokens: Callable[[], None] | None = None,
    ) -> Rollouts:
        """Return `per_prompt` responses to each prompt; see `RolloutEngine`."""
        engine = self._open_engine()
        require_sound(prompts, per_prompt, sampling.max_tokens, self._context)
        if 0 < sampling.temperature < COLDEST:
            raise InputError(
                f"vLLM samples at no temperature between 0 and {COLDEST:g}, and {sampling.temperature:g} was given: "
                "use 0 or machine.engine = 'torch'"
            )
        cut, count = sampling.interruption, len(prompts) * per_prompt
        rows = [_Row(cut, place) for place in (cut.places(seed, count).tolist() if cut else [0] * count)]
        options = _options(sampling, self._end_id, each_step=between_tokens is not None)
        under_way: dict[str, None] = {}

        def submit(row: int) -> None:
            drawn = options(seed=_row_seed(seed, row), extra_args=forcing(cut, rows[row].place) if cut else None)
            engine.add_request(str(row), self._prompt(prompts[row // per_prompt]), drawn)
            under_way[str(row)] = None

        try:
            for row in range(len(rows)):
                submit(row)
            while under_way:
                for output in engine.step():
                    self._extend(rows[int(output.request_id)], output.outputs[0])
                    if output.finished:
                        del under_way[output.request_id]
                if between_tokens is not None and under_way:
                    loads = self._loads
                    between_tokens()
                    engine = self._open_engine()
                    if self._loads != loads:
                        fresh = [name for name in under_way if not rows[int(name)].tokens]
                        engine.abort_request(fresh)
                        for name in fresh:
                            submit(int(name))  # from its prompt's first token on with the new weights
        finally:
            if under_way and self._llm is not None:
                engine.abort_request(list(under_way))
        return self._rollouts(prompts, per_prompt, rows)

    def load_weights(self, weights: Weights, version: int) -> None:
        """Use these weights, named as in the model's state dictionary, from the next token on."""
        engine = self._open_engine()
        given = dict(weights)
        self._parameters.check(given)
        try:
            engine.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(given.items())})
        except BaseException:
            self.close()  # half of the weights would be new
            raise
        self._version, self._loads = version, self._loads + 1

    def close(self) -> None:
        """Free what the engine holds; closing twice is allowed."""
        llm, self._llm = self._llm, None
        if llm is not None:
            stop_vllm(llm)

    def _open_engine(self) -> Any:
        if self._llm is None:
            raise InputError("this vLLM engine is closed: make a new one")
        return self._llm.llm_engine

    def _prompt(self, tokens: Sequence[int]) -> dict[str, Any]:
        # The salt keeps requests from reusing cached keys and values of a prompt that older weights wrote. Emptying
        # the cache would not do: it fails while sequences are under way, or makes them start again.
        return {"type": "token", "prompt_token_ids": list(tokens), "cache_salt": str(self._loads)}

    def _extend(self, row: _Row, output: Any) -> None:
        row.tokens.extend(output.token_ids)
        row.logprobs.extend(output.logprobs.logprobs)
        row.versions.extend([self._version] * len(output.token_ids))

    def _rollouts(self, prompts: Sequence[Sequence[int]], per_prompt: int, rows: Sequence[_Row]) -> Rollouts:
        import torch

        lengths = torch.tensor([len(row.tokens) for row in rows], dtype=torch.int64)
        mask = torch.arange(int(lengths.max()) if rows else 0) < lengths[:, None]

        def filled(values: Iterable[float], padding: float, kind: "torch.dtype") -> "Tensor":
            whole = torch.full(mask.shape, padding, dtype=kind)
            whole[mask] = torch.tensor(list(values), dtype=kind)
            return whole

        forced = filled((value for row in rows for value in row.forced()), False, torch.bool)
        return Rollouts(
            prompts=prompts,
            per_prompt=per_prompt,
            tokens=filled((token for row in rows for token in row.tokens), self._pad_id, torch.int64),
            mask=mask,
            forced=forced,
            logprobs=filled((value for row in rows for value in row.logprobs), 0.0, torch.float32).where(~forced, 0.0),
            versions=filled((version for row in rows for version in row.versions), -1, torch.int32),
            truncated=torch.tensor([row.tokens[-1] != self._end_id for row in rows], dtype=torch.bool),
        )


def _options(sampling: Sampling, end_id: int, *, each_step: bool) -> Callable[..., Any]:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return partial(
        SamplingParams,
        max_tokens=sampling.max_tokens,
        temperature=sampling.temperature,
        logprobs=0,
        flat_logprobs=True,
        stop_token_ids=[end_id],
        ignore_eos=True,
        detokenize=False,
        output_kind=RequestOutputKind.DELTA if each_step else RequestOutputKind.FINAL_ONLY,
    )


def _row_seed(seed: int, row: int) -> int:
    """Independent streams of one seed (numpy's SeedSequence), within what vLLM takes."""
    return int(np.random.SeedSequence([seed, row]).generate_state(1, np.uint64)[0] >> np.uint64(1))


class Parameters:
    """Names and shapes of a checkpoint's tensors."""

    def __init__(self, model_path: str) -> None:
        from safetensors import safe_open  # noqa: PLC0415

        self._tied = bool(require_checkpoint(model_path).get("tie_word_embeddings"))
        self._shapes: dict[str, tuple[int, ...]] = {}
        for file in Path(model_path).expanduser().glob("*.safetensors"):
            with safe_open(file, framework="pt") as tensors:
                for name in tensors.keys():  # noqa: SIM118 (no mapping)
                    self._shapes[name] = tuple(tensors.get_slice(name).get_shape())

    def check(self, weights: Mapping[str, "Tensor"]) -> None:
        """Raise InputError unless the weights are the model's, whole and of the right shapes."""
        unknown = weights.keys() - self._shapes.keys() - ({TIED} if self._tied else set())
        wrong = [name for name, shape in self._shapes.items() if name in weights and weights[name].shape != shape]
        for what, names in (("lack", self._shapes.keys() - weights.keys()), ("add", unknown), ("reshape", wrong)):
            if names:
                raise InputError(
                    f"the new weights {what} {len(names)} of the model's {len(self._shapes)} parameters, such as "
                    f"'{min(names)}': give the state dictionary of the model that the engine was started with"
                )
