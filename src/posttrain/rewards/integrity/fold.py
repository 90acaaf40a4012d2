"""What constant expressions of a program come to, worked out here without running any of its code.

Only operations of this literal table are done, on plain data of bounded size, so that a constant that an
answer encodes (joined characters, base64, xor) is found as it would be used.
"""

from __future__ import annotations

import ast
import base64
import binascii
import codecs
import json
import operator
import zlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from posttrain.rewards.integrity.bounded import MAX_SIZE, NotConstant, modulo, power, shift, times

MAX_STEPS = 20_000
MAX_ALL_STEPS = 1_000_000
"""Of one expression, and of all of a program; a long value counts for several."""
STEP_SIZE = 200

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = MappingProxyType(
    {
        ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: times, ast.Div: operator.truediv,
        ast.FloorDiv: operator.floordiv, ast.Mod: modulo, ast.Pow: power, ast.LShift: shift,
        ast.RShift: operator.rshift, ast.BitXor: operator.xor, ast.BitOr: operator.or_,
        ast.BitAnd: operator.and_,
    }
)  # fmt: skip
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = MappingProxyType(
    {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert, ast.Not: operator.not_}
)


def _range(*bounds: int) -> list[int]:
    found = range(*bounds)
    if len(found) > MAX_SIZE:
        raise NotConstant
    return list(found)


def _bytes(value: Any = b"") -> bytes:
    if isinstance(value, int):
        raise NotConstant
    return bytes(value)


def _inflate(value: bytes) -> bytes:
    return zlib.decompressobj().decompress(value, MAX_SIZE)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "chr": chr, "ord": ord, "int": int, "float": float, "str": str, "len": len, "bytes": _bytes,
        "bytearray": _bytes, "list": list, "tuple": tuple, "set": set, "frozenset": frozenset, "dict": dict,
        "sorted": sorted, "reversed": lambda some: list(reversed(some)), "sum": sum, "range": _range,
        "zip": lambda *some: list(zip(*some, strict=False)), "enumerate": lambda some: list(enumerate(some)),
        "bytes.fromhex": bytes.fromhex, "int.from_bytes": int.from_bytes, "dict.fromkeys": dict.fromkeys,
        "base64.b64decode": base64.b64decode, "base64.b32decode": base64.b32decode,
        "base64.b16decode": base64.b16decode, "base64.b85decode": base64.b85decode,
        "base64.a85decode": base64.a85decode, "base64.urlsafe_b64decode": base64.urlsafe_b64decode,
        "binascii.unhexlify": binascii.unhexlify, "binascii.a2b_base64": binascii.a2b_base64,
        "zlib.decompress": _inflate, "codecs.decode": codecs.decode, "json.loads": json.loads,
        "ast.literal_eval": ast.literal_eval, "eval": ast.literal_eval,
    }
)  # fmt: skip
_METHODS = frozenset(
    (
        "join", "split", "rsplit", "splitlines", "strip", "lstrip", "rstrip", "replace", "lower", "upper",
        "swapcase", "title", "encode", "decode", "hex", "keys", "values", "items", "copy", "removeprefix",
        "removesuffix", "get",
    )
)  # fmt: skip


