"""Any domain can be paid by weighted and gated parts, from settings too."""

from posttrain.config import construct
from posttrain.domains import DOMAINS
from posttrain.sandbox.scripted import ScriptedSandbox
from posttrain.types import Domain, Message, Task, Trajectory, Turn


def attempt(task: Task, text: str) -> Trajectory:
    return Trajectory(task, (Turn(Message("assistant", text), (1,), (0.0,), 0),), "stop")


async def test_a_mixed_domain_is_made_from_settings_and_gates_hold() -> None:
    spec = {
        "use": "mixed",
        "domain": {"use": "math"},
        "weights": {"reward": 1, "style": 1},
        "gates": {"equal": {"at_least": 1.0, "value": -0.5}},
        "name": "tidy",
    }
    domain = construct(spec, DOMAINS, source="x.toml", key="domains.0", expected=Domain)
    assert isinstance(domain, Domain)
    task = domain.task("train", 0, 0)
    gold = str(task.reference["gold"])
    right = await domain.verify(attempt(task, f"total = {gold}\nThe answer is {gold}"), ScriptedSandbox(), {})
    assert (task.domain, right.value, right.parts["reward"], right.parts["style"]) == ("tidy", 0.5, 1.0, 0.0)
    tidy = await domain.verify(
        attempt(task, f"# the answer is: {gold}\n```\nx = 1\n```"), ScriptedSandbox([]), {}
    )
    assert (tidy.value, tidy.parts["style"]) == (1.0, 1.0)
    wrong = await domain.verify(attempt(task, ""), ScriptedSandbox(), {})
    assert wrong.value == -0.5
