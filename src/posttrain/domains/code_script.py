"""Tasks in Harbor's layout that a test script judges: the domain `harbor`.

The answer acts in a box, then `tests/` is put beside what it left and `tests/test.sh` runs. Whatever the
answer left can mislead the script, so such verdicts are weak: one is worth what the script is worth.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posttrain.config.wording import Place
from posttrain.domains.code import split_of
from posttrain.domains.code_harbor import STATEMENT, is_folder_of_tasks, read_text, task_folders
from posttrain.errors import InputError, RunFailed
from posttrain.protocols import Limits, Program, RunResult, Sandbox, Session
from posttrain.rewards.code import FLAGS, MEANINGS, CodeReward, extract_code
from posttrain.types import Domain, Message, Reward, Split, Task, Trajectory

INSTRUCTION = "Answer with the file {file} in one code block."
SHELL_INSTRUCTION = "Answer with one bash script that does the task."
MAX_BYTES = 4 * 2**20
"""All files of one task; they travel in its reference."""
SCRIPT, RESULTS = "tests/test.sh", ("logs/verifier/reward.txt", "logs/verifier/reward.json")
NOWHERE = Place("", "")
# Harbor's scripts name absolute places; in a box these are folders of the box.
_RUN = r"""
rm -rf logs && mkdir -p logs/verifier
start='(^|[^A-Za-z0-9_./-])' end='([^A-Za-z0-9_-]|$)'
grep -rlI . tests | while read -r file; do
  sed -E -i "s#$start/(tests|logs/verifier)$end#\1$PWD/\2\3#g; s#$start/app$end#\1$PWD\2#g" "$file"
