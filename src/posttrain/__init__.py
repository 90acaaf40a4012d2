"""RL post-training of language models on verifiable work; this module loads no torch."""

from posttrain.types import (
    Domain,
    Group,
    Message,
    Reward,
    Task,
    ToolCall,
    Trajectory,
    Turn,
    Unjudged,
    Verdict,
)

__version__ = "0.1.0"

__all__ = [
    "Domain",
    "Group",
    "Message",
    "Reward",
    "Task",
    "ToolCall",
    "Trajectory",
    "Turn",
    "Unjudged",
    "Verdict",
    "__version__",
]
