"""All attacks, by name."""

from __future__ import annotations

from . import confidentiality, forgery, integrity, isolation, resources
from .attack import Attack

ATTACKS: tuple[Attack, ...] = (
    *resources.ATTACKS,
    *confidentiality.ATTACKS,
    *integrity.ATTACKS,
    *forgery.ATTACKS,
    *isolation.ATTACKS,
)

BY_NAME = {f"{attack.kind}: {attack.name}": attack for attack in ATTACKS}
assert len(BY_NAME) == len(ATTACKS), "every attack has a name of its own"
