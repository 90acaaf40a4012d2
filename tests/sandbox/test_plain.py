"""Plain data comes back as it went, nothing else gets through, and no line does harm where it is read."""

# ruff: noqa: E501 (lines of the tables)

import collections
import doctest
import enum
import itertools
import random
import subprocess
import sys
from typing import Any

import pytest

from posttrain.sandbox import plain
from posttrain.sandbox.verdict.compare import canonical

MERSENNE = 2**61 - 1
"""CPython's hash of an int is its remainder by this, so the multiples of it all collide."""

VALUES = [
    None, True, False, 0, -1, 10**18, -(10**18), 10**18 - 1, 2**64, 10**5000, -(10**5000), 0.0, -0.0, 0.1, 5e-324,
    1.7976931348623157e308, float("nan"), float("inf"), float("-inf"), 1j, complex(-0.0, float("nan")), "", "text",
    "\0\n\r\u2028\x7f", "ä€𐍈", "\ud800", "\ud83d\ude00", "\U0001f600", b"", bytes(range(256)), bytearray(b"ab"),
    [], [[]], (), ((),), (1,), [1, 1.0, True], {}, {1: 2}, {(1, "a"): [None]}, {"tuple": [1]}, {"int": "0x1"},
    set(), {1}, frozenset(), frozenset({(1,)}), {frozenset({1}): {2}}, range(3), range(10, 0, -3),
    [{"a": (1, {2.5}), "b": [b"\xff", None]}],
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_comes_back_as_it_went(value: Any) -> None:
    line = plain.dumps(value)
    back = plain.loads(line)
    # repr tells types, signs of zero and NaN apart; sets here have one element.
    sys.set_int_max_str_digits(0)
    try:
        assert repr(back) == repr(value)
    finally:
        sys.set_int_max_str_digits(4300)
    assert type(back) is type(value)
    assert b"\n" not in line
    assert line.isascii()


def test_lines_are_as_worked_out_by_hand() -> None:
    assert plain.dumps([1, 1.0, True, None, "a"]) == b'[1,1.0,true,null,"a"]'
    assert plain.dumps((1,)) == b'{"tuple":[1]}'
    assert plain.dumps({1: (2,)}) == b'{"dict":[[1,{"tuple":[2]}]]}'
    assert plain.dumps(10**18) == b'{"int":"0xde0b6b3a7640000"}'
    assert plain.dumps(float("-inf")) == b'{"float":"-inf"}'
    assert plain.dumps(b"\0") == b'{"bytes":"AA=="}'
    assert plain.dumps("ä") == b'"\\u00e4"'


def anything(rng: random.Random, depth: int, hashable: bool = False) -> Any:
    """Return some value of plain data."""
    atoms = [
        None,
        True,
        False,
        rng.randint(-5, 5),
        rng.getrandbits(90),
        rng.gauss(0, 1),
        rng.choice(["", "é", "\udcff"]),
    ]
    kind = rng.randrange(8 if depth else 3)
    parts = (
        [anything(rng, depth - 1, hashable or kind in (4, 5, 7)) for _ in range(rng.randrange(4))]
        if kind > 2
        else []
    )
    if kind <= 2:
        return rng.choice(atoms)
    if kind == 3 and not hashable:
        return parts
    if kind == 4 and not hashable:
        return set(parts)
    if kind == 5:
        return frozenset(parts)
    if kind == 7 and not hashable:
        return {part: anything(rng, depth - 1) for part in parts}
    return tuple(parts)


def test_any_nesting_of_values_comes_back_as_it_went() -> None:
    rng = random.Random(0)
    for _ in range(2_000):
        value = anything(rng, 4)
        back = plain.loads(plain.dumps(value))
        assert back == value
        assert canonical(back) == canonical(value)


class Int(int):
    pass


class Text(str):
    __slots__ = ()


class Liar(type):
    """A class of classes that are equal to every other."""

    def __eq__(cls, other: object) -> bool:
        raise AssertionError("somebody else's method was called")

    def __hash__(cls) -> int:
        raise AssertionError("somebody else's method was called")

    @property
    def __name__(cls) -> str:
        raise AssertionError("somebody else's method was called")


def hostile(base: type) -> Any:
    """Return an instance of a subclass all of whose methods fail the test."""

    def called(*_: object, **__: object) -> None:
        raise AssertionError("somebody else's method was called")

    kept = {"__new__", "__init__", "__class__", "__dict__", "__init_subclass__", "__getattribute__"}
    names = {name for name in dir(base) if name not in kept}
    namespace = dict.fromkeys(names - {"__doc__", "__module__"}, called)
    made = type("Hostile", (base,), {})
    instance = made()
    for name, method in namespace.items():
        setattr(made, name, method)
    return instance


Point = collections.namedtuple("Point", "x")
Colour = enum.IntEnum("Colour", "RED")


@pytest.mark.parametrize(
    "value",
    [
        Int(1), Text("a"), Point(1), Colour.RED, object(), object, len, sys, NotImplemented, ..., lambda: 1,
        memoryview(b"a"), ValueError("x"), Liar("A", (), {})(), Liar("A", (), {}), collections.deque([1]),
        *(hostile(base) for base in (int, float, str, bytes, list, tuple, set, frozenset, dict, complex)),
        hostile(collections.OrderedDict), hostile(collections.Counter),
    ],
    ids=lambda value: type.__dict__["__name__"].__get__(type(value)),
)  # fmt: skip
@pytest.mark.parametrize(
    "wrap", [lambda v: v, lambda v: [v], lambda v: {"k": v}], ids=["bare", "listed", "keyed"]
)
def test_what_is_not_plain_is_refused_without_calling_a_method_of_it(value: Any, wrap: Any) -> None:
    with pytest.raises(TypeError, match="is not plain data"):
        plain.dumps(wrap(value))


def test_a_class_that_claims_to_be_another_is_refused() -> None:
    class Claims:
        @property  # type: ignore[misc]
        def __class__(self) -> type:
            return int

    with pytest.raises(TypeError, match="Claims is not plain data"):
        plain.dumps(Claims())


def test_dictionaries_of_the_standard_library_come_back_as_plain_ones_in_their_order() -> None:
    ordered = collections.OrderedDict(a=1, b=2)
    ordered.move_to_end("a")
    for value, items in (
        (ordered, [("b", 2), ("a", 1)]),
        (collections.Counter("aab"), [("a", 2), ("b", 1)]),
        (collections.defaultdict(list, {1: [2]}), [(1, [2])]),
    ):
        back = plain.loads(plain.dumps(value))
        assert type(back) is dict
        assert list(back.items()) == items


def test_iterators_are_run_only_where_they_are_asked_for() -> None:
    values = [
        (n for n in (1, 2)),
        map(abs, [-1]),
        {1: 2}.keys(),
        iter((3,)),
        zip([1], "a", strict=True),
        reversed([1, 2]),
    ]
    for value, items in zip(values, ([1, 2], [1], [1], [3], [(1, "a")], [2, 1]), strict=True):
        with pytest.raises(TypeError, match="is not plain data"):
            plain.dumps(value)
        back = plain.loads(plain.dumps(value, iterators=True))
        assert type(back) is type(iter([]))
        assert list(back) == items


def test_an_iterator_without_an_end_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "MAX_NODES", 1_000)
    with pytest.raises(ValueError, match="more than 1000 values"):
        plain.dumps((n for n in iter(int, 1)), iterators=True)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_depth_has_a_limit_and_cycles_reach_it() -> None:
    assert plain.loads(plain.dumps(nested(100))) == nested(100)
    loop: list[Any] = []
    loop.append(loop)
    table: dict[str, Any] = {}
    table["table"] = (table,)
    for value in (nested(101), loop, table):
        with pytest.raises(ValueError, match="nested more than 100 levels"):
            plain.dumps(value)


