import asyncio
import threading

import pytest
import torch

import posttrain.engines.wave
from posttrain.engines.torch import Torch, TorchEngine
from posttrain.errors import CapacityError, ConfigError
from posttrain.models.forward import OneSequence, head_weight, hidden_states
from posttrain.models.lora import owned
from posttrain.protocols import Sampling


def generate(engine, wave):
    return asyncio.run(engine.generate(wave))


def recomputed(model, request, completion):
    """Return log-probabilities by one plain pass over the whole sequence."""
    tokens = torch.tensor(request.prompt + completion.tokens, device=model.device)
    positions = torch.arange(len(tokens) - 1, device=model.device)
    with torch.no_grad():
        hidden = hidden_states(model.module, tokens[:-1], positions, OneSequence())
        logits = head_weight(model.module)(hidden).float() / request.sampling.temperature
    scored = torch.log_softmax(logits, -1)[len(request.prompt) - 1 :]
    return scored.gather(1, tokens[len(request.prompt) :, None])[:, 0].cpu()


@pytest.mark.parametrize("lora", [True, False])
@pytest.mark.parametrize("slots", [8, 64])
def test_sampler_and_trainer_agree_on_every_sampled_token(make_model, ask, lora, slots):
    model = make_model(lora=lora)
    wave = [
        ask(g, a, sampling=Sampling(temperature=0.7 + 0.2 * a, max_tokens=9 + g))
        for g in range(5)
        for a in range(4)
    ]
    completions = generate(TorchEngine(model, Torch(slots=slots)), wave)
    assert {c.stop for c in completions} == {"stop", "length"}
    for request, completion in zip(wave, completions, strict=True):
        gap = recomputed(model, request, completion) - torch.tensor(completion.logprobs)
        assert gap.abs().max() < 1e-4


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_sampler_and_trainer_agree_on_a_gpu_and_repeat_bitwise(make_model, ask):
    model = make_model(device="cuda")
    wave = [ask(g, a) for g in range(5) for a in range(4)]
    engine = TorchEngine(model, Torch(slots=8))
    completions = generate(engine, wave)
    assert completions == generate(engine, wave)
    for request, completion in zip(wave, completions, strict=True):
        gap = recomputed(model, request, completion) - torch.tensor(completion.logprobs)
        assert gap.abs().max() < 1e-3


def test_sampling_goes_on_across_the_caches_width_steps(make_model, ask):
    model = make_model()
    wave = [ask(g, length=60, sampling=Sampling(max_tokens=30)) for g in range(3)]
    for request, completion in zip(wave, generate(TorchEngine(model, ignore_stop=True), wave), strict=True):
        assert len(completion.tokens) == 30
        gap = recomputed(model, request, completion) - torch.tensor(completion.logprobs)
        assert gap.abs().max() < 1e-4


def test_greedy_limit_agrees_with_transformers_generate(make_model, ask):
    model = make_model()
    wave = [ask(g, sampling=Sampling(temperature=1e-4, max_tokens=10)) for g in range(4)]
    ours = generate(TorchEngine(model, ignore_stop=True), wave)
    model.module.set_attn_implementation("sdpa")
    for request, completion in zip(wave, ours, strict=True):
        prompt = torch.tensor([request.prompt])
        theirs = model.module.generate(
            prompt, do_sample=False, max_new_tokens=10, min_new_tokens=10, pad_token_id=0,
            attention_mask=torch.ones_like(prompt),
        )  # fmt: skip
        assert tuple(theirs[0, len(request.prompt) :].tolist()) == completion.tokens


def test_a_request_gets_the_same_tokens_whatever_its_wave_slot_and_order(model, ask):
    engine = TorchEngine(model, Torch(slots=8))
    wave = [ask(g, a) for g in range(4) for a in range(5)]
    alone = [generate(engine, [request])[0].tokens for request in wave]
    together = generate(engine, wave)
    backwards = generate(engine, wave[::-1])[::-1]
    assert [c.tokens for c in together] == alone
    assert [c.tokens for c in backwards] == alone
    assert len(set(alone)) == len(alone), "attempts must differ"


def test_a_wave_sampled_twice_is_bitwise_equal_also_in_bfloat16(make_model, ask):
    for dtype in (torch.float32, torch.bfloat16):
        engine = TorchEngine(make_model(dtype), Torch(slots=16))
        wave = [ask(g, a) for g in range(6) for a in range(5)]
        assert generate(engine, wave) == generate(engine, wave)


def test_rows_of_one_shape_do_not_depend_on_their_neighbours_bitwise(make_model, ask):
    for dtype in (torch.float32, torch.bfloat16):
        engine = TorchEngine(make_model(dtype), Torch(slots=16), ignore_stop=True)
        common = [ask(0, a, length=9) for a in range(8)]
        neighbours = [[ask(g, a, length=9) for a in range(8)] for g in (1, 2)]
        first, second = (generate(engine, [*common, *others])[:8] for others in neighbours)
        assert first == second


def test_equal_prompts_are_computed_once(model, ask, monkeypatch):
    seen = []

    def counting(module, tokens, *rest):
        seen.append(tokens.numel())
        return hidden_states(module, tokens, *rest)

    monkeypatch.setattr(posttrain.engines.wave, "hidden_states", counting)
    wave = [ask(g, a, length=10, sampling=Sampling(max_tokens=1)) for a in range(6) for g in range(3)]
    generate(TorchEngine(model), wave)
    assert seen == [30]


