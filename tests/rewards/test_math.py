"""Answers that are equal as mathematics pass, lies do not, and hostile ones end in their box."""

import asyncio

import pytest

from posttrain.errors import RunFailed
from posttrain.protocols import Limits, RunResult, Status
from posttrain.rewards.math import compared, judged
from posttrain.sandbox import Local
from posttrain.sandbox.scripted import ScriptedSandbox


def ran(status: Status, stdout: bytes) -> RunResult:
    return RunResult(status, 0, stdout, b"", False, 0.0, 0.0, 0)


RIGHT = (("0.5", "\\frac{1}{2}"), ("\\{2,1\\}", "\\{1, 2\\}"), ("(x+1)^2", "x^2+2x+1"))
WRONG = (
    ("[1,2]", "(1,2]"), ("\\text{all real numbers}", "3"), ("1,2,3,4,5", "3"), ("4=3", "3"),
    ("3 \\text{ or } 4", "3"),
)  # fmt: skip


@pytest.mark.slow
def test_mathematics_is_compared_in_boxes() -> None:
    async def all_of_them() -> list[bool]:
        sandbox = await Local().open()
        try:
            pairs = [*RIGHT, ("2+1=3", "3"), *WRONG]
            return [(await compared(answer, gold, sandbox)).equal for answer, gold in pairs]
        finally:
            await sandbox.close()

    assert asyncio.run(all_of_them()) == [True] * 4 + [False] * len(WRONG)


def test_a_fraction_passes_and_an_endless_power_is_wrong_with_a_flag() -> None:
    async def both() -> tuple[object, ...]:
        sandbox = await Local().open()
        try:
            good = await judged("So \\boxed{0.5}.", "\\frac{1}{2}", sandbox)
            tower = await judged(
                "\\boxed{9^{9^{9}}}", "3", sandbox, Limits(cpu_seconds=4.0, wall_seconds=60.0)
            )
            return good.value, tower.value, tower.flags
        finally:
            await sandbox.close()

    good, tower, flags = asyncio.run(both())
    assert (good, tower) == (1.0, 0.0)
    assert flags in (("math time-out",), ("math memory",))


async def test_text_and_numbers_need_no_box_and_form_decides_the_rest() -> None:
    nothing = ScriptedSandbox()  # would fail if it were asked
    assert (await compared("3.0", "3", nothing)).equal
    assert (await compared("1" * 1_000_000, "3", nothing)).flag == "long answer"
    for answer in ("", "4} \\boxed{3", "\\boxed{3", "}{", "{{{{"):
        assert not (await compared(answer, "3", nothing)).equal


async def test_only_the_last_of_several_boxed_answers_counts() -> None:
    assert (await judged("\\boxed{4} or \\boxed{3}", "3", ScriptedSandbox())).value == 1.0
    nope = ScriptedSandbox([ran("OK", b"gold\nfalse\n")])
    assert (await judged("\\boxed{3} or \\boxed{4}", "3", nope)).value == 0.0


async def test_before_gold_is_read_a_failure_is_ours_and_afterwards_the_answer_s() -> None:
    for broken in (ran("INFRA", b""), ran("RUNTIME_ERROR", b""), ran("CPU_TIMEOUT", b"")):
        with pytest.raises(RunFailed):
            await compared("4", "3", ScriptedSandbox([broken]))
    found = await compared("4", "3", ScriptedSandbox([ran("MEMORY", b"gold\n")]))
    assert (found.equal, found.flag) == (False, "math memory")
