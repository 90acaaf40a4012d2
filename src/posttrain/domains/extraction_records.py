"""Records for extraction, level by level: a text, the schema to fill, and the value that fills it.

Each level asks for one thing more than the one before; `LEVELS` lists them from easy to hard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from posttrain.domains.extraction_words import CITIES, MATERIALS, MONTHS, PRODUCTS, TOPICS, Dice
from posttrain.types import JSON

TEXT: Mapping[str, JSON] = {"type": "string"}
COUNT: Mapping[str, JSON] = {"type": "integer"}
DATE: Mapping[str, JSON] = {
    "type": "string",
    "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    "description": "YYYY-MM-DD",
}


@dataclass(frozen=True, slots=True)
class Record:
    """A text, the JSON schema that asks about it, and the answer."""

    text: str
    schema: Mapping[str, JSON]
    value: Mapping[str, JSON]


def structure(properties: Mapping[str, Mapping[str, JSON]], optional: Sequence[str] = ()) -> dict[str, JSON]:
    """Return the schema of an object with these properties and no others."""
    return {
        "type": "object",
        "properties": {name: dict(schema) for name, schema in properties.items()},
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def person(dice: Dice) -> Record:
    """Make a sentence that holds a name and an age."""
    name, age = dice.name(), dice.number(18, 90)
    text = dice.one(
        (
            f"{name} is {age} years old.",
            f"At the age of {age}, {name} moved house.",
            f"This is {name}, {age}.",
            f"{name} turned {age} today.",
        )
    )
    return Record(text, structure({"name": TEXT, "age": COUNT}), {"name": name, "age": age})


def parcel(dice: Dice) -> Record:
    """Make a note with three texts, one of them out of a list that the note puts in other words."""
    name, city = dice.name(), dice.one(CITIES)
    status, words = dice.one(
        (
            ("delivered", "has arrived"),
            ("lost", "cannot be found anywhere"),
            ("in_transit", "is still on its way"),
            ("returned", "was sent back"),
        )
    )
    text = dice.one(
        (
            f"The parcel for {name} in {city} {words}.",
            f"{name} lives in {city}; the parcel {words}.",
            f"To {city}: what {name} ordered {words}.",
        )
    )
    schema = structure(
        {
            "recipient": TEXT,
            "city": TEXT,
            "status": {"enum": ["delivered", "lost", "in_transit", "returned"]},
        }
    )
    return Record(text, schema, {"recipient": name, "city": city, "status": status})


def talk(dice: Dice) -> Record:
    """Make an announcement in which some of what the schema knows is not said."""
    speaker, topic, city = dice.name(), dice.one(TOPICS), dice.one(CITIES)
    value: dict[str, JSON] = {"speaker": speaker, "topic": topic}
    text = f"{speaker} will talk about {topic}"
    if dice.chance(0.5):
        text, value["city"] = f"{text} in {city}", city
    if dice.chance(0.5):
        room = dice.number(1, 40)
        text, value["room"] = f"{text}, room {room}", room
    text += "."
    if dice.chance(0.5):
        fee = dice.number(2, 30)
        text, value["fee"] = f"{text} Entry costs {fee} euros.", fee
    fields = {"speaker": TEXT, "topic": TEXT, "city": TEXT, "room": COUNT, "fee": COUNT}
    return Record(text, structure(fields, ("city", "room", "fee")), value)


def delivery(dice: Dice) -> Record:
    """Make a note whose date, weight and price must be brought into the schema's form and units."""
    (said, date), (heavy, grams), (paid, cents) = _date(dice), _weight(dice), _price(dice)
    product, insured = f"{dice.one(MATERIALS)} {dice.one(PRODUCTS)}", dice.chance(0.5)
    cover = dice.one(("is insured", "has insurance") if insured else ("is not insured", "has no insurance"))
    text = f"On {said} we ship the {product}. It weighs {heavy}, costs {paid} and {cover}."
    schema = structure(
        {
            "product": TEXT, "date": DATE, "weight_grams": COUNT, "price_cents": COUNT,
            "insured": {"type": "boolean"},
        }
    )  # fmt: skip
    value: dict[str, JSON] = {
        "product": product, "date": date, "weight_grams": grams, "price_cents": cents, "insured": insured,
    }  # fmt: skip
    return Record(text, schema, value)