def test_a_value_shared_many_times_over_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "MAX_NODES", 10_000)
    shared: list[Any] = [0, 0]
    for _ in range(60):
        shared = [shared, shared]
    with pytest.raises(ValueError, match="more than 10000 values"):
        plain.dumps(shared)


def test_size_has_a_limit_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "MAX_BYTES", 1_000)
    with pytest.raises(ValueError, match="1002 bytes"):
        plain.dumps("x" * 1_000)
    with pytest.raises(ValueError, match="1001 bytes"):
        plain.loads(b" " * 1_001)


HOSTILE = [
    b"", b" ", b"[", b"]", b"[1,]", b"1 2", b"[1][2]", b"tru", b"'a'", b'"a', b'"\n"', b"\xff", b'"\xc3\xa4"', b"\0" * 100,
    b"[" * 100_000, b'{"tuple":[' * 100_000, b'{"a":' * 50_000, b"[" * 900 + b"]" * 900 + b"x",
    b"9" * 200_000, b"-" + b"9" * 40, b"1e999", b"-1e999", b"1." + b"0" * 200_000, b"NaN", b"Infinity", b"-Infinity",
    b"{}", b'{"int":"0x1","tuple":[]}', b'{"int":"0x1","int":"0x1"}', b'{"unknown":1}', b'{"a":1}', b'{"__class__":1}',
    b'{"int":1}', b'{"int":"1"}', b'{"int":"0x"}', b'{"int":"0x1_0"}', b'{"int":" 0x1"}', b'{"int":"0XF"}', b'{"int":null}',
    b'{"float":1}', b'{"float":"1.0"}', b'{"float":"NaN"}', b'{"float":[]}', b'{"float":{"set":[]}}', b'{"bytes":1}',
    b'{"bytes":"!!"}', b'{"bytes":"A"}', b'{"bytes":{"bytes":"AA=="}}', b'{"str":"/w=="}', b'{"tuple":1}', b'{"tuple":"ab"}',
    b'{"tuple":{"tuple":[]}}', b'{"set":{"set":[]}}', b'{"set":[[]]}', b'{"set":[1,1]}', b'{"set":[1,true]}', b'{"set":[1,1.0]}',
    b'{"frozenset":[{"dict":[]}]}', b'{"dict":{}}', b'{"dict":[1]}', b'{"dict":["ab"]}', b'{"dict":[[1]]}', b'{"dict":[[1,2,3]]}',
    b'{"dict":[[[],1]]}', b'{"dict":[[1,1],[1,2]]}', b'{"dict":[[1,1],[true,2]]}', b'{"complex":[1,2]}', b'{"complex":[1.0]}',
    b'{"complex":"ab"}', b'{"range":[1,2]}', b'{"range":[0,1,0]}', b'{"range":[0.0,1,1]}', b'{"range":[true,1,1]}',
    b'{"range":[0,1000000000000,1]}', b'{"range":[0,{"int":"0xffffffffffffffffffff"},1]}', b'{"iterator":1}',
]  # fmt: skip


