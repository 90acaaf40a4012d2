"""TOML and dotted overrides → typed objects; errors name file, key and the nearest right spelling."""

from posttrain.config.parts import construct, find
from posttrain.config.plain import to_plain, to_toml
from posttrain.config.source import read, table
from posttrain.config.typed import build
from posttrain.config.wording import meant

__all__ = ["build", "construct", "find", "meant", "read", "table", "to_plain", "to_toml"]
