"""Self-repair: an attempt hears what its visible tests show and may answer again; the last answer counts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

from posttrain.domains.code_feedback import feedback
from posttrain.domains.code_judge import LIMITS, judge_problem
from posttrain.domains.code_prompt import INSTRUCTION
from posttrain.domains.problem import Problem
from posttrain.protocols import Limits, Sandbox, Session
from posttrain.rewards.code import CodeReward, extract_code
from posttrain.types import Message, Reward, Trajectory

PASSED = 1.0


@dataclass(frozen=True, slots=True)
class Repair:
    """How attempts of one or several turns are answered and judged."""

    scheme: CodeReward = field(default_factory=CodeReward)
    limits: Limits = LIMITS
    by_turn: bool = False
    instruction: str = INSTRUCTION

    async def respond(self, trajectory: Trajectory, session: Session | None) -> tuple[Message, ...] | None:
        """Return what the visible tests show of the last answer; None where they pass, or without a box."""
        if session is None:
            return None
        turns = sum(turn.by_policy for turn in trajectory.turns)
        problem, source = Problem.of(trajectory.task), extract_code(trajectory.answer)
        found = await feedback(problem, source, session, self.limits, turns)
        if found is None:
            return None
        return (Message("user", f"{found}\n\nCorrect it. {self.instruction}".strip()),)

    async def judge(self, trajectory: Trajectory, sandbox: Sandbox) -> Reward:
        """Return the reward of the last answer.

        After a repair there is a part `repaired`: 1 if the last answer passes all hidden tests; its mean is
        the rate of repairs that succeed. With `by_turn` every turn is judged.
        """
        problem = Problem.of(trajectory.task)
        answers = [turn.message.content for turn in trajectory.turns if turn.by_policy] or [""]
        judged = [
            await judge_problem(problem, extract_code(answer), sandbox, self.scheme, self.limits)
            for answer in (answers if self.by_turn else answers[-1:])
        ]
        last = judged[-1]
        if len(answers) > 1:
            last = replace(last, parts={**last.parts, "repaired": float(last.value >= PASSED)})
        if not self.by_turn:
            return last
        values = [reward.value for reward in judged]
        flags = tuple(dict.fromkeys(flag for reward in judged for flag in reward.flags))
        changes = (values[0], *(after - before for before, after in pairwise(values)))
        return replace(last, by_turn=changes, flags=flags)
