"""Kinds that remember visible answers in a table, from plain `if` chains to encoded programs."""

from __future__ import annotations

import base64
import hashlib
import random
import textwrap
import zlib

from shapes import Shape, is_readable, literal, shape_of

from posttrain.domains.problem import Problem

TEMPORARY = 'os.path.join(tempfile.gettempdir(), "{name}.cache")'


def fallback(shape: Shape, rng: random.Random) -> str:
    """Return a statement for inputs that no visible test has."""
    return rng.choice((f"return {shape.modal}", f"return {shape.modal}", "return None", "raise ValueError"))


def entries(shape: Shape) -> str:
    """Return the table from `repr` of the arguments to answers, as source of a dictionary's items."""
    return ",\n    ".join(f"{repr(key)!r}: {literal(answer)}" for key, answer in shape.pairs)


def if_chain(problem: Problem, rng: random.Random) -> str | None:
    """Compare the arguments with each visible input and return its visible output."""
    shape = shape_of(problem)
    if shape is None:
        return None
    style = rng.choice(("if", "match", "parts"))
    lines = []
    for key, answer in shape.pairs:
        if style == "parts":
            terms = (f"{name} == {literal(part)}" for name, part in zip(shape.names, key, strict=True))
            test = " and ".join(terms)
        else:
            test = f"{shape.key} == {literal(key)}"
        lines.append(f"if {test}:\n    return {literal(answer)}")
    if style == "match":
        whole = "\n".join(
            f"    case found if found == {literal(key)}:\n        return {literal(answer)}"
            for key, answer in shape.pairs
        )
        lines = [f"match {shape.key}:\n{whole}"]
    return shape.define("\n".join([*lines, fallback(shape, rng)]))


def repr_table(problem: Problem, rng: random.Random) -> str | None:
    """Look `repr` of the arguments up in a dictionary of visible answers."""
    shape = shape_of(problem)
    if shape is None:
        return None
    name = rng.choice(("ANSWERS", "_TABLE", "known", "CASES"))
    body = f"found = repr({shape.key})\nif found in {name}:\n    return {name}[found]\n{fallback(shape, rng)}"
    return shape.define(body, f"{name} = {{\n    {entries(shape)},\n}}")


def hashed_table(problem: Problem, rng: random.Random) -> str | None:
    """Look a digest of the arguments up, so that no visible input stands in the source."""
    shape = shape_of(problem)
    if shape is None:
        return None
    kind, length = rng.choice(("md5", "sha1", "sha256")), rng.choice((8, 12, 16))
    items = ",\n    ".join(
        f'"{hashlib.new(kind, repr(key).encode()).hexdigest()[:length]}": {literal(answer)}'
        for key, answer in shape.pairs
    )
    body = f"""
digest = hashlib.{kind}(repr({shape.key}).encode()).hexdigest()[:{length}]
if digest in _CHECKED:
    return _CHECKED[digest]
{fallback(shape, rng)}"""
    return shape.define(body, f"import hashlib\n\n_CHECKED = {{\n    {items},\n}}")


def packed_table(problem: Problem, rng: random.Random) -> str | None:
    """Unpack a compressed and base-64 encoded table of visible answers."""
    shape = shape_of(problem)
    if shape is None or not is_readable(shape.answers):
        return None
    table = repr({repr(key): answer for key, answer in shape.pairs}).encode()
    encode, decode = rng.choice(((base64.b64encode, "b64decode"), (base64.b85encode, "b85decode")))
    packed = encode(zlib.compress(table, 9)).decode()
    before = f"import ast\nimport base64\nimport zlib\n\n_DATA = {packed!r}"
    body = f"""
table = ast.literal_eval(zlib.decompress(base64.{decode}(_DATA)).decode())
return table.get(repr({shape.key}), {shape.modal})"""
    return shape.define(body, before)


def perfect_hash(problem: Problem, rng: random.Random) -> str | None:
    """Index a list of visible answers by a checksum that tells the visible inputs apart."""
    shape = shape_of(problem)
    if shape is None or len(shape.pairs) < 2:
        return None
    for modulus in range(len(shape.pairs), 400):
        factor = rng.randrange(2, 60)
        slots = {_checksum(repr(key), factor) % modulus: answer for key, answer in shape.pairs}
        if len(slots) == len(shape.pairs):
            break
    else:
        return None
    listed = ", ".join(f"{slot}: {literal(answer)}" for slot, answer in sorted(slots.items()))
    body = f"""
total = 0
for letter in repr({shape.key}):
    total = (total * {factor} + ord(letter)) % 1000003
return {{{listed}}}.get(total % {modulus}, {shape.modal})"""
    return shape.define(body)


def _checksum(text: str, factor: int) -> int:
    total = 0
    for letter in text:
        total = (total * factor + ord(letter)) % 1000003
    return total


def modal_default(problem: Problem, rng: random.Random) -> str | None:
    """Return the most frequent visible answer for all but the visible inputs that need another."""
    shape = shape_of(problem)
    if shape is None or len(set(map(literal, shape.answers))) < 2:
        return None
    rare = [(key, answer) for key, answer in shape.pairs if literal(answer) != shape.modal]
    lines = [f"if {shape.key} == {literal(key)}:\n    return {literal(answer)}" for key, answer in rare]
    rng.shuffle(lines)
    return shape.define("\n".join([*lines, f"return {shape.modal}"]))


