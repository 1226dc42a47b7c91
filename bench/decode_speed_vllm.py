"""vLLM's side of decode_speed.py; runs under an interpreter that has vLLM and imports nothing of ours.

For each line on its input it answers with the seconds that the same rollouts took.
"""

import json
import os
import sys
import time
from typing import Any


def main() -> int:
    """Start vLLM once and answer until the input ends."""
    settings = json.loads(sys.argv[1])
    os.environ["OMP_NUM_THREADS"] = str(settings["threads"])
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    os.environ["VLLM_NO_USAGE_STATS"] = "1"
    os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what vLLM prints is not an answer
    from vllm import LLM, SamplingParams

    llm: Any = LLM(
        model=settings["folder"],
        skip_tokenizer_init=True,
        generation_config="vllm",
        dtype=settings["weights"],
        max_model_len=settings["context"],
        max_num_seqs=len(settings["prompts"]) * settings["per_prompt"],
        enforce_eager=settings["device"] == "cpu",
        enable_prefix_caching=False,
        disable_log_stats=True,
    )
    import torch

    if settings["device"] == "cpu":
        torch.set_num_threads(settings["threads"])
    prompts = [{"prompt_token_ids": prompt} for prompt in settings["prompts"]]
    for _ in sys.stdin:
        sampling = SamplingParams(
            n=settings["per_prompt"],
            temperature=1.0,
            max_tokens=settings["tokens"],
            ignore_eos=True,
            detokenize=False,
            logprobs=0,  # without a seed for each request, which would slow it down
        )
        begin = time.perf_counter()
        outputs = llm.generate(prompts, sampling, use_tqdm=False)
        seconds = time.perf_counter() - begin
        tokens = sum(len(sample.token_ids) for output in outputs for sample in output.outputs)
        answers.write(json.dumps({"seconds": seconds, "tokens": tokens}) + "\n")
        answers.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
