"""The nouns of the project: what a task is, what was sampled, and what it earned.

Plain frozen data without torch, so every part and every user's domain can import it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from posttrain.protocols import Sandbox, Session

JSON = None | bool | int | float | str | list[Any] | dict[str, Any]
"""What a JSON document can hold; task references and set-ups are made of it."""

Split = Literal["train", "eval"]
Stop = Literal["stop", "length", "context", "deadline", "error"]
"""Why an episode ended: a stop token, the token limit, a full context, a deadline, a failing domain."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of one tool by the policy, with arguments as plain JSON.

    `problem` says why what was written is no call (name and arguments are then empty), or is ''.
    """

    id: str
    name: str
    arguments: Mapping[str, Any]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message: `role` is system, user, assistant or tool."""

    role: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """One piece of work; `reference` (gold answers, hidden tests) never reaches the policy."""

    id: str
    domain: str
    level: int
    prompt: tuple[Message, ...]
    reference: Mapping[str, Any]
    tools: tuple[Mapping[str, Any], ...] = ()
    setup: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Turn:
    """Consecutive tokens by one author; `logprobs` is None where the policy did not write them.

    `logprobs` are natural logarithms under the sampling distribution, aligned with `tokens`;
    `version` is the weight version that wrote the turn (None for prompts and observations).
    """

    message: Message
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...] | None = None
    version: int | None = None

    @property
    def by_policy(self) -> bool:
        return self.logprobs is not None


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One attempt as sampled, never edited: turns[0] is the rendered prompt."""

    task: Task
    turns: tuple[Turn, ...]
    stop: Stop
    temperature: float = 1.0

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(token for turn in self.turns for token in turn.tokens)

    @property
    def num_sampled(self) -> int:
        """Count the tokens that the policy wrote."""
        return sum(len(turn.tokens) for turn in self.turns if turn.by_policy)

    @property
    def answer(self) -> str:
        """Return the text of the policy's last turn, or '' if it wrote none."""
        return next((t.message.content for t in reversed(self.turns) if t.by_policy), "")


QUARANTINE = "quarantine"
"""The flag of an attempt that is recorded for review and never trained on."""


@dataclass(frozen=True, slots=True)
class Reward:
    """A verdict: the value that trains, the parts it is made of, and what looks suspicious.

    `by_turn` holds one process reward for each turn of the policy, or nothing. An attempt with the flag
    QUARANTINE is left out of baselines and loss.
    """

    value: float
    parts: Mapping[str, float] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    by_turn: tuple[float, ...] = ()

    @property
    def is_quarantined(self) -> bool:
        return QUARANTINE in self.flags


@dataclass(frozen=True, slots=True)
class Unjudged:
    """No verdict: infrastructure failed (`kind`: deadline, error, invalid, infra), not the policy."""

    kind: str
    detail: str


Verdict = Reward | Unjudged


@dataclass(frozen=True, slots=True)
class Group:
    """Several attempts at one task with their verdicts: the record every trainer eats.

    RL: k samples. SFT: one demonstration. Preference data: two, rewarded 1 and 0.
    """

    sequence: int
    task: Task
    trajectories: tuple[Trajectory, ...]
    verdicts: tuple[Verdict, ...]

    def __post_init__(self) -> None:
        assert len(self.trajectories) == len(self.verdicts), "one verdict for each trajectory"

    @property
    def judged(self) -> tuple[tuple[Trajectory, Reward], ...]:
        """Return the attempts that have a reward, in order."""
        pairs = zip(self.trajectories, self.verdicts, strict=True)
        return tuple((t, v) for t, v in pairs if isinstance(v, Reward))

    @property
    def values(self) -> tuple[float, ...]:
        """Return the reward values of the judged attempts, in order."""
        return tuple(reward.value for _, reward in self.judged)


SizeFunction = Callable[[Split, int], "int | None"]
TaskFunction = Callable[[Split, int, int], Task]
VerifyFunction = Callable[[Trajectory, "Sandbox", Mapping[str, bytes]], Awaitable[Reward]]
RespondFunction = Callable[[Trajectory, "Session | None"], Awaitable["tuple[Message, ...] | None"]]


@dataclass(frozen=True, slots=True)
class Domain:
    """A kind of work: where its tasks come from and how an attempt is judged.

    size(split, level) -> number of tasks, or None for endless ones
    task(split, level, index) -> Task; pure; splits are disjoint; epoch = index // size
    verify(trajectory, sandbox, files) -> Reward; async
    respond(trajectory, session) -> messages that answer the last turn, or None to end; async
    success: an attempt succeeds when its reward's value is at least this
    levels: difficulties 0 … levels - 1
    """

    name: str
    size: SizeFunction
    task: TaskFunction
    verify: VerifyFunction
    respond: RespondFunction | None = None
    levels: int = 1
    success: float = 1.0
    deterministic: bool = True
    max_turns: int = 8
