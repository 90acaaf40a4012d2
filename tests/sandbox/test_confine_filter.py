"""The filter's own logic on every architecture, run by a small BPF machine made from the kernel's manual."""

from __future__ import annotations

import errno
import struct
from dataclasses import dataclass

import pytest

from posttrain.sandbox.confine.bpf import ALLOW, KILL_PROCESS, Clause, Rule, Test, answer_errno, assemble
from posttrain.sandbox.confine.seccomp import Filter, Surroundings
from posttrain.sandbox.confine.syscalls import AARCH64, ARCHITECTURES, X86_64, Architecture

ALONE = Surroundings(signals=False, files=False, truncation=False)
GUARDED = Surroundings(signals=True, files=True, truncation=True)
OWN = 4321

# Numbers copied from the kernel's tables by hand: x86-64, then the generic one of aarch64.
KNOWN = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "openat": (257, 56), "mmap": (9, 222),
    "ioctl": (16, 29),
    "clone": (56, 220), "execve": (59, 221), "exit_group": (231, 94), "futex": (202, 98), "kill": (62, 129),
    "prctl": (157, 167), "ptrace": (101, 117), "seccomp": (317, 277), "bpf": (321, 280), "socket": (41, 198),
    "wait4": (61, 260), "prlimit64": (302, 261), "memfd_create": (319, 279), "io_uring_setup": (425, 425),
    "clone3": (435, 435), "landlock_restrict_self": (446, 446), "fchmodat2": (452, 452), "capset": (126, 91),
    "fcntl": (72, 25), "getdents64": (217, 61), "newfstatat": (262, 79), "rt_sigreturn": (15, 139),
}  # fmt: skip


@dataclass
class Call:
    """What the kernel shows a filter: struct seccomp_data."""

    number: int
    arguments: tuple[int, ...] = ()
    architecture: int = X86_64.audit

    def pack(self) -> bytes:
        words = [word & 2**64 - 1 for word in (*self.arguments, *[0] * 6)][:6]
        return struct.pack("<IIQ6Q", self.number & 2**32 - 1, self.architecture, 0xAAAA, *words)


def run(program: bytes, call: Call) -> int:
    """Run a classic BPF program on a call and return its answer."""
    data, at, accumulator = call.pack(), 0, 0
    for _ in range(5000):
        code, if_true, if_false, value = struct.unpack_from("=HBBI", program, at * 8)
        at += 1
        if code == 0x20:
            accumulator = struct.unpack_from("<I", data, value)[0]
        elif code == 0x54:
            accumulator &= value
        elif code == 0x05:
            at += value
        elif code == 0x15:
            at += if_true if accumulator == value else if_false
        elif code == 0x35:
            at += if_true if accumulator >= value else if_false
        elif code == 0x06:
            return value
        else:
            raise AssertionError(f"unexpected instruction {code:#x}")
    raise AssertionError("the program does not end")


def answer(known: Architecture, profile: str, around: Surroundings, name: str, *arguments: int) -> int:
    program = Filter(profile, around, known).for_process(OWN)  # type: ignore[arg-type]
    return run(program, Call(known.numbers[name], arguments, known.audit))


@pytest.mark.parametrize("known", ARCHITECTURES.values(), ids=lambda known: known.name)
def test_the_tables_agree_with_the_kernels(known: Architecture) -> None:
    column = (X86_64, AARCH64).index(known)
    assert {name: known.numbers[name] for name in KNOWN} == {n: row[column] for n, row in KNOWN.items()}
    assert len(set(known.numbers.values())) == len(known.numbers)


@pytest.mark.parametrize("profile", ["function", "command"])
@pytest.mark.parametrize("known", ARCHITECTURES.values(), ids=lambda known: known.name)
def test_each_call_is_answered_as_meant_on_each_architecture(known: Architecture, profile: str) -> None:
    def found(name: str, *arguments: int, around: Surroundings = ALONE) -> int:
        return answer(known, profile, around, name, *arguments)

    processes = ALLOW if profile == "command" else answer_errno(errno.EPERM)
    for name in ("read", "mmap", "futex", "exit_group", "newfstatat", "getrandom", "wait4"):
        assert found(name) == ALLOW
    for name in ("ptrace", "bpf", "mount", "unshare", "keyctl", "process_vm_readv", "open_by_handle_at"):
        assert found(name) == KILL_PROCESS
    for name in ("io_uring_setup", "memfd_create", "clone3", "openat2", "memfd_secret", "execveat"):
        assert found(name) == answer_errno(errno.ENOSYS)
    assert found("execve") == found("setsid") == processes
    assert found("clone", 0x003D0F00) == ALLOW, "a thread"
    assert found("clone", 17) == processes
    assert found("clone", 0x10000000 | 17) == KILL_PROCESS
    assert found("clone", 0x003D0F00 | 0x20000000) == KILL_PROCESS, (
        "a thread's flags do not excuse a namespace"
    )
    assert found("socket", 2) == found("connect") == answer_errno(errno.EACCES)
    assert found("kill", OWN, 9) == ALLOW
    assert found("kill", OWN + 1, 9) == answer_errno(errno.EPERM)
    assert found("kill", OWN + 1, 9, around=GUARDED) == processes
    assert found("kill", 1, 9, around=GUARDED) == answer_errno(errno.EPERM)
    assert found("fchmodat") == answer_errno(errno.EPERM)
    assert found("fchmodat", around=GUARDED) == ALLOW
    assert found("utimensat") == answer_errno(0)


