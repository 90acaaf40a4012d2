"""The scripted sandbox: answers in order, keeps what it was asked, and fails loudly."""

import asyncio

import pytest

from posttrain.protocols import Case, Program, Sandbox
from posttrain.sandbox.scripted import ScriptedSandbox, compared, ran

PROGRAM = Program("python", "print(1)")


def test_results_come_in_the_order_of_the_script() -> None:
    async def use() -> None:
        sandbox: Sandbox = ScriptedSandbox([ran(b"1"), ran(b"2", "RUNTIME_ERROR")], [compared("OK", "WRONG")])
        assert (await sandbox.run(PROGRAM)).stdout == b"1"
        session = await sandbox.session({})
        failed = await session.run(PROGRAM)
        assert (failed.status, failed.exit_code) == ("RUNTIME_ERROR", 1)
        result = await sandbox.test(PROGRAM, [Case(1), Case(2)])
        assert (result.status, result.passed_share) == ("WRONG", 0.5)

    asyncio.run(use())


def test_it_keeps_the_programs_it_was_given() -> None:
    sandbox = ScriptedSandbox([ran()])
    asyncio.run(sandbox.run(PROGRAM))
    assert sandbox.programs == [PROGRAM]


def test_an_unexpected_program_is_an_error() -> None:
    with pytest.raises(AssertionError, match="used up"):
        asyncio.run(ScriptedSandbox().run(PROGRAM))


def test_a_closed_sandbox_or_session_runs_nothing() -> None:
    async def use() -> None:
        sandbox = ScriptedSandbox([ran(), ran()])
        session = await sandbox.session({})
        await session.close()
        with pytest.raises(AssertionError, match="session is closed"):
            await session.run(PROGRAM)
        await sandbox.close()
        await sandbox.close()
        with pytest.raises(AssertionError, match="sandbox is closed"):
            await sandbox.run(PROGRAM)

    asyncio.run(use())
