"""Verifiers that raise, hang or answer nonsense, and rewards set aside: the run goes on and says why."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from posttrain.errors import RunFailed
from posttrain.records.groups import read_groups
from posttrain.train.program import train_command
from posttrain.types import Reward, Unjudged

DOMAINS = '''
import asyncio
import threading

from posttrain.types import Domain, Message, Reward, Task


def made(name, verify):
    def task(split, level, index):
        return Task(f"{split}-{index}", name, level, (Message("user", f"{name} {index}"),), {"answer": "a"})

    return Domain(name, lambda split, level: None, task, verify)


def vowel(trajectory):
    return float(trajectory.answer[:1] in ("a", "e", "i", "o", "u"))


async def sound(trajectory, sandbox, files):
    flags = ("copied",) if trajectory.answer[:1] == "a" else ()
    shown = vowel(trajectory)
    return Reward(shown, {"visible": shown, "hidden": shown / 4}, flags)


async def raises(trajectory, sandbox, files):
    raise LookupError("the gold file is gone")


async def hangs(trajectory, sandbox, files):
    await asyncio.sleep(60)


async def blocks(trajectory, sandbox, files):
    threading.Event().wait(5)


async def nan(trajectory, sandbox, files):
    return Reward(float("nan"))


async def half(trajectory, sandbox, files):
    """Every attempt that ends in an even letter is set aside."""
    value = float(ord(trajectory.answer[:1] or "a") % 2)
    return Reward(value, flags=() if value else ("quarantine",))


async def aside(trajectory, sandbox, files):
    return Reward(vowel(trajectory), flags=("quarantine",))


sound, raises, hangs = made("sound", sound), made("raises", raises), made("hangs", hangs)
blocks, nan = made("blocks", blocks), made("nan", nan)
half, aside = made("half", half), made("aside", aside)
'''


@pytest.fixture
def run_of(config: Path, tmp_path: Path) -> Any:
    """Return what trains on the named domains and gives the exit code and the run folder."""

    def run(*names: str, steps: int = 2, groups: int = 2) -> tuple[int, Path]:
        (tmp_path / "failing_of_test.py").write_text(DOMAINS)
        text = config.read_text().split("[[domains]]")[0]
        text += "".join(f'[[domains]]\nuse = "failing_of_test:{name}"\n' for name in names)
        config.write_text(text + "[deadlines]\nverify_seconds = 0.3\nmisses = 2\n")
        settings = [f"run.steps={steps}", f"run.groups={groups}"]
        return train_command(config, settings, tmp_path / "run", None), tmp_path / "run"

    return run


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_verifiers_that_raise_hang_block_or_give_nan_leave_unjudged_attempts_with_their_reason(
    run_of: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("sound", "raises", "hangs", "blocks", "nan")
    code, run = run_of(*names, steps=2, groups=5)
    assert code == 0
    verdicts: dict[str, list[Any]] = {name: [] for name in names}
    for step in (1, 2):
        for group in read_groups(run / "groups" / f"step-{step:06d}.jsonl"):
            verdicts[group.task.domain] += group.verdicts
    kinds = {name: {v.kind for v in seen if isinstance(v, Unjudged)} for name, seen in verdicts.items()}
    assert kinds == {
        "sound": set(),
        "raises": {"error"},
        "hangs": {"deadline"},
        "blocks": {"deadline"},
        "nan": {"invalid"},
    }
    assert all(isinstance(verdict, Unjudged) for name in names[1:] for verdict in verdicts[name])
    assert "Traceback" in verdicts["raises"][0].detail
    assert "LookupError: the gold file is gone" in verdicts["raises"][0].detail
    assert any("it kept its thread busy" in verdict.detail for verdict in verdicts["blocks"])

    for row in rows(run / "domains.jsonl"):
        failing = row["domain"] != "sound"
        assert row["unjudged"] == (row["num_attempts"] if failing else 0)
        assert row["reward_mean"] is None if failing else 0 <= row["reward_mean"] <= 1, "never a reward of 0"
    ledger = rows(run / "ledger.jsonl")[-1]["domains"]
    for name in names[1:]:
        assert ledger[name]["settled"] == {"unjudged": {"dropped": len(verdicts[name])}}
    assert "unjudged" not in ledger["sound"]["settled"]
    events = [row["text"] for row in rows(run / "events.jsonl") if row["kind"] == "unjudged"]
    assert len(events) == 4, "each failing domain is named once"
    said = capsys.readouterr().err
    assert "the gold file is gone" in said
    assert "waiting for verdicts" in said


def test_flags_parts_and_the_gap_to_hidden_tests_are_counted_by_domain(run_of: Any) -> None:
    _, run = run_of("sound", steps=3)
    recorded = {step: list(read_groups(run / "groups" / f"step-{step:06d}.jsonl")) for step in (1, 2, 3)}
    for row, step in zip(rows(run / "domains.jsonl"), rows(run / "metrics.jsonl"), strict=True):
        rewards = [v for g in recorded[row["step"]] for v in g.verdicts if isinstance(v, Reward)]
        flagged = sum("copied" in reward.flags for reward in rewards)
        assert row.get("flag.copied", 0) == flagged == step["num_flagged"]
        assert row["flagged_share"] == pytest.approx(flagged / len(rewards))
        visible = sum(reward.parts["visible"] for reward in rewards) / len(rewards)
        assert row["part.visible"] == pytest.approx(visible)
        assert row["part.hidden"] == pytest.approx(visible / 4)
        assert row["hidden_gap"] == pytest.approx(visible * 3 / 4)


def test_a_quarantined_attempt_is_recorded_counted_and_not_trained_on(run_of: Any) -> None:
    _, run = run_of("sound", "aside", steps=4)
    groups = [g for step in (1, 2, 3, 4) for g in read_groups(run / "groups" / f"step-{step:06d}.jsonl")]
    held = sum(isinstance(v, Reward) and v.is_quarantined for g in groups for v in g.verdicts)
    assert held == 4 * 6, "recorded"
    settled = rows(run / "ledger.jsonl")[-1]["domains"]["aside"]["settled"]
    fates = sum((Counter(fate) for fate in settled.values()), Counter[str]())
    assert fates == {"quarantined": held}
    assert sum(row["num_quarantined"] for row in rows(run / "metrics.jsonl")) == held
    assert all(row["num_groups_trained"] <= 1 for row in rows(run / "metrics.jsonl"))


def test_the_rest_of_a_group_trains_without_what_is_set_aside(run_of: Any) -> None:
    # All attempts that are left in a group earn 1: with the others as baseline they would have a signal.
    with pytest.raises(RunFailed, match="none of 2 steps"):
        run_of("half")
