"""Groups as JSON lines: complete, and equal to the last bit when read back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from posttrain.errors import RowError, RunFolderError
from posttrain.records import durable, exact_json
from posttrain.types import Group, Message, Reward, Task, ToolCall, Trajectory, Turn, Unjudged, Verdict


def groups_path(folder: Path, step: int) -> Path:
    """Return where the groups of `step` stand in a run folder."""
    return folder / "groups" / f"step-{step:06d}.jsonl"


def write_groups(folder: Path, step: int, groups: Sequence[Group]) -> Path:
    """Write the groups of a step into a run folder, whole or not at all; return the file.

    Raises RunFolderError if the step's groups are already there, InputError if a task is not plain JSON.
    """
    path = groups_path(folder, step)
    try:
        durable.create_file(path, b"".join(encode_group(group) + b"\n" for group in groups))
    except FileExistsError:
        raise RunFolderError(
            f"{path}: the groups of step {step} are already written. "
            "Rewind the run folder before a step is redone."
        ) from None
    return path


def read_groups(path: Path) -> Iterator[Group]:
    """Yield the groups of a file in order; raise RowError at a line that is not a group."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            yield _read_line(line, path, number)


def _read_line(line: bytes, path: Path, number: int) -> Group:
    try:
        return decode_group(line)
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError) as error:
        problem = f"not a group ({type(error).__name__}: {error})"
        raise RowError(problem, path=path, row=number, hint="Restore the file, or remove the line") from None


def encode_group(group: Group) -> bytes:
    """Return a group as one line of JSON, without the line's end."""
    pairs = zip(group.trajectories, group.verdicts, strict=True)
    attempts = [_attempt(trajectory, verdict, group.task) for trajectory, verdict in pairs]
    return exact_json.dumps({"sequence": group.sequence, "task": _task(group.task), "attempts": attempts})


def decode_group(line: bytes | str) -> Group:
    """Return the group of a line; raise ValueError, KeyError or TypeError if it is none."""
    row = exact_json.loads(line)
    task = _read_task(row["task"])
    attempts = row["attempts"]
    return Group(
        sequence=row["sequence"],
        task=task,
        trajectories=tuple(_read_trajectory(attempt, task) for attempt in attempts),
        verdicts=tuple(_read_verdict(attempt) for attempt in attempts),
    )


# --- to JSON -----------------------------------------------------------------------------------------


def _task(task: Task) -> dict[str, Any]:
    return {
        "id": task.id,
        "domain": task.domain,
        "level": task.level,
        "prompt": [_message(message) for message in task.prompt],
        "reference": task.reference,
        "tools": task.tools,
        "setup": task.setup,
    }


def _message(message: Message) -> dict[str, Any]:
    row: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        row["tool_calls"] = [_call(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        row["tool_call_id"] = message.tool_call_id
    return row


def _call(call: ToolCall) -> dict[str, Any]:
    row: dict[str, Any] = {"id": call.id, "name": call.name, "arguments": call.arguments}
    return {**row, "problem": call.problem} if call.problem else row


def _attempt(trajectory: Trajectory, verdict: Verdict, task: Task) -> dict[str, Any]:
    row: dict[str, Any] = {
        "turns": [_turn(turn) for turn in trajectory.turns],
        "stop": trajectory.stop,
        "temperature": trajectory.temperature,
    }
    if trajectory.task != task:
        row["task"] = _task(trajectory.task)
    if isinstance(verdict, Unjudged):
        row["unjudged"] = {"kind": verdict.kind, "detail": verdict.detail}
    else:
        row["reward"] = {
            "value": verdict.value,
            "parts": verdict.parts,
            "flags": verdict.flags,
            "by_turn": verdict.by_turn,
        }
    return row


def _turn(turn: Turn) -> dict[str, Any]:
    return {
        "message": _message(turn.message),
        "tokens": turn.tokens,
        "logprobs": turn.logprobs,
        "version": turn.version,
    }


# --- from JSON ---------------------------------------------------------------------------------------


def _read_task(row: Mapping[str, Any]) -> Task:
    prompt = tuple(_read_message(message) for message in row["prompt"])
    return Task(**{**row, "prompt": prompt, "tools": tuple(row["tools"])})


def _read_message(row: Mapping[str, Any]) -> Message:
    calls = tuple(ToolCall(**call) for call in row.get("tool_calls", ()))
    return Message(**{**row, "tool_calls": calls})


def _read_trajectory(row: Mapping[str, Any], task: Task) -> Trajectory:
    own_task = _read_task(row["task"]) if "task" in row else task
    turns = tuple(_read_turn(turn) for turn in row["turns"])
    return Trajectory(own_task, turns, row["stop"], row["temperature"])


def _read_turn(row: Mapping[str, Any]) -> Turn:
    logprobs = None if row["logprobs"] is None else tuple(row["logprobs"])
    return Turn(_read_message(row["message"]), tuple(row["tokens"]), logprobs, row["version"])


def _read_verdict(row: Mapping[str, Any]) -> Verdict:
    if "unjudged" in row:
        return Unjudged(**row["unjudged"])
    reward = row["reward"]
    return Reward(reward["value"], reward["parts"], tuple(reward["flags"]), tuple(reward["by_turn"]))
