"""Work with tools: simulated APIs over a private state, multi-turn, judged by what is true at the end."""

from posttrain.domains.tools.domain import tools

__all__ = ["tools"]
