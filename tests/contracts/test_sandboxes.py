"""The sandbox contract finds each broken rule; scripted results stand in for real sandboxes."""

import asyncio

import pytest

from posttrain.contracts.sandbox import check_sandbox
from posttrain.protocols import RunResult, TestResult
from posttrain.sandbox.scripted import ScriptedSandbox, compared, ran

# PRINT, CRASH, WRITE, READ, then WRITE and READ in a session.
GOOD = (ran(b"42\n"), ran(b"", "RUNTIME_ERROR"), ran(), ran(b"", "RUNTIME_ERROR"), ran(), ran(b"here\n"))


def rules(runs: tuple[RunResult, ...], test: TestResult) -> list[str]:
    return [finding.rule for finding in asyncio.run(check_sandbox(ScriptedSandbox(runs, [test])))]


def test_a_sandbox_that_does_as_it_should_has_no_findings() -> None:
    assert rules(GOOD, compared("OK", "WRONG")) == []


@pytest.mark.parametrize(
    ("position", "result", "rule"),
    [
        (0, ran(b"41\n"), "output is returned"),
        (1, ran(), "a crash is not OK"),
        (3, ran(b"here\n"), "each run has a fresh box"),
        (5, ran(b"", "RUNTIME_ERROR"), "a session keeps its files"),
    ],
)
def test_each_broken_rule_is_found(position: int, result: RunResult, rule: str) -> None:
    runs = (*GOOD[:position], result, *GOOD[position + 1 :])
    assert rules(runs, compared("OK", "WRONG")) == [rule]


def test_a_sandbox_that_passes_everything_is_found_out() -> None:
    assert rules(GOOD, compared("OK", "OK")) == ["cases are compared in order"]
