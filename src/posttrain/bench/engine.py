"""Measure sampling: our engine beside transformers' `generate`, and the machine's own limit.

Both sample the same prompts with the same module, dtype and lengths, and return log-probabilities.
"""

from __future__ import annotations

import asyncio
import copy
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList, PreTrainedModel

from posttrain.bench import vllm
from posttrain.bench.result import Result, Setting, compare
from posttrain.engines.torch import Torch, TorchEngine
from posttrain.models.forward import head_weight
from posttrain.models.language_model import LanguageModel
from posttrain.models.lora import LoraLinear
from posttrain.protocols import Request, SampleKey, Sampling

PEER = "transformers generate"
SQUARE = 2048
"""Side of the square matrices whose product gives the machine's peak: large enough to hide memory."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What is sampled: `attempts` of each of `prompts` random prompts, `tokens` each, stop tokens ignored."""

    prompts: int = 8
    attempts: int = 8
    prompt_tokens: int = 60
    tokens: int = 64
    repetitions: int = 3

    def texts(self, vocabulary: int) -> list[tuple[int, ...]]:
        """Return the prompts, a third of them shorter and a third longer than `prompt_tokens`."""
        generator = torch.Generator().manual_seed(0)
        lengths = [self.prompt_tokens + (i % 3 - 1) * (self.prompt_tokens // 5) for i in range(self.prompts)]
        return [tuple(torch.randint(vocabulary, (n,), generator=generator).tolist()) for n in lengths]


def run(
    model: LanguageModel,
    workload: Workload = Workload(),
    settings: Torch = Torch(),
    others: Mapping[str, Callable[[], float]] | None = None,
) -> Result:
    """Return tokens per second of ours and of `generate`, over interleaved repetitions.

    `others` are further peers that take turns: each call samples `texts` once and returns tokens/s.
    Run it alone on the machine: another busy process slows both, not equally. The roofline among the
    peers is the speed at which the decode's matrix products alone would run at the machine's peak.
    """
    texts = workload.texts(model.module.config.vocab_size)
    engine = TorchEngine(model, settings, ignore_stop=True)
    peer = _Generate(model, texts, workload)
    num_tokens = workload.prompts * workload.attempts * workload.tokens
    ours_speeds, peer_speeds, peaks = [], [], []
    other_speeds: dict[str, list[float]] = {name: [] for name in others or {}}
    for repetition in range(workload.repetitions + 1):
        ours = num_tokens / _seconds(partial(_sample, engine, texts, workload, repetition), model.device)
        theirs = num_tokens / _seconds(peer, model.device)
        for name, other in (others or {}).items():
            other_speeds[name].append(other())
        if repetition:  # the first warms both up
            ours_speeds.append(ours)
            peer_speeds.append(theirs)
            peaks.append(matmul_flops(SQUARE, SQUARE, SQUARE, model.dtype, model.device))
    engine.close()
    flops = token_flops(model.module)
    roofline = statistics.median(peaks) / flops
    peers: dict[str, float | str] = {
        PEER: statistics.median(peer_speeds),
        "matrix-multiply roofline": roofline,
    }
    peers |= {name: statistics.median(speeds[1:]) for name, speeds in other_speeds.items()}
    if not any(name.startswith("vllm") for name in peers):
        peers["vllm"] = vllm.ABSENT
    described = _settings(model, workload, settings)
    rows = workload.prompts * workload.attempts
    described["roofline_share"] = statistics.median(ours_speeds) / roofline
    described["peak_gflops"] = statistics.median(peaks) / 1e9
    hidden, inner = model.module.config.hidden_size, model.module.config.intermediate_size
    described["decode_shape_gflops"] = matmul_flops(rows, hidden, inner, model.dtype, model.device) / 1e9
    return compare(ours_speeds, peer_speeds, unit="tokens/s", settings=described, peers=peers)


def run_with_vllm(model: LanguageModel, python: Path, folder: str, workload: Workload) -> Result:
    """Return what `run` does, with vLLM under the interpreter `python` taking turns (without adapters)."""
    texts = workload.texts(model.module.config.vocab_size)
    with vllm.running(python, folder, texts, workload.attempts, workload.tokens, model.dtype) as peer:
        return run(model, workload, others={peer.name: peer})


def token_flops(module: nn.Module) -> int:
    """Count the floating-point operations of one token's matrix products, attention left out."""
    linear = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
    adapters = [layer for layer in module.modules() if isinstance(layer, LoraLinear)]
    weights = sum(layer.weight.numel() for layer in linear)
    return 2 * (weights + sum(layer.lora_A.numel() + layer.lora_B.numel() for layer in adapters))


def matmul_flops(rows: int, inner: int, columns: int, dtype: torch.dtype, device: torch.device) -> float:
    """Return the best operations per second of a [rows, inner] × [inner, columns] product."""
    left = torch.ones(rows, inner, dtype=dtype, device=device)
    weight = torch.ones(columns, inner, dtype=dtype, device=device)
    repeats = max(1, 5 * 10**8 // (rows * inner * columns))

    def work() -> None:
        for _ in range(repeats):
            nn.functional.linear(left, weight)

    best = min(_seconds(work, device) for _ in range(5))
    return 2.0 * rows * inner * columns * repeats / best


def _seconds(work: Callable[[], object], device: torch.device) -> float:
    start = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start


def _sample(engine: TorchEngine, texts: Sequence[tuple[int, ...]], workload: Workload, seed: int) -> None:
    wave = [
        Request(text, SampleKey(seed, "probe", group, attempt), Sampling(max_tokens=workload.tokens))
        for group, text in enumerate(texts)
        for attempt in range(workload.attempts)
    ]
    completions = asyncio.run(engine.generate(wave))
    assert all(len(completion.tokens) == workload.tokens for completion in completions)


class _Generate:
    """The peer: one left-padded batch through `generate`, log-probabilities gathered step by step."""

    def __init__(self, model: LanguageModel, texts: Sequence[tuple[int, ...]], workload: Workload) -> None:
        parameters = {id(p): p for p in model.module.parameters()}
        self._module: PreTrainedModel = copy.deepcopy(model.module, parameters)
        self._module.set_attn_implementation("sdpa")
        self._module.eval()
        rows = [text for text in texts for _ in range(workload.attempts)]
        width = max(map(len, rows))
        padded = [[0] * (width - len(row)) + list(row) for row in rows]
        mask = [[0] * (width - len(row)) + [1] * len(row) for row in rows]
        self._tokens = torch.tensor(padded, device=model.device)
        self._mask = torch.tensor(mask, device=model.device)
        self._config = GenerationConfig(
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            min_new_tokens=workload.tokens,
            max_new_tokens=workload.tokens,
            pad_token_id=0,
        )

    def __call__(self) -> Tensor:
        """Return the new tokens' log-probabilities [rows, tokens]."""
        scorer = _Scorer()
        tokens = self._module.generate(
            self._tokens,
            attention_mask=self._mask,
            generation_config=self._config,
            logits_processor=LogitsProcessorList([scorer]),
        )
        return scorer.finish(tokens)


class _Scorer(LogitsProcessor):  # type: ignore[misc]
    """Gather each sampled token's log-probability one step later: cheaper than keeping all scores."""

    def __init__(self) -> None:
        self._last: Tensor | None = None
        self._scores: list[Tensor] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        self.finish(input_ids)
        self._last = torch.log_softmax(scores.float(), -1)
        return scores

    def finish(self, tokens: Tensor) -> Tensor:
        if self._last is not None:
            self._scores.append(self._last.gather(1, tokens[:, -1:]))
        return torch.cat(self._scores, 1) if self._scores else torch.empty(0)


def _settings(model: LanguageModel, workload: Workload, settings: Torch) -> dict[str, Setting]:
    return {
        "model": model.source,
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": str(model.device),
        "lora": any(isinstance(layer, LoraLinear) for layer in model.module.modules()),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "prompts": workload.prompts,
        "attempts": workload.attempts,
        "prompt_tokens": workload.prompt_tokens,
        "tokens": workload.tokens,
        "repetitions": workload.repetitions,
        "slots": settings.slots,
        "head_outputs": head_weight(model.module).out_features,
    }