def test_opening_to_read_may_not_truncate_before_landlock_governs_it() -> None:
    reading, writing, control, truncate = 0, 1, 3, 0o1000
    denied = answer_errno(errno.EACCES)
    expected = {reading: (ALLOW, ALLOW), writing: (ALLOW, ALLOW), control: (denied, denied)}
    expected |= {reading | truncate: (denied, ALLOW), writing | truncate: (ALLOW, ALLOW)}
    expected |= {control | truncate: (denied, denied)}
    for flags, answers in expected.items():
        for around, wanted in zip((ALONE, GUARDED), answers, strict=True):
            for name, before in (("open", (0,)), ("openat", (0, 0))):
                assert answer(X86_64, "function", around, name, *before, flags) == wanted, (name, flags)


def test_flags_are_compared_as_the_kernel_reads_them_and_pointers_whole() -> None:
    high = 1 << 32
    assert answer(X86_64, "function", ALONE, "ioctl", 0, 0x5412 | high) == answer_errno(errno.ENOTTY)
    assert answer(X86_64, "function", ALONE, "ioctl", 0, 0x5401 | high) == ALLOW
    assert answer(X86_64, "function", ALONE, "sendto", 0, 0, 0, 0, high) == answer_errno(errno.EACCES)
    assert answer(X86_64, "function", ALONE, "prlimit64", 0, 4, high) == answer_errno(errno.EPERM)


def test_calls_of_other_architectures_and_abis_kill() -> None:
    for known in ARCHITECTURES.values():
        program = Filter("command", GUARDED, known).for_process(OWN)
        for other in (0x40000003, 0x40000028, 0, X86_64.audit if known is AARCH64 else AARCH64.audit):
            assert run(program, Call(0, (), other)) == KILL_PROCESS
    program = Filter("command", GUARDED, X86_64).for_process(OWN)
    for number in (0x40000000, 0x40000027, 0x7FFFFFFF, 0xFFFFFFFF):
        assert run(program, Call(number)) == KILL_PROCESS


def test_an_assembled_filter_equals_its_table_for_every_number() -> None:
    """Long leaves make far jumps; every number is compared with looking the rule up by hand."""
    values = tuple(range(100, 330))
    long = Rule(answer_errno(1), (Clause(ALLOW, (Test(0, values), Test(1, (7,), 0xF, wide=True))),))
    table = {number: Rule(answer_errno(number % 50 + 2)) for number in range(0, 400, 3)} | {
        200: long,
        201: long,
    }
    program = assemble(table, Rule(answer_errno(99)), X86_64.audit, None)
    for number in range(450):
        expected = table.get(number, Rule(answer_errno(99)))
        assert run(program, Call(number)) == expected.otherwise
    for number in (200, 201):
        for first in (99, 100, 215, 329, 330):
            for second in (7, 0x17, 8, 7 | 1 << 40):
                holds = first in values and second in (7, 0x17)
                assert run(program, Call(number, (first, second))) == (ALLOW if holds else answer_errno(1))


def test_a_filter_fits_the_kernel_and_only_the_process_number_changes_in_it() -> None:
    prepared = Filter("function", ALONE)
    assert len(prepared.program) % 8 == 0
    assert len(prepared.program) // 8 < 1000
    one, two = prepared.for_process(11), prepared.for_process(0x01020304)
    assert len(one) == len(two)
    assert sum(a != b for a, b in zip(one, two, strict=True)) >= 4
    assert answer(X86_64, "function", ALONE, "prlimit64", OWN, 7, 0) == ALLOW
    assert answer(X86_64, "function", ALONE, "prlimit64", OWN + 1, 7, 0) == answer_errno(errno.EPERM)
