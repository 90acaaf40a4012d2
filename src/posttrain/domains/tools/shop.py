"""The world of a shop: orders with a status, and a policy on what may be refunded."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from posttrain.domains.extraction_words import CITIES, PRODUCTS, Dice
from posttrain.domains.tools.scenario import Fact, Known, Scenario, World, call, calls, say
from posttrain.domains.tools.tool import Refused, State, Tool, found, text
from posttrain.types import JSON

WINDOW_DAYS = 30
ORDER = {"order": text()}


def _get(state: State, order: str) -> JSON:
    return {"order": order, **found(state, "orders", order)}


def _find(state: State, customer: str) -> JSON:
    return [{"order": k, **each} for k, each in state["orders"].items() if each["customer"] == customer]


def _cancel(state: State, order: str) -> JSON:
    record = found(state, "orders", order)
    if record["status"] != "open":
        raise Refused(f"order {order} is {record['status']}; only open orders can be cancelled")
    record["status"] = "cancelled"
    return "ok"


def _refund(state: State, order: str) -> JSON:
    record = found(state, "orders", order)
    if record["status"] != "delivered":
        raise Refused(f"order {order} is {record['status']}; only delivered orders can be refunded")
    record["status"] = "refunded"
    return "ok"


def _redirect(state: State, order: str, city: str) -> JSON:
    record = found(state, "orders", order)
    if record["status"] != "open":
        raise Refused(f"order {order} is {record['status']}; it is too late to change its city")
    record["city"] = city
    return "ok"


TOOLS = (
    Tool("cancel_order", "", ORDER, _cancel),
    Tool("get_order", "Look an order up.", ORDER, _get),
    Tool("find_orders", "List a customer's orders.", {"customer": text("full name")}, _find),
    Tool("refund_order", "Pay a delivered order back.", ORDER, _refund),
    Tool("change_city", "Send an open order elsewhere.", {**ORDER, "city": text()}, _redirect),
)
_NAMES = tuple(tool.name for tool in TOOLS)


def _today(dice: Dice) -> date:
    return date(2030, 1, 1) + timedelta(days=dice.number(60, 700))


def _order(dice: Dice, customer: str, status: str, today: date, product: str) -> dict[str, Any]:
    days = dice.number(2, WINDOW_DAYS - 2) if dice.chance(0.5) else dice.number(WINDOW_DAYS + 2, 55)
    delivered = (today - timedelta(days=days)).isoformat() if status == "delivered" else None
    price = f"{dice.number(11, 99)}.{dice.number(10, 99)}"
    city = dice.one(CITIES)
    return {
        "customer": customer,
        "product": product,
        "price": price,
        "status": status,
        "city": city,
        "delivered": delivered,
    }


def _state(dice: Dice, today: date, customers: list[str], statuses: tuple[str, ...]) -> State:
    keys = dice.some(range(1000, 9999), len(customers) * len(statuses))
    orders: dict[str, Any] = {}
    for customer in customers:
        for product, status in zip(dice.some(PRODUCTS, len(statuses)), statuses, strict=True):
            orders[f"A{keys[len(orders)]}"] = _order(dice, customer, status, today, product)
    return {"orders": orders}


def _customers(dice: Dice, count: int) -> list[str]:
    return list(dict.fromkeys(dice.name() for _ in range(count)))


def _others(state: State, field: str, value: str) -> tuple[str, ...]:
    values = [order[field] for order in state["orders"].values()]
    return tuple(dict.fromkeys(each for each in values if each is not None and each != value))


def _copy(dice: Dice) -> Scenario:
    state = _state(dice, _today(dice), _customers(dice, 2), ("open",))
    key = dice.one(list(state["orders"]))
    request = dice.one((f"Cancel order {key}.", f"Please cancel {key}.", f"I no longer want order {key}."))
    return Scenario(request, state, ("cancel_order",), (call("cancel_order", order=key), say("Done.")))


def _choose(dice: Dice) -> Scenario:
    state = _state(dice, _today(dice), _customers(dice, 4), ("open",))
    key, city = dice.one(list(state["orders"])), dice.one(CITIES)
    record, tools = state["orders"][key], ("get_order", "cancel_order", "change_city")
    if dice.chance(0.5):
        price = record["price"]
        facts = (Fact(price, _others(state, "price", price)),)
        steps = (call("get_order", order=key), say(f"It cost {price}."))
        return Scenario(f"How much did order {key} cost?", state, tools, steps, facts)
    if dice.chance(0.3) or city == record["city"]:
        return Scenario(
            f"Please cancel order {key}.", state, tools, (call("cancel_order", order=key), say("Done."))
        )
    steps = (call("change_city", order=key, city=city), say("Done."))
    return Scenario(f"Send order {key} to {city} instead.", state, tools, steps)


def _search(dice: Dice) -> Scenario:
    state = _state(dice, _today(dice), _customers(dice, 2), ("open", "open", "delivered"))
    key = dice.one([k for k, each in state["orders"].items() if each["status"] == "open"])
    record = state["orders"][key]
    city = dice.one([each for each in CITIES if each != record["city"]])
    about, customer = record["product"], record["customer"]
    tools = ("find_orders", "cancel_order", "refund_order", "change_city")
    look = call("find_orders", customer=customer)
    if dice.chance(0.5):
        request = f"I am {customer}. Cancel my order of the {about}."
        return Scenario(request, state, tools, (look, call("cancel_order", order=key), say("Done.")))
    request = f"I am {customer}. Send the {about} to {city}."
    return Scenario(request, state, tools, (look, call("change_city", order=key, city=city), say("Done.")))


def _rules(today: date) -> str:
    return f"Today is {today}. Refund only what was delivered at most {WINDOW_DAYS} days ago."


def _allowed(record: dict[str, Any], today: date) -> bool:
    if record["status"] != "delivered":
        return False
    return (today - date.fromisoformat(record["delivered"])).days <= WINDOW_DAYS


def _ask(dice: Dice) -> Scenario:
    today = _today(dice)
    state = _state(dice, today, _customers(dice, 4), ("delivered", "open"))
    key = dice.one([k for k, each in state["orders"].items() if each["status"] == "delivered"])
    record = state["orders"][key]
    product, day = record["product"], record["delivered"]
    request = f"Refund my {product}. If the rules forbid it, tell me the day of its delivery (YYYY-MM-DD)."
    question, look = say("What is the number of your order?"), call("get_order", order=key)
    knows = (Known(("order", "number", "id"), f"It is {key}."), Known(("name", "who"), record["customer"]))
    if _allowed(record, today):
        steps = (question, look, call("refund_order", order=key), say("Done."))
        return Scenario(request, state, _NAMES, steps, (), knows, _rules(today))
    facts = (Fact(day, _others(state, "delivered", day)),)
    end = say(f"The rules forbid it: it was delivered on {day}.")
    return Scenario(request, state, _NAMES, (question, look, end), facts, knows, _rules(today))


def _all(dice: Dice) -> Scenario:
    today = _today(dice)
    state = _state(dice, today, _customers(dice, 3), ("open", "delivered", "delivered", "shipped"))
    customer = dice.one([each["customer"] for each in state["orders"].values()])
    mine = {k: each for k, each in state["orders"].items() if each["customer"] == customer}
    refunds = [k for k, each in mine.items() if _allowed(each, today)]
    cancels = [k for k, each in mine.items() if each["status"] == "open"]
    shipped = next(each for each in mine.values() if each["status"] == "shipped")
    cents = sum(round(100 * float(mine[k]["price"])) for k in refunds + cancels)
    total, city = f"{cents // 100}.{cents % 100:02d}", shipped["city"]
    changes = [call("cancel_order", order=k) for k in cancels] + [
        call("refund_order", order=k) for k in refunds
    ]
    prices = tuple(dict.fromkeys(each["price"] for each in mine.values() if each["price"] != total))
    facts = (Fact(total, prices), Fact(city, tuple(each for each in CITIES if each != city)))
    steps = (
        say("What is your name?"),
        call("find_orders", customer=customer),
        calls(*changes),
        say(f"Done. You get back {total} in all. The rest goes to {city}."),
    )
    request = (
        "Cancel those of my orders that are open and refund what the rules allow. How much do I get back in "
        "all, and to which city goes the one that is shipped?"
    )
    knows = (
        Known(("name", "who"), f"I am {customer}."),
        Known(("number", "id"), "I do not have the numbers."),
    )
    return Scenario(request, state, _NAMES, steps, facts, knows, _rules(today))


SHOP = World("shop", TOOLS, (_copy, _choose, _search, _ask, _all))
