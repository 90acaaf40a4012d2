import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, GenerationConfig, PreTrainedTokenizerFast

from posttrain.errors import ConfigError
from posttrain.models import dtype as dtypes
from posttrain.models import pretrained, tiny
from posttrain.models.load import Model, load, stop_tokens
from posttrain.models.lora import Lora, owned


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.make(tmp_path_factory.mktemp("model"))


@pytest.fixture
def own(folder: Path, tmp_path: Path) -> Path:
    """Give a copy of the model folder that a test may spoil."""
    return shutil.copytree(folder, tmp_path / "model")


def on_cpu(folder: Path, **settings: object) -> Model:
    return Model(**({"source": str(folder), "dtype": "float32", "device": "cpu"} | settings))  # type: ignore[arg-type]


def test_by_default_only_a_float32_adapter_trains(folder: Path) -> None:
    model = load(on_cpu(folder, dtype="bfloat16", lora=Lora(rank=2)), seed=0)
    assert model.module.model.embed_tokens.weight.dtype == torch.bfloat16
    trainable = [(n, p) for n, p in model.module.named_parameters() if p.requires_grad]
    assert {n for n, _ in trainable} == {n for n, _ in owned(model.module)}
    assert {p.dtype for _, p in trainable} == {torch.float32}
    assert not model.module.training
    assert (model.context, model.source, model.dtype) == (2048, str(folder), torch.bfloat16)


def test_without_lora_all_weights_train_in_float32(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dtypes, "_seconds", {torch.bfloat16: 0.0, torch.float32: 1.0}.__getitem__)
    model = load(on_cpu(folder, dtype="auto", lora=None), seed=0)
    assert all(p.requires_grad and p.dtype == torch.float32 for p in model.module.parameters())
    assert load(on_cpu(folder, dtype="auto"), seed=0).dtype == torch.bfloat16


def test_the_seed_decides_the_adapter_and_the_global_generator_is_untouched(folder: Path) -> None:
    state = torch.random.get_rng_state()
    first, same, other = (dict(owned(load(on_cpu(folder), seed).module)) for seed in (1, 1, 2))
    assert torch.equal(state, torch.random.get_rng_state())
    name = "model.layers.0.self_attn.q_proj.lora_A"
    assert torch.equal(first[name], same[name])
    assert not torch.equal(first[name], other[name])


def test_an_adapter_without_lora_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"model.adapter: .*lora is off"):
        load(on_cpu(folder, lora=None, adapter="somewhere"), seed=0)


def test_a_model_with_missing_weights_is_refused_rather_than_filled_at_random(own: Path) -> None:
    weights = load_file(own / "model.safetensors")
    weights.pop("model.layers.1.mlp.up_proj.weight")
    save_file(weights, own / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=r"lacks 1 weights, such as model.layers.1.mlp.up_proj.weight"):
        load(on_cpu(own), seed=0)


@pytest.mark.parametrize("spoil", ["model.safetensors", "tokenizer.json"])
def test_a_folder_that_lacks_a_file_is_one_clear_error(own: Path, spoil: str) -> None:
    (own / spoil).unlink()
    (own / "tokenizer_config.json").unlink()
    with pytest.raises(ConfigError, match=r"model.source: transformers cannot load"):
        load(on_cpu(own), seed=0)


def test_an_unknown_kind_of_model_is_one_clear_error(own: Path) -> None:
    config = json.loads((own / "config.json").read_text())
    (own / "config.json").write_text(json.dumps(config | {"model_type": "no-such-type"}))
    with pytest.raises(ConfigError, match=r"model.source: transformers cannot load.*no-such-type"):
        load(on_cpu(own), seed=0)


def test_attention_with_a_window_is_refused_when_loading(own: Path) -> None:
    config = json.loads((own / "config.json").read_text())
    config |= {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 8}
    (own / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match=r"attention that is not supported"):
        load(on_cpu(own), seed=0)


def test_a_hub_that_cannot_be_reached_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(self: object, name: str, timeout: float) -> None:
        asked.append((name, timeout))
        raise OSError("no network.\nlong advice")

    monkeypatch.setattr(pretrained.HfApi, "model_info", refuse)
    with pytest.raises(ConfigError, match=r"'owner/no-such-model' is no folder.*\(no network\)"):
        load(Model(source="owner/no-such-model", dtype="float32", device="cpu"), seed=0)
    assert asked == [("owner/no-such-model", 10.0)]


def tokenizer_with(folder: Path, template: str | None, eos: str | None) -> PreTrainedTokenizerFast:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.eos_token = eos
    tokenizer.chat_template = template
    return tokenizer


def test_turns_end_at_every_end_token_and_at_the_templates(folder: Path) -> None:
    tokenizer = tokenizer_with(folder, tiny.TEMPLATE, "<|pad|>")
    end, pad = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|pad|>"])
    assert stop_tokens(tokenizer, None) == {end, pad}
    assert stop_tokens(tokenizer, GenerationConfig(eos_token_id=[3, 4])) == {3, 4, end, pad}
    assert stop_tokens(tokenizer, GenerationConfig(eos_token_id=5)) == {5, end, pad}


def test_text_after_an_answer_is_no_stop_token(folder: Path) -> None:
    template = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"
    tokenizer = tokenizer_with(folder, template, "<|pad|>")
    assert stop_tokens(tokenizer, None) == {tokenizer.convert_tokens_to_ids("<|pad|>")}


def test_a_tokenizer_without_an_end_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="no end token"):
        stop_tokens(tokenizer_with(folder, None, None), GenerationConfig())
