"""The source of a small package with one function for each thing that mining has to tell apart."""

SOURCE = '''
"""A package whose import leaves a trace: mining must not import it."""

import random
from itertools import chain
from pathlib import Path

Path(__file__).with_name("imported").touch()

STEP = 2


def _scaled(number, factor=STEP):
    return number * factor


def double(number):
    """Return twice a number.

    >>> double(4)
    8
    >>> double(-1)
    -2
    """
    # A helper and its default come along.
    return _scaled(number)


def apply_all(function, items):
    """Return the function's values, lazily.

    >>> list(apply_all(lambda x: x + 1, [1, 2, 3]))
    [2, 3, 4]
    """
    for item in items:
        yield function(item)


def joined(some, others):
    """Return an iterator over both.

    >>> list(joined([1, 2], [3]))
    [1, 2, 3]
    """
    return chain(some, others)


def divided(a, b):
    """Return a / b; raises ZeroDivisionError where b is 0.

    >>> divided(3, 4)
    0.75
    >>> divided(1, 0)
    Traceback (most recent call last):
    ...
    ZeroDivisionError: division by zero
    """
    return a / b


def shown(words):
    """Print-worthy text.

    >>> print(shown(["a", "b"]))
    a b
    """
    return " ".join(words)


def undocumented(number):
    return number


def identity(value):
    """Return it.

    >>> identity(3)
    3
    """
    return value


def drawn(count):
    """Return random numbers.

    >>> drawn(2)  # doctest: +ELLIPSIS
    [...]
    """
    return [random.SystemRandom().random() for _ in range(count)]


def mistaken(number):
    """Its documentation is wrong.

    >>> mistaken(1)
    5
    """
    return number + 1


def opened(number):
    """Return an object.

    >>> opened(1)  # doctest: +ELLIPSIS
    <object ...>
    """
    return object()


def hashed(text):
    """Return what depends on the process.

    >>> [hashed("b")]  # doctest: +ELLIPSIS
    [...]
    """
    return hash(text)
'''
