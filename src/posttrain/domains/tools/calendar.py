"""The world of a calendar and its mail: events at times, people with addresses, mails sent."""

from __future__ import annotations

from typing import Any

from posttrain.domains.extraction_words import Dice
from posttrain.domains.tools.scenario import Fact, Known, Scenario, World, call, calls, say
from posttrain.domains.tools.tool import Refused, State, Tool, found, text
from posttrain.types import JSON

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
TITLES = (
    "standup", "dentist", "lunch", "budget review", "team lunch", "interview", "yoga", "planning", "demo",
    "choir", "training", "board meeting", "haircut", "book club", "design review", "piano lesson",
)  # fmt: skip
DAY = {"type": "string", "enum": list(DAYS)}
TIME = {"type": "string", "pattern": "^[0-2][0-9]:[0-5][0-9]$", "description": "HH:MM"}


def _free(state: State, day: str, time: str) -> None:
    for event in state["events"].values():
        if (event["day"], event["time"]) == (day, time):
            raise Refused(f"{day} {time} is taken by {event['title']!r}")


def _add(state: State, title: str, day: str, time: str) -> JSON:
    if day not in DAYS:
        raise Refused(f"{day[:40]!r} is no working day; days are {', '.join(DAYS)}")
    _free(state, day, time)
    key = f"e{1 + max((int(name[1:]) for name in state['events']), default=0)}"
    state["events"][key] = {"title": title, "day": day, "time": time}
    return "ok"


def _move(state: State, event: str, day: str, time: str) -> JSON:
    record = found(state, "events", event)
    _free(state, day, time)
    record.update(day=day, time=time)
    return "ok"


def _cancel(state: State, event: str) -> JSON:
    found(state, "events", event)
    del state["events"][event]
    return "ok"


def _list(state: State, day: str) -> JSON:
    return [{"event": key, **event} for key, event in state["events"].items() if event["day"] == day]


def _find(state: State, title: str) -> JSON:
    wanted = title.casefold().strip()
    return [{"event": k, **event} for k, event in state["events"].items() if wanted in event["title"]]


def _contact(state: State, name: str) -> JSON:
    return str(found(state, "people", name)["address"])


def _mail(state: State, address: str, body: str) -> JSON:
    if address not in [person["address"] for person in state["people"].values()]:
        raise Refused(f"nobody here has the address {address[:60]!r}")
    state["mails"][f"m{1 + len(state['mails'])}"] = {"address": address, "body": body}
    return "ok"


TOOLS = (
    Tool("add_event", "", {"title": text(), "day": text(), "time": TIME}, _add),
    Tool("move_event", "Move an event.", {"event": text("its id"), "day": DAY, "time": TIME}, _move),
    Tool("cancel_event", "Cancel an event.", {"event": text("its id")}, _cancel),
    Tool("list_events", "List a day's events.", {"day": DAY}, _list),
    Tool("find_events", "Find events by title.", {"title": text()}, _find),
    Tool("find_address", "Find a person's mail address.", {"name": text()}, _contact),
    Tool("send_mail", "Send a mail.", {"address": text(), "body": text()}, _mail),
)


def _state(dice: Dice, count: int = 6) -> State:
    events: dict[str, Any] = {}
    times = [f"{hour:02d}:{half}" for hour in range(9, 17) for half in ("00", "30")]
    slots = dice.some([(day, time) for day in DAYS for time in times], count)
    for title, (day, time) in zip(dice.some(TITLES, count), slots, strict=True):
        events[f"e{1 + len(events)}"] = {"title": title, "day": day, "time": time}
    names = list(dict.fromkeys(dice.name() for _ in range(4)))
    people = {
        name: {"address": f"{name.split()[0].lower()}{dice.number(10, 99)}@post.test"} for name in names
    }
    return {"events": events, "people": people, "mails": {}}


def _slot(dice: Dice, state: State) -> tuple[str, str]:
    """Return a day and a time at which nothing is."""
    taken = {(event["day"], event["time"]) for event in state["events"].values()}
    free = [(d, f"{h:02d}:{m:02d}") for d in DAYS for h in range(9, 17) for m in range(0, 60, 5)]
    return dice.one([slot for slot in free if slot not in taken])