class Folder:
    """Work out constant expressions, with the names that are bound to constants once."""

    def __init__(self, tree: ast.AST | None = None) -> None:
        self._names: dict[str, ast.expr] = dict(_bound_once(tree)) if tree is not None else {}
        self._imported = dict(imports(tree)) if tree is not None else {}
        self._docstrings = dict(_docstrings(tree)) if tree is not None else {}
        self._found: dict[int, tuple[ast.expr, Any]] = {}
        self._steps = self._all_steps = 0

    def value(self, node: ast.expr) -> Any:
        """Return what an expression comes to; NotConstant where it depends on anything else."""
        if id(node) not in self._found:
            self._found[id(node)] = node, self._worked_out(node)
        found = self._found[id(node)][1]
        if isinstance(found, NotConstant):
            raise NotConstant
        return found

    def _worked_out(self, node: ast.expr) -> Any:
        self._steps = 0
        try:
            return self._value(node, {})
        except NotConstant as error:
            return error
        except Exception:  # whatever the constants' own operations raise
            return NotConstant()
        finally:
            self._all_steps += self._steps

    def _value(self, node: ast.expr, local: Mapping[str, Any]) -> Any:
        self._steps += 1
        if self._steps > min(MAX_STEPS, MAX_ALL_STEPS - self._all_steps):
            raise NotConstant
        method = getattr(self, f"_of_{type(node).__name__.lower()}", None)
        if method is None:
            raise NotConstant
        found = method(node, local)
        if isinstance(found, str | bytes | list | tuple | set | dict):
            self._steps += len(found) // STEP_SIZE
            if len(found) > MAX_SIZE:
                raise NotConstant
        return found

    def _of_constant(self, node: ast.Constant, local: Mapping[str, Any]) -> Any:
        return node.value

    def _of_name(self, node: ast.Name, local: Mapping[str, Any]) -> Any:
        if node.id in local:
            return local[node.id]
        if node.id not in self._names:
            raise NotConstant
        return self._value(self._names[node.id], {})

    def _of_attribute(self, node: ast.Attribute, local: Mapping[str, Any]) -> Any:
        if node.attr != "__doc__" or not isinstance(node.value, ast.Name):
            raise NotConstant
        return self._docstrings[node.value.id]

    def _of_tuple(self, node: ast.Tuple, local: Mapping[str, Any]) -> Any:
        return tuple(self._value(each, local) for each in node.elts)

    def _of_list(self, node: ast.List, local: Mapping[str, Any]) -> Any:
        return [self._value(each, local) for each in node.elts]

    def _of_set(self, node: ast.Set, local: Mapping[str, Any]) -> Any:
        return {self._value(each, local) for each in node.elts}

    def _of_dict(self, node: ast.Dict, local: Mapping[str, Any]) -> Any:
        if None in node.keys:
            raise NotConstant
        keys = [self._value(each, local) for each in node.keys if each is not None]
        return dict(zip(keys, (self._value(each, local) for each in node.values), strict=True))

    def _of_unaryop(self, node: ast.UnaryOp, local: Mapping[str, Any]) -> Any:
        return _UNARY[type(node.op)](self._value(node.operand, local))

    def _of_binop(self, node: ast.BinOp, local: Mapping[str, Any]) -> Any:
        if type(node.op) not in _BINARY:
            raise NotConstant
        return _BINARY[type(node.op)](self._value(node.left, local), self._value(node.right, local))

    def _of_joinedstr(self, node: ast.JoinedStr, local: Mapping[str, Any]) -> Any:
        return "".join(str(self._value(each, local)) for each in node.values)

    def _of_formattedvalue(self, node: ast.FormattedValue, local: Mapping[str, Any]) -> Any:
        if node.format_spec is not None or node.conversion != -1:
            raise NotConstant
        return self._value(node.value, local)

    def _of_subscript(self, node: ast.Subscript, local: Mapping[str, Any]) -> Any:
        some = self._value(node.value, local)
        if not isinstance(node.slice, ast.Slice):
            return some[self._value(node.slice, local)]
        bounds = (node.slice.lower, node.slice.upper, node.slice.step)
        return some[slice(*(None if each is None else self._value(each, local) for each in bounds))]

    def _of_call(self, node: ast.Call, local: Mapping[str, Any]) -> Any:
        if any(isinstance(each, ast.Starred) for each in node.args) or any(
            k.arg is None for k in node.keywords
        ):
            raise NotConstant
        name = self._full_name(node.func)
        if name in ("map", "filter"):
            raise NotConstant
        arguments = [self._value(each, local) for each in node.args]
        keywords = {k.arg: self._value(k.value, local) for k in node.keywords if k.arg is not None}
        if name in _FUNCTIONS:
            return _FUNCTIONS[name](*arguments, **keywords)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
            owner = self._value(node.func.value, local)
            if node.func.attr == "replace" and len(arguments) > 1 and len(arguments[1]) > 1_000:
                raise NotConstant
            found = getattr(owner, node.func.attr)(*arguments, **keywords)
            return list(found) if node.func.attr in ("keys", "values", "items") else found
        raise NotConstant

    def _of_generatorexp(self, node: ast.GeneratorExp, local: Mapping[str, Any]) -> Any:
        return list(self._each(node.elt, node.generators, local))

    def _of_listcomp(self, node: ast.ListComp, local: Mapping[str, Any]) -> Any:
        return list(self._each(node.elt, node.generators, local))

    def _of_dictcomp(self, node: ast.DictComp, local: Mapping[str, Any]) -> Any:
        pair = ast.Tuple([node.key, node.value], ast.Load())
        return dict(self._each(pair, node.generators, local))

    def _each(
        self, element: ast.expr, over: list[ast.comprehension], local: Mapping[str, Any]
    ) -> Iterator[Any]:
        if len(over) != 1 or over[0].ifs:
            raise NotConstant
        for item in self._value(over[0].iter, local):
            yield self._value(element, {**local, **_unpacked(over[0].target, item)})

    def _full_name(self, node: ast.expr) -> str:
        """Return the dotted name of what is called, imports resolved; '' for anything else."""
        if isinstance(node, ast.Name):
            return self._imported.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            owner = self._full_name(node.value)
            return f"{owner}.{node.attr}" if owner else ""
        return ""


def _unpacked(target: ast.expr, item: Any) -> dict[str, Any]:
    if isinstance(target, ast.Name):
        return {target.id: item}
    if isinstance(target, ast.Tuple | ast.List):
        found: dict[str, Any] = {}
        for each, part in zip(target.elts, item, strict=True):
            found |= _unpacked(each, part)
        return found
    raise NotConstant


def _bound_once(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that one plain assignment alone binds, with their expressions."""
    bound: dict[str, list[ast.expr | None]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            bound.setdefault(node.targets[0].id, []).append(node.value)
        elif isinstance(node, ast.arg):
            bound.setdefault(node.arg, []).append(None)
    stores: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            stores[node.id] = stores.get(node.id, 0) + 1
    for name, values in bound.items():
        if len(values) == 1 and values[0] is not None and stores.get(name) == 1:
            yield name, values[0]


def _docstrings(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            text = ast.get_docstring(node, clean=False)
            if text is not None:
                yield node.name, text


def imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the names that a program imports, each with the full name behind it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (
                    alias.asname or alias.name.partition(".")[0],
                    alias.name if alias.asname else alias.name.partition(".")[0],
                )
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"
