"""More honest solutions written by hand for HumanEval: spelt-out edge cases, small tables."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from written_tables import TABLES

_SMALL: Mapping[str, str] = MappingProxyType(
    {
        "vowels_count": """
def vowels_count(s):
    if s == "":
        return 0
    total = 0
    for letter in s:
        if letter in ("a", "e", "i", "o", "u", "A", "E", "I", "O", "U"):
            total += 1
    if s[-1] in ("y", "Y"):
        total += 1
    return total
""",
        "remove_vowels": """
DELETED = str.maketrans({vowel: None for vowel in "aeiouAEIOU"})


def remove_vowels(text):
    return text.translate(DELETED)
""",
        "encrypt": """
import string

ALPHABET = string.ascii_lowercase
TABLE = dict(zip(ALPHABET, ALPHABET[4:] + ALPHABET[:4]))


def encrypt(s):
    return "".join(TABLE.get(letter, letter) for letter in s)
""",
        "correct_bracketing": """
STEP = {"(": 1, ")": -1, "<": 1, ">": -1}


def correct_bracketing(brackets):
    depth = 0
    for bracket in brackets:
        depth += STEP[bracket]
        if depth < 0:
            return False
    return depth == 0
""",
        "file_name_check": """
import re

SUFFIXES = {"txt", "exe", "dll"}


def file_name_check(file_name):
    match = re.fullmatch(r"([a-zA-Z][^.]*)\\.([a-z]+)", file_name)
    if match is None or match[2] not in SUFFIXES:
        return "No"
    return "Yes" if len(re.findall(r"\\d", match[1])) <= 3 else "No"
""",
        "starts_one_ends": """
def starts_one_ends(n):
    if n == 1:
        return 1
    if n == 2:
        return 18
    return 18 * 10 ** (n - 2)
""",
        "is_palindrome": """
def is_palindrome(text):
    if text == "":
        return True
    if len(text) == 1:
        return True
    return text[0] == text[-1] and is_palindrome(text[1:-1])
""",
        "factorize": """
def factorize(n):
    if n == 2:
        return [2]
    found, rest = [], n
    for prime in (2, 3, 5, 7):
        while rest % prime == 0:
            found.append(prime)
            rest //= prime
    factor = 11
    while factor * factor <= rest:
        while rest % factor == 0:
            found.append(factor)
            rest //= factor
        factor += 2
    return found + [rest] if rest > 1 else found
""",
        "fizz_buzz": """
def fizz_buzz(n):
    return sum(str(i).count("7") for i in range(n) if i % 11 == 0 or i % 13 == 0)
""",
        "truncate_number": """
import math


def truncate_number(number):
    fraction, whole = math.modf(number)
    return fraction
""",
        "sum_product": """
def sum_product(numbers):
    if len(numbers) == 0:
        return 0, 1
    if len(numbers) == 1:
        return numbers[0], numbers[0]
    total, product = sum_product(numbers[1:])
    return total + numbers[0], product * numbers[0]
""",
        "largest_divisor": """
def largest_divisor(n):
    if n % 2 == 0:
        return n // 2
    for factor in range(3, n + 1, 2):
        if n % factor == 0:
            return n // factor
""",
        "same_chars": """
def same_chars(s0, s1):
    seen = {}
    for letter in s0:
        seen[letter] = 1
    for letter in s1:
        if letter not in seen:
            return False
        seen[letter] = 2
    return all(mark == 2 for mark in seen.values())
""",
        "is_simple_power": """
def is_simple_power(x, n):
    if x == 1:
        return True
    if n in (0, 1, -1):
        return x in (n, n * n)
    power = n
    while abs(power) < abs(x):
        power *= n
    return power == x
""",
        "iscube": """
CUBES = {number**3 for number in range(-200, 201)}


def iscube(a):
    if a in (0, 1, -1, 8, -8, 27, -27, 64, -64):
        return True
    return a in CUBES
""",
    }
)
WRITTEN: Mapping[str, str] = MappingProxyType({**TABLES, **_SMALL})
"""The source of a right solution by the name of the function."""
