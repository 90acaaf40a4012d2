"""From a step's harvest and update to the numbers that are recorded: per step, and per domain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from posttrain.policy.stats import UpdateStats
from posttrain.records.environment import peak_memory_bytes
from posttrain.records.metrics import FLAG, PART
from posttrain.rollouts.collect import Harvest
from posttrain.types import Group, Reward, Unjudged

Numbers = dict[str, float | int | str | None]
Keeps = Callable[[Group], bool]
TRUNCATED = ("length", "context")


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of a run; `stats` is None where no group carried a signal."""

    step: int
    harvest: Harvest
    stats: UpdateStats | None
    seconds: float


def step_metrics(record: StepRecord, success: Mapping[str, float], keeps: Keeps) -> Numbers:
    """Return the step's row of metrics.jsonl; `success` holds each domain's threshold."""
    harvest, stats, groups = record.harvest, record.stats, record.harvest.groups
    numbers: Numbers = {"step": record.step, "version": record.step}
    numbers |= _earned(groups, success, keeps)
    numbers |= {
        "num_groups_trained": sum(keeps(group) for group in groups),
        "num_unjudged": _num_unjudged(groups),
        "num_flagged": sum(bool(reward.flags) for reward in _rewards(groups)),
        "num_quarantined": sum(reward.is_quarantined for reward in _rewards(groups)),
        "num_truncated": sum(t.stop in TRUNCATED for group in groups for t in group.trajectories),
        "num_too_long": len(harvest.too_long),
        "tokens_sampled": harvest.num_tokens,
        "seconds_sample": harvest.sample_seconds,
        "seconds_verify": harvest.verify_seconds,
        "seconds_step": record.seconds,
        "verify_share": harvest.verify_seconds / max(record.seconds, 1e-9),
        "tokens_per_second": harvest.num_tokens / max(record.seconds, 1e-9),
        "memory_peak_bytes": peak_memory_bytes(),
    }
    return numbers | _update_metrics(stats, _why_skipped(groups))


def domain_metrics(record: StepRecord, success: Mapping[str, float], keeps: Keeps) -> list[Numbers]:
    """Return the step's rows of domains.jsonl, one for each domain that was drawn."""
    return [
        _domain_row(
            record.step, name, [g for g in record.harvest.groups if g.task.domain == name], success, keeps
        )
        for name in sorted({group.task.domain for group in record.harvest.groups})
    ]


def _domain_row(
    step: int, name: str, groups: Sequence[Group], success: Mapping[str, float], keeps: Keeps
) -> Numbers:
    solved = [any(value >= success[name] for value in group.values) for group in groups]
    row: Numbers = {"step": step, "domain": name, "level": groups[0].task.level}
    row |= _earned(groups, success, keeps)
    return (
        row
        | {
            "truncated_share": _mean([t.stop in TRUNCATED for group in groups for t in group.trajectories]),
            "unjudged": _num_unjudged(groups),
            "pass_any": _mean(solved),
        }
        | _suspicions(_rewards(groups))
    )


def _suspicions(rewards: Sequence[Reward]) -> Numbers:
    """Return what rewards say beside their value: flags counted, parts averaged, the gap to hidden tests."""
    numbers: Numbers = {
        "flagged_share": _mean([bool(reward.flags) for reward in rewards]),
        "num_quarantined": sum(reward.is_quarantined for reward in rewards),
    }
    both = [r.parts for r in rewards if "visible" in r.parts and "hidden" in r.parts]
    if both:
        numbers["hidden_gap"] = _mean([parts["visible"] - parts["hidden"] for parts in both])
    parts: dict[str, list[float]] = {}
    for reward in rewards:
        for name, value in reward.parts.items():
            parts.setdefault(name, []).append(value)
    flags = Counter(flag for reward in rewards for flag in set(reward.flags))
    numbers |= {f"{FLAG}{name}": flags[name] for name in sorted(flags)}
    return numbers | {f"{PART}{name}": _mean(parts[name]) for name in sorted(parts)}


def _rewards(groups: Sequence[Group]) -> list[Reward]:
    return [reward for group in groups for _, reward in group.judged]


def _earned(groups: Sequence[Group], success: Mapping[str, float], keeps: Keeps) -> Numbers:
    """Return what attempts earned and how they differ; means are None where nothing was judged."""
    attempts = [t for group in groups for t in group.trajectories]
    judged = [(group, reward) for group in groups for _, reward in group.judged]
    return {
        "num_groups": len(groups),
        "num_attempts": len(attempts),
        "reward_mean": _mean([reward.value for _, reward in judged]),
        "success_mean": _mean([reward.value >= success[group.task.domain] for group, reward in judged]),
        "signal_share": _mean([keeps(group) for group in groups]),
        "length_mean": _mean([t.num_sampled for t in attempts]),
        "distinct_answers_mean": _mean([len({t.answer for t in g.trajectories}) for g in groups]),
    }


def _num_unjudged(groups: Sequence[Group]) -> int:
    return sum(isinstance(verdict, Unjudged) for group in groups for verdict in group.verdicts)


def _why_skipped(groups: Sequence[Group]) -> str:
    unjudged, attempts = _num_unjudged(groups), sum(len(group.trajectories) for group in groups)
    if unjudged:
        return f"no group carried a signal: {unjudged} of {attempts} attempts got no verdict"
    return "no group carried a signal: all attempts at each task earned the same"


def _update_metrics(stats: UpdateStats | None, why_skipped: str) -> Numbers:
    if stats is None:
        return {"skipped": why_skipped}
    numbers: Numbers = {
        "skipped": stats.skipped or None,
        "loss": stats.loss,
        "grad_norm": stats.gradient_norm,
        "learning_rate": stats.learning_rate,
        "entropy": stats.entropy,
        "clip_share": stats.clip_share,
        "kl_sampler": stats.sampler_kl,
        "mismatch_max": stats.mismatch,
        "tokens_trained": stats.num_tokens,
        "seconds_update": stats.seconds,
    }
    return numbers | {f"loss.{name}": value for name, value in stats.components.items()}


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
