"""The world of files in folders and of records about people: what an office keeps."""

from __future__ import annotations

from typing import Any

from posttrain.domains.extraction_words import CITIES, TOPICS, Dice
from posttrain.domains.tools.scenario import Fact, Known, Scenario, World, call, calls, say
from posttrain.domains.tools.tool import Refused, State, Tool, found, text
from posttrain.types import JSON

FOLDERS = ("inbox", "archive", "drafts", "shared", "taxes", "plans")
STEMS = (
    "plan", "notes", "report", "letter", "budget", "list", "memo", "draft", "survey", "recipe", "agenda",
    "review", "minutes", "invoice", "contract", "summary",
)  # fmt: skip
FOLDER = {"type": "string", "enum": list(FOLDERS)}
FIELD = {"type": "string", "enum": ["city", "phone"]}


def _move(state: State, file: str, folder: str) -> JSON:
    if folder not in FOLDERS:
        raise Refused(f"there is no folder {folder[:40]!r}")
    found(state, "files", file)["folder"] = folder
    return "ok"


def _delete(state: State, file: str) -> JSON:
    found(state, "files", file)
    del state["files"][file]
    return "ok"


def _read(state: State, file: str) -> JSON:
    return str(found(state, "files", file)["text"])


def _list(state: State, folder: str) -> JSON:
    return [name for name, each in state["files"].items() if each["folder"] == folder]


def _people(state: State, name: str) -> JSON:
    return [{"record": key, **each} for key, each in state["records"].items() if each["name"] == name]


def _update(state: State, record: str, field: str, value: str) -> JSON:
    found(state, "records", record)[field] = value
    return "ok"


TOOLS = (
    Tool("move_file", "", {"file": text(), "folder": text()}, _move),
    Tool("read_file", "Read a file.", {"file": text()}, _read),
    Tool("delete_file", "Delete a file.", {"file": text()}, _delete),
    Tool("list_files", "List a folder's files.", {"folder": FOLDER}, _list),
    Tool("find_records", "Find people's records.", {"name": text("full name")}, _people),
    Tool(
        "set_field", "Change a record.", {"record": text("its id"), "field": FIELD, "value": text()}, _update
    ),
)
_NAMES = tuple(tool.name for tool in TOOLS)


def _code(dice: Dice) -> str:
    return f"K{dice.number(1000, 9999)}"


def _state(dice: Dice, count: int = 6) -> State:
    names = dice.some([f"{stem}{number}.txt" for stem in STEMS for number in range(1, 60)], count)
    codes = dice.some(range(1000, 9999), count)
    files = {
        name: {"folder": dice.one(FOLDERS), "text": f"About {dice.one(TOPICS)}. Code K{code}."}
        for name, code in zip(names, codes, strict=True)
    }
    people = list(dict.fromkeys(dice.name() for _ in range(4)))
    keys = dice.some(range(10, 99), len(people))
    records = {
        f"r{key}": {"name": name, "city": dice.one(CITIES), "phone": str(dice.number(1000, 9999))}
        for key, name in zip(keys, people, strict=True)
    }
    return {"files": files, "records": records}


def _code_of(state: State, file: str) -> str:
    return str(state["files"][file]["text"])[-6:-1]


def _code_fact(state: State, file: str) -> Fact:
    code = _code_of(state, file)
    return Fact(code, tuple(each for name in state["files"] if (each := _code_of(state, name)) != code))


def _elsewhere(dice: Dice, state: State, file: str) -> str:
    return dice.one([folder for folder in FOLDERS if folder != state["files"][file]["folder"]])


def _copy(dice: Dice) -> Scenario:
    state = _state(dice, 3)
    file = dice.one(list(state["files"]))
    folder = _elsewhere(dice, state, file)
    request = dice.one(
        (f"Move {file} to {folder}.", f"Put {file} into {folder}.", f"{file} belongs in {folder}.")
    )
    return Scenario(
        request, state, ("move_file",), (call("move_file", file=file, folder=folder), say("Done."))
    )


