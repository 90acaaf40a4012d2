import json
from dataclasses import replace
from pathlib import Path

import peft
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from posttrain.errors import ConfigError
from posttrain.models import tiny
from posttrain.models.adapter import load_adapter, read_lora, save_adapter, save_merged
from posttrain.models.forward import OneSequence, head_weight, hidden_states
from posttrain.models.language_model import LanguageModel
from posttrain.models.load import Model, load
from posttrain.models.lora import Lora, owned

LORA = Lora(rank=4, alpha=12.0)
TOKENS = torch.arange(20) * 13 % 250


@pytest.fixture(scope="module", params=["untied", "tied"])
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tiny.make(tmp_path_factory.mktemp("base"))
    if request.param == "tied":
        config = LlamaConfig.from_pretrained(folder, tie_word_embeddings=True)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def trained(base: Path, lora: Lora = LORA, dtype: str = "float32") -> LanguageModel:
    """Load `base` and give the adapter weights as if it had been trained."""
    model = load(Model(source=str(base), dtype=dtype, device="cpu", lora=lora), seed=0)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for _, parameter in owned(model.module):
            parameter.normal_(0.0, 0.1, generator=generator)
    return model


@torch.no_grad()
def logits(model: LanguageModel) -> Tensor:
    hidden = hidden_states(model.module, TOKENS, torch.arange(len(TOKENS)), OneSequence())
    return head_weight(model.module)(hidden)


@torch.no_grad()
def peer_logits(folder: Path, adapter: Path | None = None) -> Tensor:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    if adapter:
        model = peft.PeftModel.from_pretrained(model, str(adapter))
    return model.eval()(TOKENS[None]).logits[0]


def edit(folder: Path, **changes: object) -> None:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize("targets", [(), ("q_proj", "down_proj")])
def test_plain_peft_gives_the_logits_of_a_saved_adapter(
    base: Path, tmp_path: Path, targets: tuple[str, ...]
) -> None:
    lora = replace(LORA, targets=targets)
    model = trained(base, lora)
    save_adapter(model.module, lora, tmp_path, str(base))
    assert (logits(model) - peer_logits(base)).abs().max() > 0.1
    torch.testing.assert_close(logits(model), peer_logits(base, tmp_path), atol=1e-5, rtol=0)


def test_an_adapter_that_peft_wrote_is_loaded_with_its_logits(base: Path, tmp_path: Path) -> None:
    config = peft.LoraConfig(r=3, lora_alpha=5, target_modules="all-linear", task_type="CAUSAL_LM")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = peft.get_peft_model(AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), config)
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                torch.nn.init.normal_(parameter, 0.0, 0.1)
    model.save_pretrained(str(tmp_path))
    found = read_lora(tmp_path)
    assert (found.rank, found.alpha) == (3, 5.0)
    assert found.targets == ("down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj")
    settings = Model(str(base), dtype="float32", device="cpu", lora=Lora(3, 5.0), adapter=str(tmp_path))
    torch.testing.assert_close(logits(load(settings, 0)), peer_logits(base, tmp_path), atol=1e-5, rtol=0)


def test_saving_and_loading_gives_back_every_adapter_weight_exactly(base: Path, tmp_path: Path) -> None:
    model = trained(base)
    save_adapter(model.module, LORA, tmp_path, str(base))
    other = load(Model(str(base), dtype="float32", device="cpu", lora=LORA), seed=8)
    load_adapter(other.module, tmp_path)
    for (name, expected), (_, found) in zip(owned(model.module), owned(other.module), strict=True):
        assert torch.equal(expected, found), name
        assert found.requires_grad
    settings = json.loads((tmp_path / "adapter_config.json").read_text())
    assert settings["base_model_name_or_path"] == str(base)
    assert settings["target_modules"] == sorted(settings["target_modules"])


def test_equal_adapters_are_saved_as_equal_bytes(base: Path, tmp_path: Path) -> None:
    model = trained(base)
    saved = set()
    for i in range(8):
        save_adapter(model.module, LORA, tmp_path / str(i), str(base))
        saved.add(b"".join(path.read_bytes() for path in sorted((tmp_path / str(i)).iterdir())))
    assert len(saved) == 1


@pytest.mark.parametrize(
    ("lora", "problem"),
    [
        (replace(LORA, rank=2), r"rank is 4 .* has 2. Set model.lora.rank"),
        (replace(LORA, alpha=3.0), r"alpha is 12 .* has 3. Set model.lora.alpha"),
        (replace(LORA, targets=("q_proj",)), r"also has .*down_proj.* Set model.lora.targets"),
    ],
)
def test_an_adapter_of_other_settings_is_refused_with_what_differs(
    base: Path, tmp_path: Path, lora: Lora, problem: str
) -> None:
    save_adapter(trained(base).module, LORA, tmp_path, str(base))
    with pytest.raises(ConfigError, match=problem):
        load_adapter(trained(base, lora).module, tmp_path)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"use_dora": True}, "use_dora = True"),
        ({"use_rslora": True}, "use_rslora = True"),
        ({"bias": "all"}, "bias = 'all'"),
        ({"modules_to_save": ["lm_head"]}, r"modules_to_save = \['lm_head'\]"),
        ({"rank_pattern": {"q_proj": 8}}, "rank_pattern = .*"),
        ({"fan_in_fan_out": True}, "fan_in_fan_out = True"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights = 'pissa'"),
    ],
)
def test_kinds_of_lora_with_other_arithmetic_are_refused(
    base: Path, tmp_path: Path, changes: dict[str, object], kind: str
) -> None:
    save_adapter(trained(base).module, LORA, tmp_path, str(base))
    edit(tmp_path, **changes)
    with pytest.raises(ConfigError, match=rf"model.adapter: .*{kind} is not supported"):
        read_lora(tmp_path)


