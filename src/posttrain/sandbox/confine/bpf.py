"""A small assembler for classic BPF: what seccomp filters are written in.

A filter is a binary search over the system call's number whose leaves are answers or tests of arguments. All
jumps go forward over whole blocks, so code is put together from nested lists without labels.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_AND = 0x54  # BPF_ALU | BPF_AND | BPF_K
_JUMP = 0x05
_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_RETURN = 0x06

_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_ALL = 0xFFFFFFFF
_MAX_SHORT_JUMP = 255  # what a comparison can skip by itself

KILL_PROCESS = 0x80000000
ALLOW = 0x7FFF0000
MAX_INSTRUCTIONS = 4096


def answer_errno(code: int) -> int:
    """Return the filter answer that fails a call with error `code` (0: pretend that it succeeded)."""
    return 0x00050000 | code


@dataclass(frozen=True, slots=True)
class Instruction:
    """One BPF instruction."""

    code: int
    value: int
    if_true: int = 0
    if_false: int = 0

    def pack(self) -> bytes:
        """Return the kernel's eight bytes of the instruction."""
        return struct.pack("=HBBI", self.code, self.if_true, self.if_false, self.value & _ALL)


@dataclass(frozen=True, slots=True)
class Test:
    """Hold if an argument of the call, masked, is one of `values`.

    The kernel reads descriptors, flags and requests as 32 bits, so by default the high half is ignored as the
    kernel ignores it; `wide` also asks the high half to be zero, for pointers and lengths.
    """

    __test__ = False

    argument: int
    values: tuple[int, ...]
    mask: int = _ALL
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Clause:
    """Answer `answer` if all `tests` hold."""

    answer: int
    tests: tuple[Test, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """Say how a call is answered: by its first clause that holds, or else by `otherwise`."""

    otherwise: int
    clauses: tuple[Clause, ...] = ()


Block = list[Instruction]


def assemble(rules: Mapping[int, Rule], default: Rule, architecture: int, first_foreign: int | None) -> bytes:
    """Return the filter's bytes for `rules` by call number.

    Another architecture's calls, and numbers from `first_foreign` on, kill the process.
    """
    code = [Instruction(_LOAD, _ARCHITECTURE), Instruction(_EQUAL, architecture, 1, 0), _answer(KILL_PROCESS)]
    code.append(Instruction(_LOAD, _NUMBER))
    if first_foreign is not None:
        code += [Instruction(_AT_LEAST, first_foreign, 0, 1), _answer(KILL_PROCESS)]
    code += _search(_intervals(rules, default))
    assert len(code) <= MAX_INSTRUCTIONS, "the kernel takes at most 4096 instructions"
    return b"".join(instruction.pack() for instruction in code)


def find_values(program: bytes, value: int) -> tuple[int, ...]:
    """Return the byte offsets of the operands equal to `value`, for patching."""
    starts = range(0, len(program), 8)
    return tuple(at + 4 for at in starts if struct.unpack_from("=I", program, at + 4)[0] == value)


def _answer(value: int) -> Instruction:
    return Instruction(_RETURN, value)


def _intervals(rules: Mapping[int, Rule], default: Rule) -> list[tuple[int, Rule]]:
    """List (first number, rule) so that each rule holds up to the next entry; neighbours are merged."""
    edges = {0: default}
    for number in sorted(rules):
        edges[number] = rules[number]
        edges.setdefault(number + 1, rules.get(number + 1, default))
    merged: list[tuple[int, Rule]] = []
    for number in sorted(edges):
        if not merged or merged[-1][1] != edges[number]:
            merged.append((number, edges[number]))
    return merged


def _search(intervals: Sequence[tuple[int, Rule]]) -> Block:
    if len(intervals) == 1:
        return _leaf(intervals[0][1])
    middle = len(intervals) // 2
    below, above = _search(intervals[:middle]), _search(intervals[middle:])
    edge = intervals[middle][0]
    if len(below) <= _MAX_SHORT_JUMP:
        return [Instruction(_AT_LEAST, edge, len(below), 0), *below, *above]
    return [Instruction(_AT_LEAST, edge, 0, 1), Instruction(_JUMP, len(below)), *below, *above]


def _leaf(rule: Rule) -> Block:
    code = [_answer(rule.otherwise)]
    for clause in reversed(rule.clauses):
        code = _all_hold(clause.tests, [_answer(clause.answer)], code)
    return code


def _all_hold(tests: Iterable[Test], then: Block, otherwise: Block) -> Block:
    """Run `then` if all tests hold, else `otherwise`; `then` must end in an answer."""
    body = then
    for test in reversed(list(tests)):
        body = _test(test, body)
    return [*body, *otherwise]


def _test(test: Test, then: Block) -> Block:
    """Fall into `then` if the test holds, else jump behind it."""
    low = _ARGUMENTS + 8 * test.argument  # both architectures are little-endian
    code: Block = []
    if test.wide:
        code += [Instruction(_LOAD, low + 4), Instruction(_EQUAL, 0, 1, 0)]
        code.append(Instruction(_JUMP, 0))  # patched below
    code.append(Instruction(_LOAD, low))
    if test.mask != _ALL:
        code.append(Instruction(_AND, test.mask))
    last = len(test.values) - 1
    for index, value in enumerate(test.values):
        code.append(Instruction(_EQUAL, value, last - index + 1, 0))
    code.append(Instruction(_JUMP, len(then)))
    if test.wide:
        code[2] = Instruction(_JUMP, len(code) - 3 + len(then))
    return [*code, *then]
