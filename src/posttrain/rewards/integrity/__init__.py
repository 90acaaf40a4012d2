"""Rewards that resist hacking: what an answer shows of being made for its tests, and what that costs it.

Two judgements stay apart. Lowering: what is no better than chance or a memory of the visible tests earns
nothing, and says nothing of intent. Accusing: a flag needs independent signs, and each flag has a policy.
Everything here is a function of sources, cases and verdicts; what runs in boxes is in `domains.guarded`.
"""

from posttrain.rewards.integrity.settings import FLAGS, Flag, Integrity, Response

__all__ = ["FLAGS", "Flag", "Integrity", "Response"]
