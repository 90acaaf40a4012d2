"""The seams: what a sandbox, an engine, an algorithm, a curriculum must offer.

Parts get each other as arguments typed by these protocols; `assembly` chooses who is behind them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from posttrain.types import Domain, Group, Task

if TYPE_CHECKING:
    from torch import Tensor

    from posttrain.batch import Batch

Weights = Mapping[str, "Tensor"]
"""What moves from the policy to an engine: named tensors, owned by the receiver."""

Purpose = Literal["train", "probe", "eval", "sft"]


# --- sampling ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SampleKey:
    """Identify one turn of one attempt; all its randomness is a function of this key."""

    seed: int
    purpose: Purpose
    group: int
    attempt: int
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample: log-probabilities are those of exactly this distribution.

    `top_k = 0` and `top_p = 1.0` keep the whole vocabulary. `temperature` must be positive.
    """

    temperature: float = 1.0
    max_tokens: int = 64
    top_p: float = 1.0
    top_k: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """One turn to sample after `prompt` (token ids); equal prompts are computed once."""

    prompt: tuple[int, ...]
    key: SampleKey
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class Completion:
    """What was sampled: the stop token, if any, is the last of `tokens`."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    stop: Literal["stop", "length", "context"]
    version: int


class Engine(Protocol):
    """Sample from a versioned copy of the policy's weights."""

    @property
    def version(self) -> int:
        """Return the version of the weights that the next wave is sampled with."""
        ...

    async def generate(self, wave: Sequence[Request]) -> list[Completion]:
        """Sample one wave; results are aligned with it and depend on nothing but the wave and weights."""
        ...

    async def load(self, weights: Weights, version: int) -> None:
        """Copy new weights in and drop every cache made with the old ones."""
        ...


# --- learning ----------------------------------------------------------------------------------

Denominator = Literal["tokens", "rows", "constant"]
"""What a summed loss is divided by: the batch's global count of scored tokens, of rows, or 1."""


@dataclass(frozen=True, slots=True)
class Term:
    """One loss component of a micro-batch: a sum and the kind of its global denominator."""

    sum: Tensor
    denominator: Denominator


@dataclass(frozen=True, slots=True)
class Outputs:
    """What the current policy says of a (micro-)batch; tensors [row, time], 0 where not scored.

    `entropy` (nats, with gradient) is present when the algorithm needs it.
    """

    logprobs: Tensor
    entropy: Tensor | None = None
    values: Tensor | None = None


Need = Literal["reference", "anchor", "entropy", "values"]


class Algorithm(Protocol):
    """Turn rewards into advantages and advantages into a loss; pure functions of tensors."""

    @property
    def needs(self) -> frozenset[Need]:
        """Name what must be computed beside the current log-probabilities."""
        ...

    def keeps(self, group: Group) -> bool:
        """Tell whether a group carries a training signal."""
        ...

    def advantages(self, batch: Batch) -> Tensor:
        """Return advantages [row, time], 0 outside the mask."""
        ...

    def loss(self, outputs: Outputs, batch: Batch) -> Mapping[str, Term]:
        """Return named components; the policy minimises the sum of sum/denominator."""
        ...


# --- choosing work -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Draw:
    """One task to attempt: `sequence` orders groups and keys their randomness."""

    sequence: int
    domain: Domain
    task: Task


class Curriculum(Protocol):
    """Choose the next tasks from what groups have shown so far."""

    def draw(self, count: int) -> list[Draw]:
        """Return the next draws, in sequence order."""
        ...

    def observe(self, groups: Sequence[Group]) -> None:
        """Take in finished groups."""
        ...

    def weights(self, groups: Sequence[Group]) -> list[float]:
        """Return each group's weight in the loss (1.0 is neutral)."""
        ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


# --- running untrusted code ------------------------------------------------------------------------

Status = Literal[
    "OK", "WRONG", "COMPILE_ERROR", "RUNTIME_ERROR", "CPU_TIMEOUT", "WALL_TIMEOUT",
    "MEMORY", "OUTPUT", "DISK", "SECURITY", "TAMPERED", "INFRA",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may use; CPU time decides, wall time is a back-stop."""

    cpu_seconds: float = 10.0
    wall_seconds: float = 30.0
    memory_bytes: int = 512 * 2**20
    output_bytes: int = 1 * 2**20
    disk_bytes: int = 64 * 2**20
    num_processes: int = 1
    num_files: int = 256


@dataclass(frozen=True, slots=True)
class Program:
    """What to run: `language` ('python', 'shell', 'c++', 'command'), its source, files and input."""

    language: str
    source: str = ""
    arguments: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    stdin: bytes = b""
    collect: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended and what it printed; a verdict of the kernel's, never of the candidate's."""

    status: Status
    exit_code: int | None
    stdout: bytes
    stderr: bytes
    truncated: bool
    cpu_seconds: float
    wall_seconds: float
    peak_memory_bytes: int
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    """One test: call `function` with `arguments` (or feed `stdin`) and compare outside with `expected`."""

    expected: Any
    function: str | None = None
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    stdin: bytes = b""
    comparator: str = "exact"
    hidden: bool = True


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The verdict on one case, with what the candidate answered (capped) for feedback."""

    status: Status
    detail: str = ""
    cpu_seconds: float = 0.0
    peak_memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TestResult:
    """All cases' verdicts in order; `trust` is 'strong' when comparison happened outside the box."""

    __test__ = False

    status: Status
    cases: tuple[CaseResult, ...]
    trust: Literal["strong", "weak"] = "strong"

    @property
    def passed_share(self) -> float:
        """Return the share of cases that passed; 0.0 without cases."""
        return sum(case.status == "OK" for case in self.cases) / max(1, len(self.cases))


class Session(Protocol):
    """A stateful place for tools: files and interpreter state persist between runs."""

    async def run(self, program: Program, limits: Limits = Limits()) -> RunResult: ...

    async def close(self) -> None: ...


class Sandbox(Protocol):
    """Run untrusted programs away from the trainer; each `run` and `test` opens a fresh box."""

    async def run(self, program: Program, limits: Limits = Limits()) -> RunResult: ...

    async def test(
        self, program: Program, cases: Sequence[Case], limits: Limits = Limits()
    ) -> TestResult: ...

    async def session(self, files: Mapping[str, bytes], limits: Limits = Limits()) -> Session: ...

    async def close(self) -> None: ...


Box = Session
"""One isolated place: a session is a box that outlives a single run."""


# --- keeping records -----------------------------------------------------------------------------


class Store(Protocol):
    """Keep immutable blobs by name; `put` is durable and never replaces an existing name."""

    def put(self, name: str, blob: bytes) -> None: ...

    def get(self, name: str) -> bytes: ...

    def list(self, prefix: str) -> Iterable[str]: ...

    def delete(self, name: str) -> None: ...