@pytest.mark.parametrize("line", HOSTILE, ids=lambda line: repr(line[:24]))
def test_a_line_that_stands_for_nothing_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        plain.loads(line)


def test_damaged_lines_give_values_or_value_errors_and_never_anything_else() -> None:
    rng = random.Random(1)
    lines = [plain.dumps(value) for value in VALUES if not isinstance(value, int) or value < 2**70]
    num_refused = 0
    for _ in range(20_000):
        line = bytearray(rng.choice(lines))
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(line) + 1)
            line[at : at + rng.randrange(3)] = rng.choice(
                [b"[", b"]", b'"', b"{", b"}", b",", b":", b"9", b"\\u", b"\xff", b""]
            )
        try:
            plain.loads(bytes(line))
        except ValueError:
            num_refused += 1
    assert num_refused > 5_000


@pytest.mark.parametrize(
    "line",
    [
        plain.dumps([n * MERSENNE for n in range(1, 5_000)]).replace(b"[", b'{"set":[', 1) + b"}",
        b'{"dict":' + plain.dumps([[n * MERSENNE, 0] for n in range(1, 5_000)]) + b"}",
        b'{"frozenset":' + plain.dumps([(n * MERSENNE,) for n in range(1, 5_000)]) + b"}",
    ],
    ids=["set", "dict", "frozenset of tuples"],
)
def test_keys_that_were_chosen_to_collide_are_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="chosen to make a table slow"):
        plain.loads(line)


def test_large_tables_with_ordinary_keys_are_not_refused() -> None:
    for value in (
        {n: n for n in range(-5_000, 5_000)},
        {float(n) for n in range(5_000)},
        {str(n) for n in range(5_000)},
    ):
        assert plain.loads(plain.dumps(value)) == value


def test_innocent_collisions_are_not_refused() -> None:
    corners = set(itertools.product((-1, -2), repeat=8))
    assert len({hash(corner) for corner in corners}) == 1
    assert plain.loads(plain.dumps(corners)) == corners
    assert plain.loads(plain.dumps({"all": sorted(corners), "set": corners | {(n,) for n in range(500)}}))


def test_it_needs_nothing_but_the_standard_library() -> None:
    code = "import runpy, sys; print(runpy.run_path(sys.argv[1])['dumps']((1, {2})).decode())"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, plain.__file__], capture_output=True, text=True, check=True
    )
    assert done.stdout == '{"tuple":[1,{"set":[2]}]}\n'


def test_the_examples_are_right() -> None:
    assert doctest.testmod(plain).failed == 0


@pytest.mark.parametrize(
    ("iterator", "values"),
    [
        (itertools.chain([1], [2]), [1, 2]),
        (itertools.islice([1, 2, 3], 2), [1, 2]),
        (itertools.accumulate([1, 2, 3]), [1, 3, 6]),
        (itertools.compress([1, 2, 3], [1, 0, 1]), [1, 3]),
        (itertools.zip_longest([1, 2], [3]), [(1, 3), (2, None)]),
        (itertools.takewhile(bool, [1, 0, 1]), [1]),
        (iter("a"), ["a"]),
        (iter("é"), ["é"]),
        (iter(b"ab"), [97, 98]),
        (iter(range(2)), [0, 1]),
        (iter(iter([1, 2, 3]).__next__, 3), [1, 2]),
    ],
)
def test_iterators_of_the_standard_library_are_run_to_their_end(iterator: Any, values: list[Any]) -> None:
    assert list(plain.loads(plain.dumps(iterator, iterators=True))) == values