def _copy(dice: Dice) -> Scenario:
    state = _state(dice, 0)
    title, (day, time) = dice.one([each for each in TITLES if " " not in each]), _slot(dice, state)
    request = dice.one((f"Add {title} on {day} at {time}.", f"{day} at {time}: {title}. Note it.",
                        f"Put {title} at {time} on {day}."))  # fmt: skip
    return Scenario(
        request, state, ("add_event",), (call("add_event", title=title, day=day, time=time), say("Done."))
    )


def _choose(dice: Dice) -> Scenario:
    state = _state(dice)
    key = dice.one(list(state["events"]))
    event, (day, time) = state["events"][key], _slot(dice, state)
    tools = ("list_events", "move_event", "cancel_event")
    if dice.chance(0.5):
        others = tuple(e["time"] for e in state["events"].values() if e["time"] != event["time"])
        steps = (call("list_events", day=event["day"]), say(f"At {event['time']}."))
        request = f"At what time on {event['day']} is {event['title']}?"
        return Scenario(request, state, tools, steps, (Fact(event["time"], others),))
    if dice.chance(0.5):
        return Scenario(
            f"Cancel event {key}. It was due on {day} at {time}.",
            state,
            tools,
            (call("cancel_event", event=key), say("Done.")),
        )
    move = call("move_event", event=key, day=day, time=time)
    return Scenario(f"Move event {key} to {day} at {time}.", state, tools, (move, say("Done.")))


def _search(dice: Dice) -> Scenario:
    state = _state(dice)
    key = dice.one(list(state["events"]))
    title, (day, time) = state["events"][key]["title"], _slot(dice, state)
    tools = ("find_events", "move_event", "cancel_event", "find_address", "send_mail")
    if dice.chance(0.5):
        steps = (
            call("find_events", title=title),
            call("move_event", event=key, day=day, time=time),
            say("Done."),
        )
        return Scenario(f"Move my {title} to {day} at {time}.", state, tools, steps)
    name, body = dice.one(list(state["people"])), f"See you on {day} at {time}."
    mail = call("send_mail", address=state["people"][name]["address"], body=body)
    steps = (call("find_address", name=name), mail, say("Done."))
    return Scenario(f"Mail {name} exactly this: {body}", state, tools, steps)


def _ask(dice: Dice) -> Scenario:
    state = _state(dice)
    tools = ("add_event", "list_events", "find_events", "cancel_event")
    title, (day, time) = dice.one(TITLES), _slot(dice, state)
    request = f"Add {title} on {day}. If that time is taken, change nothing and tell me what is there."
    question, taken = say("At what time?"), dice.chance(0.5)
    event = dice.one(list(state["events"].values()))
    if taken:
        day, time, title = event["day"], event["time"], dice.one([t for t in TITLES if t != event["title"]])
        request = f"Add {title} on {day}. If that time is taken, change nothing and tell me what is there."
    add = call("add_event", title=title, day=day, time=time)
    others = tuple(t for t in TITLES if t not in (event["title"], title))
    facts = (Fact(event["title"], others),) if taken else ()
    end = say(f"It is taken by {event['title']}." if taken else "Done.")
    knows = (Known(("time", "when", "hour", "o'clock"), f"At {time}."),)
    return Scenario(request, state, tools, (question, add, end), facts, knows)


def _all(dice: Dice) -> Scenario:
    state = _state(dice, 9)
    moved, dropped = dice.some(list(state["events"]), 2)
    (day, time), name = _slot(dice, state), dice.one(list(state["people"]))
    old, title = state["events"][moved], state["events"][dropped]["title"]
    address = state["people"][name]["address"]
    body = f"Now on {day} at {time}."
    steps = (
        say("To which day and time?"),
        calls(
            call("find_events", title=old["title"]),
            call("find_events", title=title),
            call("find_address", name=name),
        ),
        calls(
            call("move_event", event=moved, day=day, time=time),
            call("cancel_event", event=dropped),
            call("send_mail", address=address, body=body),
        ),
        say(f"Done. The address is {address}."),
    )
    request = (
        f"Move my {old['title']}, cancel my {title}, and tell {name} the new time. Which address did you use?"
    )
    rules = "A mail about a moved event says exactly: Now on DAY at HH:MM."
    knows = (Known(("time", "day", "when", "where", "which"), f"To {day} at {time}."),)
    others = tuple(p["address"] for p in state["people"].values() if p["address"] != address)
    names = tuple(tool.name for tool in TOOLS)
    return Scenario(request, state, names, steps, (Fact(address, others),), knows, rules)


CALENDAR = World("calendar", TOOLS, (_copy, _choose, _search, _ask, _all))