def test_prefill_is_cut_by_its_budget(model, ask):
    wave = [ask(g, a) for g in range(6) for a in range(2)]
    small = generate(TorchEngine(model, Torch(prefill_tokens=1)), wave)
    assert [c.tokens for c in small] == [c.tokens for c in generate(TorchEngine(model), wave)]


def test_a_full_context_ends_the_completion(model, ask):
    engine = TorchEngine(model, ignore_stop=True)
    [completion] = generate(engine, [ask(0, length=90, sampling=Sampling(max_tokens=50))])
    assert completion.stop == "context"
    assert len(completion.tokens) == 6


def test_a_prompt_as_long_as_the_context_is_refused(model, ask):
    with pytest.raises(CapacityError, match="96 tokens"):
        generate(TorchEngine(model), [ask(0, length=96)])


def test_a_small_budget_uses_fewer_rows_and_a_tiny_one_is_refused(model, ask):
    wave = [ask(g, a) for g in range(3) for a in range(6)]
    token_bytes = 2 * 3 * 2 * 8 * 4
    expected = [c.tokens for c in generate(TorchEngine(model), wave)]
    small = TorchEngine(model, Torch(cache_bytes=token_bytes * 64 * 3, prefill_tokens=16))
    assert [c.tokens for c in generate(small, wave)] == expected
    with pytest.raises(CapacityError, match=r"engine\.cache_bytes"):
        generate(TorchEngine(model, Torch(cache_bytes=token_bytes * 63)), wave)


def test_a_setting_below_one_is_refused_by_name(model):
    with pytest.raises(ConfigError, match=r"engine\.slots: 0 must be at least 1"):
        TorchEngine(model, Torch(slots=0))


def test_support_settings_hold_for_their_own_request_only(model, ask):
    free = Sampling(max_tokens=12)
    narrow = Sampling(max_tokens=12, top_k=1)
    engine = TorchEngine(model)
    plain = generate(engine, [ask(0, 0, sampling=free)])[0]
    mixed = generate(engine, [ask(0, 0, sampling=free), ask(1, 0, sampling=narrow)])
    assert mixed[0].tokens == plain.tokens
    assert mixed[1].logprobs == pytest.approx([0.0] * len(mixed[1].tokens), abs=1e-6)


def test_updates_of_the_trained_module_are_not_seen_before_they_are_loaded(make_model, ask):
    model = make_model()
    engine = TorchEngine(model, version=3)
    wave = [ask(g) for g in range(8)]
    before = generate(engine, wave)
    with torch.no_grad():
        for _, parameter in owned(model.module):
            parameter.add_(0.05)
    assert generate(engine, wave) == before
    weights = {name: p.detach().clone() for name, p in owned(model.module)}
    asyncio.run(engine.load(weights, 4))
    after = generate(engine, wave)
    assert [c.version for c in before] == [3] * 8
    assert [c.version for c in after] == [4] * 8
    assert [c.tokens for c in after] != [c.tokens for c in before]
    for request, completion in zip(wave, after, strict=True):
        gap = recomputed(model, request, completion) - torch.tensor(completion.logprobs)
        assert gap.abs().max() < 1e-4


def test_weights_of_another_model_are_refused(model):
    with pytest.raises(ConfigError, match="do not fit"):
        asyncio.run(TorchEngine(model).load({"nobody": torch.zeros(1)}, 1))


def test_a_load_during_a_wave_waits_for_its_end_and_the_loop_stays_free(make_model, ask):
    model = make_model()
    engine = TorchEngine(model, ignore_stop=True)
    weights = {name: p.detach() + 0.05 for name, p in owned(model.module)}
    wave = [ask(g, a, sampling=Sampling(max_tokens=60)) for g in range(4) for a in range(4)]
    expected = generate(engine, wave)

    async def race():
        ticks = 0
        running = asyncio.create_task(engine.generate(wave))
        await asyncio.sleep(0)
        loading = asyncio.create_task(engine.load(weights, 1))
        while not running.done():
            await asyncio.sleep(0.001)
            ticks += 1
        await loading
        return await running, ticks

    completions, ticks = asyncio.run(race())
    assert completions == expected
    assert ticks > 3
    assert engine.version == 1


def test_a_cancelled_wave_stops_after_the_token_being_decoded(model, ask, monkeypatch):
    engine = TorchEngine(model, Torch(slots=1), ignore_stop=True)
    wave = [ask(g, sampling=Sampling(max_tokens=80)) for g in range(50)]
    started, calls = threading.Event(), []

    def counting(*arguments):
        calls.append(1)
        started.set()
        return hidden_states(*arguments)

    monkeypatch.setattr(posttrain.engines.wave, "hidden_states", counting)

    async def cancel():
        task = asyncio.create_task(engine.generate(wave))
        await asyncio.to_thread(started.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await engine.generate(wave[:1])

    [completion] = asyncio.run(cancel())
    assert len(completion.tokens) == 80
    assert len(calls) < 50 * 80 / 2
    engine.close()
