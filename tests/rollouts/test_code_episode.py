"""Self-repair through the collector: a real box between turns, a verdict on the last answer, replay."""

from __future__ import annotations

from collections.abc import Callable

from posttrain.batch import Batch
from posttrain.domains.code import task_of
from posttrain.domains.code_repair import Repair
from posttrain.domains.problem import Problem
from posttrain.protocols import Case, Draw, Limits, Request, Sampling
from posttrain.rollouts.collect import Collector, Harvest
from posttrain.rollouts.judge import Deadlines
from posttrain.sandbox import Local
from posttrain.types import Domain, Reward

ANSWERS = ("def f(x) x", "def f(x): return 3", "def f(x): return x")
LIMITS = Limits(cpu_seconds=2.0, wall_seconds=20.0)
SAME = Problem("same", "Return x.", "f", (Case(1, "f", (1,), hidden=False),), (Case(2, "f", (2,)),))


def draw() -> Draw:
    repair, task = Repair(limits=LIMITS, by_turn=True, instruction=""), task_of(SAME, "d")

    async def verify(trajectory: object, sandbox: object, files: object) -> Reward:
        return await repair.judge(trajectory, sandbox)  # type: ignore[arg-type]

    domain = Domain("d", lambda s, n: 1, lambda s, n, i: task, verify, repair.respond, max_turns=5)
    return Draw(0, domain, task)


def says(request: Request) -> str:
    # The second attempt is right at once.
    return ANSWERS[-1] if request.key.attempt else ANSWERS[request.key.turn]


async def collected(collector_of: Callable[..., Collector]) -> Harvest:
    sandbox = await Local(workers=2).open()
    try:
        collector = collector_of(
            says, sandbox=sandbox, attempts=2, sampling=Sampling(max_tokens=64),
            deadlines=Deadlines(verify_seconds=60.0, respond_seconds=60.0), boxes=2,
        )  # fmt: skip
        return await collector.collect([draw()])
    finally:
        await sandbox.close()


async def test_an_episode_is_repaired_in_real_boxes_and_replays_bit_for_bit(
    collector_of: Callable[..., Collector],
) -> None:
    (group,) = (await collected(collector_of)).groups
    repaired, right = group.trajectories
    assert [turn.message.content for turn in repaired.turns if turn.by_policy] == list(ANSWERS)
    assert "does not compile" in repaired.turns[2].message.content
    assert "f(1) gives 3" in repaired.turns[4].message.content
    assert sum(turn.by_policy for turn in right.turns) == 1
    first, second = (reward for _, reward in group.judged)
    assert (first.value, first.by_turn, first.parts["repaired"]) == (1.0, (-1.0, 1.0, 1.0), 1.0)
    assert (second.value, second.by_turn, "repaired" in second.parts) == (1.0, (1.0,), False)
    (again,) = (await collected(collector_of)).groups
    assert again == group


async def test_only_what_the_policy_wrote_is_trained(collector_of: Callable[..., Collector]) -> None:
    (group,) = (await collected(collector_of)).groups
    batch = Batch.of([group])
    for row, trajectory in enumerate(group.trajectories):
        mask = [float(turn.by_policy) for turn in trajectory.turns for _ in turn.tokens]
        assert batch.mask[row].tolist()[: len(mask)] == mask
        assert batch.mask[row].sum() == trajectory.num_sampled
