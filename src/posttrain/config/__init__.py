"""TOML and dotted overrides → typed objects; errors name file, key and the nearest right spelling."""

from posttrain.config.parts import construct
from posttrain.config.plain import to_plain, to_toml
from posttrain.config.source import read
from posttrain.config.typed import build

__all__ = ["build", "construct", "read", "to_plain", "to_toml"]
