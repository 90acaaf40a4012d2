"""Code is found in awkward answers, and verdicts weigh what the table says."""

from typing import get_args

import pytest

from posttrain.errors import RunFailed
from posttrain.protocols import CaseResult, Status
from posttrain.rewards.code import FLAGS, MEANINGS, CodeReward, extract_code, no_code, weighed


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("x = 1", "x = 1"),
        ("", ""),
        ("Here:\n```python\nx = 1\n```", "x = 1\n"),
        ("```\na\n```\nno, rather\n```py\nb\n```\nDone.", "b\n"),
        ("```python\nx = 1", "x = 1"),
        ("```python\nx = '''\n```\ny\n'''", "x = '''\n"),
        ("````\n```\ninner\n```\n````", "```\ninner\n```\n"),
        ("~~~\na\n~~~", "a\n"),
        ("~~~\n```\n~~~", "```\n"),
        ('```python title="a.py"\r\nx = 1\r\n```\r\n', "x = 1\n"),
        ("Use ```x``` inline.\nx = 2", "Use ```x``` inline.\nx = 2"),
        ("```x = 1```", "```x = 1```"),
        ("  ```\n  x = 1\n  ```", "  x = 1\n"),
        ("```\n```", ""),
        ("```", ""),
        ("a\n```\nx\n``` not a closing fence\ny\n```", "x\n``` not a closing fence\ny\n"),
        ("\ud800```", "\ud800```"),
    ],
)
def test_code_is_taken_out_of_an_answer(answer: str, code: str) -> None:
    assert extract_code(answer) == code


def test_a_very_long_answer_counts_from_its_end() -> None:
    assert extract_code("x" * 10**6 + "\n```\nx = 1\n```") == "x = 1\n"


def results(*statuses: Status) -> list[CaseResult]:
    return [CaseResult(status) for status in statuses]


def test_every_status_has_a_meaning_and_only_attempts_to_tamper_a_flag() -> None:
    assert set(MEANINGS) == set(get_args(Status))
    assert set(FLAGS) == {status for status, meaning in MEANINGS.items() if meaning == "tampering"}


def test_the_value_is_the_passed_share_of_hidden_tests_alone() -> None:
    reward = weighed(results("WRONG", "OK"), results("OK", "OK", "RUNTIME_ERROR", "MEMORY"))
    assert reward.value == 0.5
    assert reward.parts == {"visible": 0.5, "hidden": 0.5, "compiled": 1.0}
    assert reward.flags == ()


@pytest.mark.parametrize("status", ["WRONG", "RUNTIME_ERROR", "MEMORY", "OUTPUT", "DISK"])
def test_failures_of_other_kinds_are_tests_not_passed(status: Status) -> None:
    assert weighed([], results("OK", status)).value == 0.5


def test_code_that_does_not_compile_and_no_code_earn_the_same() -> None:
    reward = weighed(results("COMPILE_ERROR"), results("COMPILE_ERROR"))
    assert (reward.value, reward.parts["compiled"]) == (-1.0, 0.0)
    assert no_code() == reward
    scheme = CodeReward(compile_error=-0.1)
    assert weighed([], results("COMPILE_ERROR"), scheme).value == no_code(scheme).value == -0.1


@pytest.mark.parametrize(
    ("when", "statuses", "value"),
    [
        ("any", ("OK", "CPU_TIMEOUT"), -0.5),
        ("any", ("WALL_TIMEOUT", "WALL_TIMEOUT"), -0.5),
        ("all", ("OK", "CPU_TIMEOUT"), 0.5),
        ("all", ("CPU_TIMEOUT", "WALL_TIMEOUT"), -0.5),
        ("never", ("CPU_TIMEOUT", "CPU_TIMEOUT"), 0.0),
        ("any", ("OK", "OK"), 1.0),
    ],
)
def test_time_outs_count_as_the_setting_says(when: str, statuses: tuple[Status, ...], value: float) -> None:
    assert weighed([], results(*statuses), CodeReward(timeout_when=when)).value == value  # type: ignore[arg-type]


def test_a_visible_time_out_alone_is_no_time_out() -> None:
    assert weighed(results("CPU_TIMEOUT"), results("OK")).value == 1.0


def test_attempts_to_tamper_earn_nothing_and_leave_a_flag_each() -> None:
    reward = weighed(results("TAMPERED"), results("OK", "SECURITY"))
    assert reward.value == 0.0
    assert set(reward.flags) == {"tampered", "security"}
    assert weighed([], results("TAMPERED"), CodeReward(tampering=-2.0)).value == -2.0


def test_a_missing_verdict_is_never_a_reward() -> None:
    lost = [CaseResult("INFRA", "the worker is lost")]
    for visible, hidden in [(lost, results("OK")), ([], [*results("OK"), *lost])]:
        with pytest.raises(RunFailed, match="the worker is lost"):
            weighed(visible, hidden)
