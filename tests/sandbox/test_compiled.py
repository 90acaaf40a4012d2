"""C and C++: compiled in a box, once for equal sources, with clear results where that fails."""

import asyncio
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from posttrain.sandbox import Limits, Local, LocalSandbox, Program, RunResult
from posttrain.sandbox.compiled import Compiler
from posttrain.sandbox.dispatcher.order import Order

sys.path.insert(0, str(Path(__file__).parent))
from opened import opened

QUICK = Limits(cpu_seconds=5.0, wall_seconds=30.0)
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here")


@pytest.fixture(scope="module")
def sandbox() -> Iterator[LocalSandbox]:
    with opened(Local(workers=1)) as sandbox:
        yield sandbox


@needs_compiler
async def test_programs_are_compiled_and_run(sandbox: LocalSandbox) -> None:
    body = 'int main(int n, char** a) { int x; scanf("%d", &x); printf("%d %s", 2 * x, a[1]); }'
    source = f"#include <cstdio>\n{body}"
    result = await sandbox.run(Program("c++", source, ("word",), stdin=b"21"), QUICK)
    assert (result.status, result.stdout) == ("OK", b"42 word"), result
    plain = '#include <math.h>\n#include <stdio.h>\nint main(void) { printf("%.1f", sqrt(9.0)); return 3; }'
    failed = await sandbox.run(Program("c", plain), QUICK)
    assert (failed.status, failed.exit_code, failed.stdout) == ("RUNTIME_ERROR", 3, b"3.0")
    crashed = await sandbox.run(Program("c", "int main(void) { *(volatile int*)0 = 1; }"), QUICK)
    assert (crashed.status, crashed.exit_code) == ("RUNTIME_ERROR", None)


@needs_compiler
async def test_a_source_with_errors_or_foreign_files_is_a_compile_error(sandbox: LocalSandbox) -> None:
    wrong = await sandbox.run(Program("c++", "int main() { return x; }"), QUICK)
    assert wrong.status == "COMPILE_ERROR"
    assert b"was not declared" in wrong.stderr
    outside = await sandbox.run(Program("c++", '#include "/etc/shadow"\nint main() {}'), QUICK)
    assert outside.status == "COMPILE_ERROR"
    assert b"root:" not in outside.stderr


def built(order: Order) -> RunResult:
    return RunResult("OK", 0, b"", b"", False, 1.0, 1.0, 0, {"main": order.files["main.cpp"]})


async def test_equal_sources_are_compiled_once_and_other_headers_again(tmp_path: Path) -> None:
    orders: list[Order] = []

    async def run(order: Order) -> RunResult:
        orders.append(order)
        await asyncio.sleep(0)
        return built(order)

    if shutil.which("g++", path="/usr/local/bin:/usr/bin:/bin") is None:
        pytest.skip("no g++ here")
    compiler = Compiler(run, str(tmp_path))
    for program in (
        Program("c++", "a", files={"h.h": b"1"}),
        Program("c++", "a", files={"h.h": b"1"}, stdin=b"other input"),
        Program("c++", "a", files={"h.h": b"2"}),
        Program("c++", "b", files={"h.h": b"1"}),
    ):
        order = await compiler.order(program, QUICK)
        assert isinstance(order, Order)
        assert order.files["main"] == program.source.encode()
    assert len(orders) == 3


async def test_a_missing_compiler_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("posttrain.sandbox.compiled.SEARCH_PATH", str(tmp_path))

    async def run(order: Order) -> RunResult:
        raise AssertionError("nothing to run")

    result = await Compiler(run, str(tmp_path)).order(Program("c++", "int main() {}"), QUICK)
    assert isinstance(result, RunResult)
    assert result.status == "INFRA"
    assert b"needs g++" in result.stderr
