import string
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from posttrain.models import tiny
from posttrain.models.load import Model, load
from posttrain.models.lora import owned


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.make(tmp_path_factory.mktemp("tiny"))


def test_it_is_an_ordinary_folder_of_under_two_million_parameters(folder: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert sum(p.numel() for p in model.parameters()) < 2_000_000
    assert model.config.model_type == "llama"


def test_every_text_is_one_token_for_each_byte_and_comes_back(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for text in ("plain", "  two  spaces\n\ttab", "Grüße, 世界 🙂", "".join(map(chr, range(1, 256)))):
        tokens = tokenizer.encode(text, add_special_tokens=False)
        assert len(tokens) == len(text.encode())
        assert tokenizer.decode(tokens) == text
    assert tokenizer.encode("<|im_start|>a<|im_end|>", add_special_tokens=False)[0] > 255
    assert len(tokenizer) == 259


def test_the_seed_decides_all_weights_and_the_global_generator_is_untouched(tmp_path: Path) -> None:
    state = torch.random.get_rng_state()
    first, same, other = (tiny.make(tmp_path / str(n), seed) for n, seed in enumerate((1, 1, 2)))
    assert torch.equal(state, torch.random.get_rng_state())
    weights = [(folder / "model.safetensors").read_bytes() for folder in (first, same, other)]
    assert weights[0] == weights[1] != weights[2]


def first_token_logits(folder: Path, lora_seed: int = 0):
    model = load(Model(source=str(folder), dtype="float32", device="cpu"), lora_seed)
    ids = model.tokenizer.encode("<|im_start|>user\nsay<|im_end|>\n<|im_start|>assistant\n")
    from posttrain.models.forward import OneSequence, head_weight, hidden_states

    def logits() -> torch.Tensor:
        tokens = torch.tensor(ids)
        hidden = hidden_states(model.module, tokens, torch.arange(len(ids)), OneSequence())
        return head_weight(model.module)(hidden[-1])

    return model, logits


def test_it_starts_by_writing_plain_characters_and_sometimes_ends(folder: Path) -> None:
    model, logits = first_token_logits(folder)
    shares = logits().softmax(-1).detach()
    likely = [*model.tokenizer.encode(string.ascii_lowercase + string.digits + " "), *model.stop_tokens]
    assert shares[likely].sum() > 0.9
    assert 0.01 < shares[list(model.stop_tokens)].sum() < 0.5
    assert shares.max() < 0.5


def test_policy_gradient_teaches_it_a_character_within_seconds(folder: Path) -> None:
    model, logits = first_token_logits(folder)
    wanted, generator = model.tokenizer.encode("7")[0], torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam([p for _, p in owned(model.module)], lr=5e-3)
    start = logits().softmax(-1)[wanted].item()
    for _ in range(40):
        logprobs = logits().log_softmax(-1)
        sampled = torch.multinomial(logprobs.exp().detach(), 64, replacement=True, generator=generator)
        rewards = (sampled == wanted).float()
        loss = -((rewards - rewards.mean()) * logprobs[sampled]).sum() / 64
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert start < 0.1
    assert logits().softmax(-1)[wanted].item() > 0.9
