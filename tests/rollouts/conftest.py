"""A collector over a scripted engine and the tiny model's tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from transformers import AutoTokenizer

from posttrain.chat.template import Chat
from posttrain.engines.scripted import Scripted
from posttrain.models import tiny
from posttrain.protocols import Draw, Request, Sampling
from posttrain.rollouts.collect import Collector
from posttrain.rollouts.judge import Deadlines
from posttrain.runtime.inline import Aside
from posttrain.sandbox.scripted import ScriptedSandbox
from posttrain.types import Domain, Message, Reward, Task, Trajectory


@pytest.fixture(scope="session")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Chat:
    tokenizer = AutoTokenizer.from_pretrained(tiny.make(tmp_path_factory.mktemp("tiny") / "model"))
    return Chat(tokenizer, frozenset({tokenizer.convert_tokens_to_ids("<|im_end|>")}))


@pytest.fixture
def aside() -> Iterator[Aside]:
    aside = Aside()
    yield aside
    aside.close()


@pytest.fixture
def collector_of(chat: Chat, aside: Aside) -> Callable[..., Collector]:
    """Return what makes a collector whose policy says `say(request)`."""

    def make(say: Callable[[Request], str], **changes: object) -> Collector:
        settings: dict[str, object] = {
            "engine": Scripted(lambda request: chat.answer(say(request)), chat.stop_tokens),
            "chat": chat,
            "sandbox": ScriptedSandbox(),
            "aside": aside,
            "sampling": Sampling(max_tokens=16),
            "deadlines": Deadlines(verify_seconds=0.2, respond_seconds=0.2, retries=1),
            "attempts": 3,
            "context": 2048,
            "seed": 0,
            "purpose": "train",
        }
        return Collector(**{**settings, **changes})  # type: ignore[arg-type]

    return make


async def says_yes(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
    return Reward(float(trajectory.answer == "yes"))


def draw_of(sequence: int = 0, prompt: str = "?", **functions: object) -> Draw:
    task = Task(f"t{sequence}", "d", 0, (Message("user", prompt),), {"answer": "yes"})
    settings = {"verify": says_yes, **functions}
    return Draw(sequence, Domain("d", lambda s, n: None, lambda s, n, i: task, **settings), task)  # type: ignore[arg-type]


@pytest.fixture
def make_draw() -> Callable[..., Draw]:
    return draw_of
