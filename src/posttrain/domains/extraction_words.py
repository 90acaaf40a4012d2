"""The words that extraction tasks are made of, and the keyed dice that choose among them."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

FIRST_NAMES = (
    "Ada", "Amir", "Anouk", "Bela", "Boris", "Carla", "Chidi", "Clara", "Dario", "Dina", "Edith", "Elif",
    "Emil", "Esra", "Farid", "Femke", "Goran", "Greta", "Hana", "Hugo", "Ines", "Ivan", "Jana", "Jonas",
    "Kaito", "Karin", "Lars", "Leila", "Lucia", "Marek", "Maya", "Milo", "Nadia", "Nils", "Nora", "Olga",
    "Omar", "Paula", "Pedro", "Priya", "Rania", "Remy", "Rosa", "Samir", "Selma", "Simon", "Sofia", "Tarek",
    "Tessa", "Theo", "Uma", "Vera", "Viktor", "Wanda", "Yara", "Yusuf", "Zoe", "Zoran",
)  # fmt: skip
LAST_NAMES = (
    "Adler", "Aydin", "Bakker", "Banerjee", "Berg", "Bianchi", "Brandt", "Castro", "Cohen", "Costa", "Diaz",
    "Dubois", "Duran", "Eriksen", "Farkas", "Fischer", "Fontaine", "Garcia", "Haddad", "Hansen", "Horvat",
    "Ito", "Jansen", "Kaya", "Keller", "Kimura", "Kovacs", "Kruger", "Larsen", "Lopez", "Marino", "Mbeki",
    "Meyer", "Moreau", "Nagy", "Novak", "Okafor", "Olsen", "Park", "Peeters", "Petrov", "Quinn", "Ramos",
    "Ricci", "Rossi", "Sato", "Schmidt", "Silva", "Singh", "Tanaka", "Torres", "Vargas", "Visser", "Weber",
    "Wolf", "Yilmaz", "Zhang", "Zimmer",
)  # fmt: skip
CITIES = (
    "Aarhus", "Antwerp", "Bergen", "Bilbao", "Bologna", "Cairo", "Cork", "Dakar", "Dresden", "Ghent",
    "Graz", "Haifa", "Izmir", "Kobe", "Krakow", "Lagos", "Leeds", "Lima", "Lyon", "Malmo", "Nantes",
    "Osaka", "Oslo", "Porto", "Quito", "Riga", "Tampere", "Turin", "Utrecht", "Vilnius", "Zagreb",
)  # fmt: skip
PRODUCTS = (
    "kettle", "lamp", "desk", "chair", "carpet", "clock", "mirror", "shelf", "blanket", "teapot", "basket",
    "vase", "toaster", "ladder", "bench", "drawer", "radio", "fan", "heater", "cushion",
)  # fmt: skip
MATERIALS = ("oak", "steel", "linen", "glass", "copper", "bamboo", "wool", "cork")
TOPICS = (
    "bird songs", "bridge repair", "old maps", "bread baking", "bee keeping", "tax law", "sea ice",
    "night trains", "clay pots", "chess endings", "soil care", "radio plays",
)  # fmt: skip
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Dice:
    """Choices that are a function of a key: equal keys, equal choices, on every machine.

    Only `random()` of Python's generator is used, the one method whose values are promised not to change.
    """

    generator: random.Random

    @classmethod
    def keyed(cls, *key: object) -> Dice:
        """Return dice for a key."""
        digest = hashlib.sha256(repr(key).encode()).digest()
        return cls(random.Random(int.from_bytes(digest, "big")))

    def number(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, both included."""
        return low + int(self.generator.random() * (high - low + 1))

    def one(self, choices: Sequence[T]) -> T:
        """Return one of the choices."""
        return choices[self.number(0, len(choices) - 1)]

    def some(self, choices: Sequence[T], count: int) -> list[T]:
        """Return `count` different choices, in random order."""
        left = list(choices)
        return [left.pop(self.number(0, len(left) - 1)) for _ in range(count)]

    def chance(self, share: float) -> bool:
        """Return true with a probability of `share`."""
        return self.generator.random() < share

    def name(self) -> str:
        """Return a first and a last name."""
        return f"{self.one(FIRST_NAMES)} {self.one(LAST_NAMES)}"