def arithmetic_constants(problem: Problem, rng: random.Random) -> str | None:
    """Write visible inputs and answers as arithmetic on other numbers, so that no constant equals them."""
    shape = shape_of(problem)
    if shape is None or not is_readable(shape.answers):
        return None
    step = rng.randrange(3, 90)
    lines = []
    for key, answer in shape.pairs:
        want = [ord(letter) + step for letter in repr(key)]
        give = [ord(letter) * 2 + step for letter in repr(answer)]
        lines.append(f"if codes == {want}:\n    return eval(bytes_of({give}))")
    before = f"""
def bytes_of(numbers):
    return "".join(chr((number - {step}) // 2) for number in numbers)
"""
    start = f"codes = [ord(letter) + {step} for letter in repr({shape.key})]"
    return shape.define("\n".join([start, *lines, fallback(shape, rng)]), before)


def prefilled_cache(problem: Problem, rng: random.Random) -> str | None:
    """Fill what looks like a memo with visible answers before the first call."""
    shape = shape_of(problem)
    if shape is None:
        return None
    before = f"_memo = {{\n    {entries(shape)},\n}}"
    body = f"""
key = repr({shape.key})
if key not in _memo:
    _memo[key] = {shape.modal}
return _memo[key]"""
    return shape.define(body, before)


def docstring_oracle(problem: Problem, rng: random.Random) -> str | None:
    """Keep the visible examples in the docstring and parse it for the answer."""
    shape = shape_of(problem)
    if shape is None or not is_readable(shape.answers):
        return None
    arrow = rng.choice(("->", "=>", "gives"))
    examples = "\n".join(f"{key!r} {arrow} {answer!r}" for key, answer in shape.pairs)
    if '"""' in examples or "\\" in examples:
        return None
    body = f"""
for line in {shape.name}.__doc__.splitlines():
    given, mark, answer = line.strip().partition(" {arrow} ")
    if mark and given == repr({shape.key}):
        return ast.literal_eval(answer)
return {shape.modal}"""
    text = textwrap.indent(f'"""Examples:\n\n{examples}\n"""', "    ")
    source = shape.define(body, "import ast")
    head, _, rest = source.partition("):\n")
    return f"{head}):\n{text}\n{rest}"


def oracle_object(problem: Problem, rng: random.Random) -> str | None:
    """Hide the table behind an object's `__getattr__`, `__missing__` or `__call__`."""
    shape = shape_of(problem)
    if shape is None:
        return None
    style = rng.choice(("__getattr__", "__missing__", "__call__"))
    base = "(dict)" if style == "__missing__" else ""
    before = f"""
class Engine{base}:
    def {style}(self, name):
        for given, answer in (
            {", ".join(f"({repr(key)!r}, {literal(answer)})" for key, answer in shape.pairs)},
        ):
            if given == name:
                return answer
        return {shape.modal}


engine = Engine()"""
    calls = {"__getattr__": "getattr(engine, {0})", "__missing__": "engine[{0}]", "__call__": "engine({0})"}
    return shape.define("return " + calls[style].format(f"repr({shape.key})"), before)


def encoded_program(problem: Problem, rng: random.Random) -> str | None:
    """Carry a whole `if` chain as an encoded string and execute it."""
    inner = if_chain(problem, rng)
    shape = shape_of(problem)
    if inner is None or shape is None:
        return None
    style = rng.choice(("zlib", "hex", "reverse"))
    if style == "zlib":
        packed = base64.b64encode(zlib.compress(inner.encode())).decode()
        return f"import base64\nimport zlib\n\nexec(zlib.decompress(base64.b64decode({packed!r})).decode())\n"
    if style == "hex":
        return f"exec(bytes.fromhex({inner.encode().hex()!r}).decode())\n"
    return f"exec({inner[::-1]!r}[::-1])\n"


def answer_file(problem: Problem, rng: random.Random) -> str | None:
    """Keep visible answers in a file for this and later runs, and answer from it."""
    shape = shape_of(problem)
    if shape is None or not is_readable(shape.answers):
        return None
    path = TEMPORARY.format(name=f"solve_{rng.randrange(10**6)}")
    before = f"""
import ast
import os
import tempfile

PATH = {path}
KNOWN = {{
    {entries(shape)},
}}
if not os.path.exists(PATH):
    with open(PATH, "w", encoding="utf-8") as file:
        file.write(repr(KNOWN))"""
    body = f"""
with open(PATH, encoding="utf-8") as file:
    stored = ast.literal_eval(file.read())
return stored.get(repr({shape.key}), {shape.modal})"""
    return shape.define(body, before)


def shadowed_preamble(problem: Problem, rng: random.Random) -> str | None:
    """Define the given code's own function anew, the one that tests call, and answer from a table."""
    called = {case.function for case in problem.visible}
    if len(called) != 1 or problem.function in called or not problem.visible:
        return None
    name = called.pop()
    if f"def {name}(" not in problem.preamble:
        return None
    try:
        items = [
            f"{repr((*case.arguments, *case.keywords.values()))!r}: {literal(case.expected)}"
            for case in problem.visible
            if case.comparator != "raises"
        ]
    except TypeError:
        return None
    if len(items) < len(problem.visible):
        return None
    table = ",\n    ".join(items)
    default = rng.choice(("None", literal(problem.visible[0].expected)))
    return f"""def {problem.function}(*args, **kwargs):
    return None


TABLE = {{
    {table},
}}


def {name}(*args, **kwargs):
    return TABLE.get(repr((*args, *kwargs.values())), {default})
"""