def test_an_adapter_folder_that_is_missing_or_broken_is_one_clear_error(base: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model.adapter: .* lacks adapter_config.json"):
        read_lora(tmp_path / "none")
    save_adapter(trained(base).module, LORA, tmp_path, str(base))
    (tmp_path / "adapter_model.safetensors").write_bytes(b"short")
    with pytest.raises(ConfigError, match=r"adapter_model.safetensors cannot be read"):
        read_lora(tmp_path)
    (tmp_path / "adapter_config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"adapter_config.json cannot be read"):
        read_lora(tmp_path)


def test_an_adapter_that_lacks_a_layer_is_refused(base: Path, tmp_path: Path) -> None:
    model = trained(base)
    save_adapter(model.module, LORA, tmp_path, str(base))
    weights = load_file(tmp_path / "adapter_model.safetensors")
    weights.pop("base_model.model.model.layers.1.mlp.up_proj.lora_B.weight")
    save_file(weights, tmp_path / "adapter_model.safetensors")
    with pytest.raises(ConfigError, match=r"lacks .*layers.1.mlp.up_proj.lora_B"):
        load_adapter(model.module, tmp_path)


def test_a_merged_model_is_a_plain_folder_with_the_adapted_logits(base: Path, tmp_path: Path) -> None:
    model = trained(base)
    expected = logits(model)
    save_merged(model, tmp_path / "merged")
    torch.testing.assert_close(peer_logits(tmp_path / "merged"), expected, atol=1e-4, rtol=0)
    assert torch.equal(logits(model), expected), "merging must leave the model as it was"
    assert len(list(owned(model.module))) == 28
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "merged")
    assert tokenizer.chat_template == model.tokenizer.chat_template


def test_a_merged_bfloat16_model_stays_bfloat16_and_close(base: Path, tmp_path: Path) -> None:
    model = trained(base, dtype="bfloat16")
    save_merged(model, tmp_path / "merged")
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert merged.dtype == torch.bfloat16
    weight = merged.model.layers[0].self_attn.q_proj.weight.float()
    layer = model.module.model.layers[0].self_attn.q_proj
    expected = layer.base.weight.float() + 3.0 * layer.lora_B @ layer.lora_A
    torch.testing.assert_close(weight, expected, atol=1e-6, rtol=2**-8)


@pytest.mark.parametrize(("key", "value"), [("r", "4"), ("r", 0), ("r", True), ("lora_alpha", "12")])
def test_numbers_of_an_adapter_s_settings_are_refused_where_they_are_none(
    base: Path, tmp_path: Path, key: str, value: object
) -> None:
    save_adapter(trained(base).module, LORA, tmp_path, str(base))
    edit(tmp_path, **{key: value})
    with pytest.raises(ConfigError, match=rf"{tmp_path}.*: {key} is {value!r}, expected a positive number"):
        read_lora(tmp_path)


def test_an_adapter_of_another_base_is_refused_by_that_base_s_weights(base: Path, tmp_path: Path) -> None:
    other = tiny.make(tmp_path / "other", seed=1)
    save_adapter(trained(other).module, LORA, tmp_path / "adapter", "the-other")
    with pytest.raises(
        ConfigError, match=rf"'{tmp_path}/adapter' was trained on another base \('the-other'\)"
    ):
        load_adapter(trained(base).module, tmp_path / "adapter")


def test_a_base_is_the_same_in_every_dtype_and_under_every_name(base: Path, tmp_path: Path) -> None:
    save_adapter(trained(base).module, LORA, tmp_path, "whatever it was called")
    load_adapter(trained(base, dtype="bfloat16").module, tmp_path)


def test_an_adapter_that_cannot_tell_its_base_and_names_another_is_warned_of(
    base: Path, tmp_path: Path
) -> None:
    model = trained(base)
    save_adapter(model.module, LORA, tmp_path, "someone/another-model")
    weights = tmp_path / "adapter_model.safetensors"
    save_file(load_file(weights), weights, metadata={"format": "pt"})
    with pytest.warns(RuntimeWarning, match=rf"{tmp_path}: made for the base 'someone/another-model'"):
        load_adapter(model.module, tmp_path)


def test_an_adapter_of_another_width_is_refused_with_its_folder(base: Path, tmp_path: Path) -> None:
    model = trained(base)
    save_adapter(model.module, LORA, tmp_path, str(base))
    weights = tmp_path / "adapter_model.safetensors"
    cut = {name: tensor[..., :-1].contiguous() for name, tensor in load_file(weights).items()}
    save_file(cut, weights, metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=rf"'{tmp_path}' does not fit the model: .* has shape"):
        load_adapter(model.module, tmp_path)
