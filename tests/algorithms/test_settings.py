"""Algorithms as a configuration file names them, nested tables included."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from posttrain import config as toml
from posttrain.algorithms import ALGORITHMS
from posttrain.algorithms.corrections import Correction
from posttrain.algorithms.credit import Overlong
from posttrain.algorithms.dapo import DAPO
from posttrain.algorithms.kl import Divergence
from posttrain.errors import ConfigError
from posttrain.protocols import Algorithm

ROOT = Path(__file__).parent.parent.parent
RL = sorted(ALGORITHMS.keys() - {"sft"})


def made(text: str) -> Algorithm:
    table = tomllib.loads(text)["algorithm"]
    return toml.construct(table, ALGORITHMS, source="run.toml", key="algorithm", expected=Algorithm)


def test_nested_tables_become_components():
    found = made("""
        [algorithm]
        use = "dapo"
        kl = 0.1
        turn_gamma = 1
        overlong = { max_tokens = 64, buffer = 16 }
        divergence = { estimate = "k2", weighted = true }
        correction = { level = "sequence", mask_above = 4, max_shift = 0.2 }
    """)
    assert found == DAPO(
        kl=0.1,
        turn_gamma=1.0,
        overlong=Overlong(64, 16),
        divergence=Divergence("k2", "loss", weighted=True),
        correction=Correction(level="sequence", mask_above=4.0, max_shift=0.2),
    )


@pytest.mark.parametrize("name", RL)
def test_every_algorithm_takes_the_shared_settings_of_the_documentation(name):
    text = (ROOT / "docs/explanation/algorithms.md").read_text(encoding="utf-8")
    snippet = text.partition("```toml\n")[2].partition("```")[0]
    found = made(snippet.replace('"dapo"', f'"{name}"'))
    assert (found.kl, found.entropy, found.turn_gamma) == (0.01, 0.001, 1.0)
    assert found.needs == {"reference", "entropy"}


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_setting_of_an_algorithm_is_documented(name):
    text = (ROOT / "docs/explanation/algorithms.md").read_text(encoding="utf-8")
    names = [field.name for field in fields(made(f'algorithm.use = "{name}"'))]
    assert [each for each in names if each not in text] == []


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_reads_alone_on_a_page(name):
    module = ALGORITHMS[name].partition(":")[0]
    lines = (ROOT / "src" / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            'divergence = { estimate = "k4" }',
            "divergence.estimate: expected one of 'k1', 'k2', 'k3', got 'k4'",
        ),
        ('divergence = { place = "reward", weighted = true }', "divergence: weighted = true has no meaning"),
        (
            "correction = { max_shift = 2.0 }",
            "correction.max_shift: must be less than or equal to 1, got 2.0",
        ),
        ("correction = { mask_abov = 2.0 }", "correction.mask_abov: unknown key. Did you mean 'mask_above'?"),
        ("turn_gamma = 1.5", "turn_gamma: must be less than or equal to 1, got 1.5"),
        ("overlong = { max_tokens = 4, buffer = 8 }", "overlong: buffer = 8 is longer than max_tokens = 4"),
        ("overlong = { max_tokens = 4 }", "overlong.buffer: is missing"),
        ("entropy = -1.0", "entropy: must be greater than or equal to 0, got -1.0"),
    ],
)
def test_a_wrong_setting_is_named_with_its_key(setting, message):
    with pytest.raises(ConfigError) as caught:
        made(f'[algorithm]\nuse = "dapo"\n{setting}')
    assert str(caught.value).startswith(f"run.toml: algorithm.{message}")