done
exec bash tests/test.sh
"""


@dataclass(frozen=True, slots=True)
class Script:
    """One task: its instruction, the files it starts with, those that test it, and a solution or ''."""

    name: str
    instruction: str
    start: Mapping[str, bytes]
    tests: Mapping[str, bytes]
    solution: str

    def reference(self) -> dict[str, Any]:
        """Return all of it as plain JSON for `Task.reference`."""
        found: dict[str, Any] = {"start": _packed(self.start), "tests": _packed(self.tests)}
        return {"script": found, **({"answer": self.solution} if self.solution else {})}


def harbor(
    folder: str,
    *,
    name: str = "",
    file: str = "",
    eval_share: float = 0.2,
    instruction: str = "",
    reward: CodeReward = CodeReward(),
    cpu_seconds: float = 30.0,
    wall_seconds: float = 60.0,
    place: Place = NOWHERE,
) -> Domain:
    """Return a domain of the tasks in a folder, each judged by its own `tests/test.sh`.

    The answer is a bash script, or with `file` the content of that file. The value is what the script writes
    to /logs/verifier/reward.txt or reward.json, else 1 for exit code 0 and 0 for any other. Files beside
    `environment/Dockerfile` are there from the start; the image itself is not built.
    """
    if not 0 < eval_share < 1:
        raise place.at("eval_share").error(f"{eval_share} is not between 0 and 1")
    scripts = _read(folder, file, place.at("folder"))
    splits: dict[Split, list[Script]] = {"train": [], "eval": []}
    for script in scripts:
        splits[split_of(script.name, eval_share)].append(script)
    empty = [split for split, some in splits.items() if not some]
    if empty:
        problem = f"{eval_share} leaves none of {len(scripts)} task(s) for {empty[0]}"
        raise place.at("eval_share").error(problem, "Change it, or give more tasks")
    label = name or Path(folder).name
    asked = instruction or (INSTRUCTION.format(file=file) if file else SHELL_INSTRUCTION)
    judge = _Judge(file, reward, Limits(cpu_seconds, wall_seconds, num_processes=32, num_files=4096))

    def task(split: Split, level: int, index: int) -> Task:
        script = splits[split][index % len(splits[split])]
        question = Message("user", f"{script.instruction.strip()}\n\n{asked}")
        return Task(f"{label}/{split}/{script.name}", label, level, (question,), script.reference())

    return Domain(label, lambda split, level: len(splits[split]), task, judge.verify)


@dataclass(frozen=True, slots=True)
class _Judge:
    file: str
    scheme: CodeReward
    limits: Limits

    async def verify(self, trajectory: Trajectory, sandbox: Sandbox, files: Mapping[str, bytes]) -> Reward:
        found = trajectory.task.reference["script"]
        answer = extract_code(trajectory.answer)
        if not answer.strip():
            return Reward(self.scheme.compile_error, {"tests": 0.0})
        session = await sandbox.session(_unpacked(found["start"]), self.limits)
        try:
            return await self._judged(session, answer, _unpacked(found["tests"]))
        finally:
            await session.close()

    async def _judged(self, session: Session, answer: str, tests: Mapping[str, bytes]) -> Reward:
        name = self.file or "answer.sh"
        command = ("true",) if self.file else ("bash", name)
        acted = await session.run(
            Program("command", arguments=command, files={name: answer.encode("utf-8", "replace")}),
            self.limits,
        )
        # A script that fails half-way may have done the task; the tests tell.
        if MEANINGS[acted.status] in ("none", "timeout", "tampering"):
            return self._reward(acted, 0.0, {})
        tested = await session.run(
            Program("command", arguments=("bash", "-c", _RUN), files=tests, collect=RESULTS), self.limits
        )
        share, parts = _said(tested)
        return self._reward(tested, share, parts)

    def _reward(self, result: RunResult, share: float, parts: Mapping[str, float]) -> Reward:
        meaning = MEANINGS[result.status]
        if meaning == "none":
            raise RunFailed(f"the sandbox has no verdict: {result.stderr.decode('utf-8', 'replace')[:400]}")
        flags = (FLAGS[result.status],) if result.status in FLAGS else ()
        value = {"timeout": self.scheme.timeout, "tampering": self.scheme.tampering}.get(meaning, share)
        return Reward(value, {**parts, "tests": share}, flags)


def _said(result: RunResult) -> tuple[float, dict[str, float]]:
    """Return the reward that the script wrote, in 0 … 1, and its further numbers; else its exit code's."""
    text, table = (result.files.get(name) for name in RESULTS)
    try:
        if table is not None:
            found = {str(key): float(number) for key, number in json.loads(table).items()}
            share = found.pop("reward") if "reward" in found else sum(found.values()) / len(found)
            return _bounded(share), {key: _bounded(number) for key, number in found.items()}
        if text is not None:
            return _bounded(float(text)), {}
    except (ValueError, TypeError, AttributeError, ZeroDivisionError, RecursionError):
        return 0.0, {"unreadable": 1.0}
    return float(result.status == "OK" and result.exit_code == 0), {}


def _bounded(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError("not finite")
    return min(max(number, 0.0), 1.0)


def _read(folder: str, file: str, place: Place) -> list[Script]:
    beside = [Path(place.source).resolve().parent] if place.source else []
    for start in (*beside, Path.cwd()):
        path = start / Path(folder).expanduser()
        if path.is_dir() and is_folder_of_tasks(path):
            return [_script(each, file) for each in task_folders(path)]
    raise place.error(f"{folder!r} is no folder with tasks", "Each has a task.toml in a folder of its own")


def _script(folder: Path, file: str) -> Script:
    if not (folder / SCRIPT).is_file():
        raise InputError(f"{folder} has no {SCRIPT}, which judges the task. Add it, or remove the task.")
    start, tests = _files(folder / "environment", ""), _files(folder / "tests", "tests/")
    start.pop("Dockerfile", None)
    size = sum(map(len, (*start.values(), *tests.values())))
    if size > MAX_BYTES:
        raise InputError(f"{folder} has {size} bytes of files, {MAX_BYTES} are the most. Make it smaller.")
    gold = folder / "solution" / (file or "solve.sh")
    solution = read_text(gold) if gold.is_file() else ""
    return Script(folder.name, read_text(folder / STATEMENT), start, tests, solution)


def _files(folder: Path, prefix: str) -> dict[str, bytes]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {prefix + path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _packed(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: base64.b64encode(content).decode("ascii") for name, content in files.items()}


def _unpacked(files: Mapping[str, str]) -> dict[str, bytes]:
    return {name: base64.b64decode(content) for name, content in files.items()}
