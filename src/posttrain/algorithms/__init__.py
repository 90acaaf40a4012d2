"""Algorithms: rewards → advantages → losses, pure functions on tensors."""

ALGORITHMS: dict[str, str] = {
    "grpo": "posttrain.algorithms.grpo:GRPO",
    "dr_grpo": "posttrain.algorithms.dr_grpo:DrGRPO",
    "rloo": "posttrain.algorithms.rloo:RLOO",
    "sft": "posttrain.algorithms.sft:SFT",
}
"""Short names for configurations, each with the module and class behind it."""
