"""C and C++: compiled in a box, remembered by content, usual headers precompiled."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import final

from posttrain.protocols import Limits, Program, RunResult
from posttrain.sandbox.dispatcher.order import Order, refused
from posttrain.sandbox.worker.shell import environment

LIMITS = Limits(
    cpu_seconds=30.0, wall_seconds=90.0, memory_bytes=2 * 2**30, output_bytes=2**16, disk_bytes=256 * 2**20,
    num_processes=32,
)  # fmt: skip
"""What compiling may use: templates can be made to take forever and to print without end."""
SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"
PRECOMPILED = "bits/stdc++.h"
BINARY = "main"
MAX_CACHE_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Language:
    """How a language is compiled."""

    compiler: str
    source_file: str
    flags: tuple[str, ...]
    libraries: tuple[str, ...] = ()


LANGUAGES = {
    "c": Language("gcc", "main.c", ("-std=gnu17", "-O2"), ("-lm",)),
    "c++": Language("g++", "main.cpp", ("-std=gnu++17", "-O2")),
}


@final
@dataclass(slots=True)
class Compiler:
    """Turn sources into orders that run a binary; equal sources are compiled once.

    `run` runs an order in a fresh box; `shared` is a folder that every box can read.
    """

    run: Callable[[Order], Awaitable[RunResult]]
    shared: str
    _cache: OrderedDict[str, RunResult] = field(default_factory=OrderedDict)
    _headers: asyncio.Task[None] | None = None

    async def order(self, program: Program, limits: Limits) -> Order | RunResult:
        """Return the order that runs the compiled program, or the result that says why there is none."""
        built = await self._built(program)
        if BINARY not in built.files:
            return built
        arguments = (f"./{BINARY}", *program.arguments)
        files = {**program.files, BINARY: built.files[BINARY]}
        return Order("command", "command", limits, "", arguments, files, program.stdin, program.collect)

    async def _built(self, program: Program) -> RunResult:
        key = _digest(program)
        if key in self._cache:
            self._cache.move_to_end(key)
            return self._cache[key]
        result = await self._compile(program)
        if result.status in ("OK", "COMPILE_ERROR"):
            self._remember(key, result)
        return result

    async def _compile(self, program: Program) -> RunResult:
        language = LANGUAGES[program.language]
        compiler = shutil.which(language.compiler, path=SEARCH_PATH)
        if compiler is None:
            return refused(
                "INFRA", f"{program.language} needs {language.compiler}: install it on this machine"
            )
        if PRECOMPILED in program.source and program.language == "c++":
            # Programs compile without it too, only slower: the first ones do not wait.
            self._headers = self._headers or asyncio.create_task(self._precompile(compiler, language))
        words = (
            compiler, *language.flags, "-I", self.shared, "-o", BINARY,
            language.source_file, *language.libraries,
        )  # fmt: skip
        files = {**program.files, language.source_file: program.source.encode(errors="surrogateescape")}
        result = await self.run(Order("command", "command", LIMITS, "", words, files, b"", (BINARY,)))
        if result.status == "INFRA" or (result.status == "OK" and BINARY in result.files):
            return result
        return replace(result, status="COMPILE_ERROR", files={})

    async def close(self) -> None:
        """Stop compiling headers."""
        if self._headers is not None:
            self._headers.cancel()
            await asyncio.gather(self._headers, return_exceptions=True)

    async def headers(self) -> None:
        """Wait until the header that includes all others is compiled, if any program has asked for it."""
        if self._headers is not None:
            await asyncio.shield(self._headers)

    async def _precompile(self, compiler: str, language: Language) -> None:
        """Compile the header that includes all others."""
        source, target = os.path.join(self.shared, "all.h"), os.path.join(self.shared, PRECOMPILED + ".gch")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(source, "w") as file:
            file.write(f"#include <{PRECOMPILED}>\n")
        words = (*language.flags, "-x", "c++-header", source, "-o", target + ".part")
        process = await asyncio.create_subprocess_exec(
            compiler, *words, env=environment(self.shared), stderr=asyncio.subprocess.DEVNULL
        )
        try:
            if await process.wait() == 0:
                os.rename(target + ".part", target)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    def _remember(self, key: str, result: RunResult) -> None:
        self._cache[key] = result
        while sum(_size(kept) for kept in self._cache.values()) > MAX_CACHE_BYTES:
            self._cache.popitem(last=False)


def _digest(program: Program) -> str:
    digest = hashlib.sha256()
    for part in (program.language, program.source, *sorted(program.files)):
        digest.update(part.encode(errors="surrogateescape") + b"\0")
    for name in sorted(program.files):
        digest.update(hashlib.sha256(program.files[name]).digest())
    return digest.hexdigest()


def _size(result: RunResult) -> int:
    return 1024 + len(result.stderr) + sum(map(len, result.files.values()))
