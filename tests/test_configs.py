"""Every shipped configuration is complete and resolves."""

from pathlib import Path

import pytest

from posttrain import assembly

ROOT = Path(__file__).parent.parent
CONFIGS = [*sorted((ROOT / "configs").glob("*.toml")), ROOT / "src/posttrain/demo/demo.toml"]


def test_there_are_configurations() -> None:
    assert len(CONFIGS) >= 3


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_a_shipped_configuration_resolves(path: Path) -> None:
    config = assembly.read(path)
    assert len(assembly.domains(config, str(path))) == len(config.domains)
    assert assembly.algorithm(config, str(path)).needs == frozenset()
