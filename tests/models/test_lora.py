import copy

import pytest
import torch
from torch import nn

from posttrain.errors import ConfigError
from posttrain.models.lora import Lora, LoraLinear, add_lora, load_owned, owned, twin


def net() -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))


def adapted(seed: int = 0, rank: int = 2) -> nn.Sequential:
    module = net()
    add_lora(module, Lora(rank=rank, alpha=4.0), seed)
    return module


def fill(module: nn.Module, seed: int = 5) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, parameter in owned(module):
            parameter.normal_(generator=generator)


def test_an_adapted_layer_computes_w_x_plus_scaled_b_a_x_by_hand() -> None:
    base = nn.Linear(2, 2, bias=False)
    layer = LoraLinear(base, Lora(rank=1, alpha=3.0), torch.Generator())
    with torch.no_grad():
        base.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        layer.lora_A.copy_(torch.tensor([[1.0, -1.0]]))
        layer.lora_B.copy_(torch.tensor([[2.0], [5.0]]))
    # W x = (5, 11); A x = 1 - 2 = -1; scaled by 3, B A x = (-6, -15)
    torch.testing.assert_close(layer(torch.tensor([1.0, 2.0])), torch.tensor([-1.0, -4.0]))


def test_a_fresh_adapter_changes_no_output_and_freezes_the_base() -> None:
    module, x = adapted(), torch.ones(3, 2, 4)
    torch.testing.assert_close(module(x), net()(x))
    trainable = {name for name, p in module.named_parameters() if p.requires_grad}
    assert trainable == {"0.lora_A", "0.lora_B", "2.lora_A", "2.lora_B"}
    assert [name for name, _ in owned(module)] == ["0.lora_A", "0.lora_B", "2.lora_A", "2.lora_B"]


def test_the_seed_decides_the_start_and_the_global_generator_is_untouched() -> None:
    before = torch.random.get_rng_state()
    first, same, other = (dict(owned(adapted(seed))) for seed in (7, 7, 8))
    torch.testing.assert_close(first["0.lora_A"], same["0.lora_A"], rtol=0, atol=0)
    assert not torch.equal(first["0.lora_A"], other["0.lora_A"])
    assert first["0.lora_A"].abs().max() <= 4**-0.5
    assert torch.equal(before, torch.random.get_rng_state())


def test_targets_choose_layers_by_name_and_a_wrong_name_lists_the_right_ones() -> None:
    module = net()
    add_lora(module, Lora(targets=("2",)), 0)
    assert isinstance(module[2], LoraLinear)
    assert not isinstance(module[0], LoraLinear)
    with pytest.raises(ConfigError, match=r"model.lora.targets.*q_proj.*This model has 0, 2"):
        add_lora(net(), Lora(targets=("q_proj",)), 0)


def test_a_bfloat16_base_keeps_float32_adapters_that_get_gradients() -> None:
    module = net().to(torch.bfloat16)
    add_lora(module, Lora(rank=2), 0)
    out = module(torch.ones(5, 4, dtype=torch.bfloat16))
    out.float().sum().backward()
    assert out.dtype == torch.bfloat16
    assert all(p.dtype == torch.float32 and p.grad is not None for _, p in owned(module))


def test_a_twin_shares_the_base_and_owns_its_adapter() -> None:
    module = adapted()
    fill(module)
    copied, x = twin(module), torch.randn(2, 4, generator=torch.Generator().manual_seed(0))
    before = copied(x)
    torch.testing.assert_close(before, module(x))
    assert copied[0].base.weight is module[0].base.weight
    assert not any(p.requires_grad for p in copied.parameters())
    assert all(p.requires_grad for _, p in owned(module))
    fill(module, seed=6)
    torch.testing.assert_close(copied(x), before, rtol=0, atol=0)
    assert not torch.allclose(module(x), before)


def test_the_twin_of_a_plain_module_copies_all_weights() -> None:
    module = net()
    copied = twin(module)
    assert copied[0].weight is not module[0].weight
    assert [name for name, _ in owned(module)] == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_a_twin_in_bfloat16_computes_the_very_numbers_of_training() -> None:
    module = net().to(torch.bfloat16)
    add_lora(module, Lora(rank=2), 0)
    fill(module)
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    copied = twin(module)
    assert torch.equal(copied(x), module(x))
    assert {p.dtype for p in copied.parameters()} == {torch.bfloat16}


def test_loading_weights_copies_them_and_keeps_the_givers_apart() -> None:
    giver, taker = adapted(), adapted(seed=9)
    fill(giver)
    weights = dict(owned(giver))
    load_owned(taker, weights)
    x = torch.ones(1, 4)
    torch.testing.assert_close(taker(x), giver(x))
    fill(giver, seed=1)
    assert not torch.allclose(taker(x), giver(x))


def test_weights_of_other_names_or_shapes_are_refused() -> None:
    module = adapted()
    weights = {name: p.clone() for name, p in owned(copy.deepcopy(module))}
    with pytest.raises(ConfigError, match=r"model.lora.rank: 0.lora_A has shape \(3, 4\).*\(2, 4\)"):
        load_owned(module, dict(owned(adapted(rank=3))))
    del weights["2.lora_B"]
    with pytest.raises(ConfigError, match=r"2\.lora_B"):
        load_owned(module, weights)
