"""Algorithms: rewards → advantages → losses, pure functions on tensors."""

ALGORITHMS: dict[str, str] = {
    "cispo": "posttrain.algorithms.cispo:CISPO",
    "dapo": "posttrain.algorithms.dapo:DAPO",
    "dr_grpo": "posttrain.algorithms.dr_grpo:DrGRPO",
    "grpo": "posttrain.algorithms.grpo:GRPO",
    "gspo": "posttrain.algorithms.gspo:GSPO",
    "reinforce_pp": "posttrain.algorithms.reinforce_pp:ReinforcePP",
    "rloo": "posttrain.algorithms.rloo:RLOO",
    "sft": "posttrain.algorithms.sft:SFT",
}
"""Short names for configurations, each with the module and class behind it."""