def booking(dice: Dice) -> Record:
    """Make a message about a guest with an address and a stay: objects within the object."""
    guest, city, street = dice.name(), dice.one(CITIES), f"{dice.number(1, 99)} {dice.one(MATERIALS)} street"
    (said, date), nights = _date(dice), dice.number(2, 14)
    value: dict[str, JSON] = {
        "guest": {"name": guest, "address": {"street": street, "city": city}},
        "stay": {"arrival": date, "nights": nights},
    }
    text = f"{guest} of {street}, {city}, arrives on {said} and stays for {nights} nights."
    address = structure({"street": TEXT, "city": TEXT})
    schema = structure(
        {
            "guest": structure({"name": TEXT, "address": address}),
            "stay": structure({"arrival": DATE, "nights": COUNT}),
        }
    )
    return Record(text, schema, value)


def order(dice: Dice) -> Record:
    """Make an order of two to four items, with other orders told of that must not be mixed in."""
    buyer, other = dice.some([dice.name(), dice.name(), dice.name()], 2)
    bought = dice.some(PRODUCTS, dice.number(2, 4))
    items: list[JSON] = [{"product": each, "quantity": dice.number(2, 20)} for each in bought]
    listed = ", ".join(f"{item['quantity']} {item['product']}s" for item in items if isinstance(item, dict))
    listed = listed.replace("benchs", "benches").replace("shelfs", "shelves")
    noise = (
        f"{other} bought {dice.number(2, 20)} {dice.one(PRODUCTS)} covers last year.",
        f"The order before this one, by {other}, was cancelled.",
        f"Our shop in {dice.one(CITIES)} opened {dice.number(3, 30)} years ago.",
    )
    before, after = dice.some(noise, 2)
    text = f"{before} New order: {buyer} wants {listed}. {after}"
    item = structure({"product": {**TEXT, "description": "singular"}, "quantity": COUNT})
    schema = structure({"buyer": TEXT, "items": {"type": "array", "items": item, "minItems": 1}})
    return Record(text, schema, {"buyer": buyer, "items": items})


def invoice(dice: Dice) -> Record:
    """Make an invoice with everything at once: nested objects, a list, units, dates, choices, gaps."""
    ordered = order(dice)
    (said, due), (paid, cents), city = _date(dice), _price(dice), dice.one(CITIES)
    method, words = dice.one((("card", "by card"), ("cash", "in cash"), ("transfer", "by bank transfer")))
    value: dict[str, JSON] = {
        "customer": {"name": ordered.value["buyer"], "city": city},
        "items": ordered.value["items"],
        "shipping_cents": cents,
        "method": method,
    }
    text = f"{ordered.text} The new order goes to {city}; its shipping is {paid}, to be paid {words}"
    if dice.chance(0.5):
        text, value["due"] = f"{text} by {said}", due
    properties = ordered.schema["properties"]
    assert isinstance(properties, dict)
    schema = structure(
        {
            "customer": structure({"name": TEXT, "city": TEXT}),
            "items": properties["items"],
            "shipping_cents": COUNT,
            "method": {"enum": ["card", "cash", "transfer"]},
            "due": DATE,
        },
        ("due",),
    )
    return Record(f"{text}.", schema, value)


LEVELS: tuple[Callable[[Dice], Record], ...] = (person, parcel, talk, delivery, booking, order, invoice)
"""What makes a record at each level."""


def _date(dice: Dice) -> tuple[str, str]:
    """Return a date as people write it, and as YYYY-MM-DD."""
    year, month, day = dice.number(2001, 2029), dice.number(1, 12), dice.number(1, 28)
    name = MONTHS[month - 1]
    said = dice.one((f"{day} {name} {year}", f"{name} {day}, {year}", f"{day} {name[:3]} {year}"))
    return said, f"{year}-{month:02}-{day:02}"


def _weight(dice: Dice) -> tuple[str, int]:
    """Return a weight in grams or kilograms, and in grams."""
    grams = 100 * dice.number(2, 90)
    return dice.one((f"{grams} g", f"{grams // 1000}.{grams % 1000 // 100} kg")), grams


def _price(dice: Dice) -> tuple[str, int]:
    """Return a price in euros, and in cents."""
    euros, cents = dice.number(2, 90), 5 * dice.number(1, 19)
    return dice.one((f"€{euros}.{cents:02}", f"{euros} euros and {cents} cents")), 100 * euros + cents
