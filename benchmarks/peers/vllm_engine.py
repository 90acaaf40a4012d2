"""vLLM samples one wave per step; runs in vLLM's own interpreter, told what to do by `lines`."""

from __future__ import annotations

import os
import time
from typing import Any


def main(lines: Any, settings: dict[str, Any]) -> None:
    """Answer each line with the seconds and tokens of one wave of `settings["prompts"]`."""
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    os.environ["HF_HUB_OFFLINE"] = "1"
    import vllm

    attempts, tokens = settings["attempts"], settings["tokens"]
    longest = max(map(len, settings["prompts"])) + tokens
    model = vllm.LLM(
        settings["model"],
        dtype=settings["dtype"],
        max_model_len=longest + 1,
        max_num_seqs=len(settings["prompts"]) * attempts,
        enable_prefix_caching=True,
        disable_log_stats=True,
        seed=0,
    )
    sampling = vllm.SamplingParams(
        n=attempts, temperature=1.0, max_tokens=tokens, min_tokens=tokens, ignore_eos=True, logprobs=0
    )
    prompts = [{"prompt_token_ids": prompt} for prompt in settings["prompts"]]
    lines.answer({"version": vllm.__version__})
    while lines.wait():
        model.reset_prefix_cache()  # ours keeps nothing between waves either
        started = time.perf_counter()
        answers = model.generate(prompts, sampling, use_tqdm=False)
        seconds = time.perf_counter() - started
        done = [len(output.token_ids) for answer in answers for output in answer.outputs]
        scored = all(o.logprobs is not None for answer in answers for o in answer.outputs)
        lines.answer({"seconds": seconds, "tokens": sum(done), "scored": scored})