def _choose(dice: Dice) -> Scenario:
    state = _state(dice)
    file, tools = dice.one(list(state["files"])), ("read_file", "move_file", "delete_file")
    if dice.chance(0.5):
        steps = (call("read_file", file=file), say(f"The code is {_code_of(state, file)}."))
        return Scenario(f"Which code stands in {file}?", state, tools, steps, (_code_fact(state, file),))
    if dice.chance(0.5):
        return Scenario(f"Delete {file}.", state, tools, (call("delete_file", file=file), say("Done.")))
    folder = _elsewhere(dice, state, file)
    steps = (call("move_file", file=file, folder=folder), say("Done."))
    return Scenario(f"Put {file} into {folder}.", state, tools, steps)


def _search(dice: Dice) -> Scenario:
    state = _state(dice)
    key = dice.one(list(state["records"]))
    record, phone = state["records"][key], str(dice.number(10_000, 99_999))
    tools = ("find_records", "set_field", "list_files", "delete_file", "read_file")
    look = call("find_records", name=record["name"])
    if dice.chance(0.5):
        steps = (look, call("set_field", record=key, field="phone", value=phone), say("Done."))
        return Scenario(f"{record['name']} has a new phone: {phone}.", state, tools, steps)
    city = dice.one([each for each in CITIES if each != record["city"]])
    steps = (look, call("set_field", record=key, field="city", value=city), say("Done."))
    return Scenario(f"{record['name']} now lives in {city}.", state, tools, steps)


def _ask(dice: Dice) -> Scenario:
    state = _state(dice)
    file = dice.one(list(state["files"]))
    stem, is_kept = file.removesuffix(".txt").rstrip("0123456789"), dice.chance(0.5)
    if is_kept:
        state["files"][file]["text"] = "KEEP. " + state["files"][file]["text"]
    question, look = say("Which file do you mean?"), call("read_file", file=file)
    request = f"Delete my {stem}. If the rules forbid it, tell me the code in it."
    rules = "Read a file before you delete it. Never delete a file that begins with KEEP."
    knows = (Known(("which", "file", "name"), f"{file}."),)
    if is_kept:
        end = say(f"The rules forbid it. Its code is {_code_of(state, file)}.")
        return Scenario(
            request, state, _NAMES, (question, look, end), (_code_fact(state, file),), knows, rules
        )
    steps = (question, look, call("delete_file", file=file), say("Done."))
    return Scenario(request, state, _NAMES, steps, (), knows, rules)


def _all(dice: Dice) -> Scenario:
    state = _state(dice, 9)
    source, target = dice.some(FOLDERS, 2)
    files: list[str] = dice.some(list(state["files"]), 4)
    for file in files:
        state["files"][file]["folder"] = source
    for file in files[:2]:
        state["files"][file]["text"] = "KEEP. " + state["files"][file]["text"]
    mine = [name for name, each in state["files"].items() if each["folder"] == source]
    kept = [name for name in mine if state["files"][name]["text"].startswith("KEEP")]
    key = dice.one(list(state["records"]))
    record: dict[str, Any] = state["records"][key]
    city = record["city"]
    moves = [call("move_file", file=name, folder=target) for name in kept]
    gone = [call("delete_file", file=name) for name in mine if name not in kept]
    phone = str(dice.number(10_000, 99_999))
    steps = (
        say("Into which folder?"),
        calls(call("list_files", folder=source), call("find_records", name=record["name"])),
        calls(*(call("read_file", file=name) for name in mine)),
        calls(*moves, *gone, call("set_field", record=key, field="phone", value=phone)),
        say(f"Done. {record['name']} lives in {city}."),
    )
    request = (
        f"Empty the folder {source}: move what must be kept and delete the rest. Then set the phone of "
        f"{record['name']} to {phone} and tell me the city."
    )
    rules = "Never delete a file that begins with KEEP. Read files to know."
    facts = (Fact(city, tuple(each for each in CITIES if each != city)),)
    knows = (Known(("which", "folder", "where"), f"Into {target}."),)
    return Scenario(request, state, _NAMES, steps, facts, knows, rules)


FILES = World("files", TOOLS, (_copy, _choose, _search, _ask, _all))
