"""What further updates on one batch gain per generated token: `python benchmarks/updates_per_batch.py`.

Trains the tiny model for every number of updates and seed with the same tasks and sampling keys, and compares
reward at equal numbers of generated tokens. Several steps of Adam on one batch also move further than
one, so one update at as many times the learning rate stands beside each: only what exceeds that control
comes from using the tokens again. Intervals are 95 % t-intervals over seeds, differences are paired.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from posttrain.measures.intervals import Interval, interval_of_means
from posttrain.train.program import train_command

DOMAIN = '''
from posttrain.types import Domain, Message, Reward, Task


def task(split, level, index):
    return Task(f"{split}-{index}", "vowels", level, (Message("user", f"{split} {index}"),), {})


async def verify(trajectory, sandbox, files):
    """Pay a quarter for a vowel in each of the four first places."""
    letters = trajectory.answer[:4]
    return Reward(sum(letter in tuple("aeiou") for letter in letters) / 4)


vowels = Domain("vowels", lambda split, level: None, task, verify)
'''

CONFIG = """
[model]
source = "tiny"
dtype = "float32"
device = "cpu"
lora = { rank = 8, alpha = 16.0 }
[sampling]
max_tokens = 5
[run]
steps = 20
groups = 4
attempts = 8
checkpoint_every = 20
[[domains]]
use = "vowels_of_study:vowels"
"""

WINDOW = 3
"""Steps whose mean reward counts as the reward after a number of tokens."""
SHARES = (0.25, 0.5, 1.0)
"""Budgets at which runs are compared, as shares of the tokens that all of them generated."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How often each batch is stepped on, and how far."""

    updates: int
    rate_factor: int

    @property
    def name(self) -> str:
        rate = "" if self.rate_factor == 1 else f", {self.rate_factor} × learning rate"
        return f"{self.updates} update{'s' if self.updates > 1 else ''}{rate}"


SETTINGS = (Setting(1, 1), Setting(2, 1), Setting(1, 2), Setting(4, 1), Setting(1, 4))


@dataclass(frozen=True, slots=True)
class Curve:
    """A run's reward at each step, the tokens generated up to and with it, and its share of silent tokens."""

    rewards: tuple[float, ...]
    tokens: tuple[int, ...]
    clip_share: float

    def gain(self, budget: float) -> float:
        """Return the reward gained over the first step per 1,000 tokens, once `budget` are generated."""
        last = max(i for i, tokens in enumerate(self.tokens) if tokens <= budget or i == 0)
        recent = self.rewards[max(0, last - WINDOW + 1) : last + 1]
        return 1000 * (sum(recent) / len(recent) - self.rewards[0]) / self.tokens[last]


def train(setting: Setting, seed: int, algorithm: str, learning_rate: float, folder: Path) -> Curve:
    """Run once and return its curve."""
    (folder / "vowels_of_study.py").write_text(DOMAIN, encoding="utf-8")
    (folder / "config.toml").write_text(CONFIG, encoding="utf-8")
    overrides = [
        f"algorithm.use={algorithm}",
        f"run.seed={seed}",
        f"learner.updates_per_batch={setting.updates}",
        f"optimizer.learning_rate={learning_rate * setting.rate_factor!r}",
    ]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = train_command(folder / "config.toml", overrides, folder / "run", None)
    if code != 0:
        raise SystemExit(f"{setting.name}, seed {seed}: training ended with code {code}")
    rows = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
    tokens = [sum(row["tokens_sampled"] for row in rows[: i + 1]) for i in range(len(rows))]
    clipped = [row["clip_share"] for row in rows if "clip_share" in row]
    share = math.fsum(clipped) / len(clipped) if clipped else 0.0
    return Curve(tuple(row["reward_mean"] for row in rows), tuple(tokens), share)


def report(curves: dict[Setting, list[Curve]]) -> list[dict[str, object]]:
    """Return one row for each setting and budget: gains per 1,000 tokens and what they exceed."""
    common = min(curve.tokens[-1] for several in curves.values() for curve in several)
    rows: list[dict[str, object]] = []
    for setting, several in curves.items():
        for share in SHARES:
            gains = {s: [curve.gain(share * common) for curve in each] for s, each in curves.items()}
            beside = {"one": Setting(1, 1)} if setting != Setting(1, 1) else {}
            if setting.updates > 1:
                beside["control"] = Setting(1, setting.updates)
            exceeds = {
                name: interval_of_means([a - b for a, b in zip(gains[setting], gains[other], strict=True)])
                for name, other in beside.items()
            }
            rows.append(
                {
                    "setting": setting.name,
                    "budget_tokens": round(share * common),
                    "gain_per_1000_tokens": asdict(interval_of_means(gains[setting])),
                    "clip_share": math.fsum(curve.clip_share for curve in several) / len(several),
                    **{f"exceeds_{name}": asdict(interval) for name, interval in exceeds.items()},
                }
            )
    return rows


def table(rows: list[dict[str, object]]) -> str:
    """Return the rows as Markdown."""

    def cell(row: dict[str, object], key: str) -> str:
        found = row.get(key)
        if not isinstance(found, dict):
            return ""
        interval = Interval(**found)
        return f"{interval.mean:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"

    keys = ("gain_per_1000_tokens", "exceeds_one", "exceeds_control")
    lines = [
        "| setting | tokens | gain per 1,000 tokens | more than 1 update | more than its control | clipped |",
        "|---|---:|---|---|---|---:|",
    ]
    for row in rows:
        cells = " | ".join(cell(row, key) for key in keys)
        lines.append(f"| {row['setting']} | {row['budget_tokens']} | {cells} | {row['clip_share']:.1%} |")
    return "\n".join(lines)


def main() -> None:
    """Run every setting with every seed, print the table, and write the figures as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--algorithm", default="grpo", help="its short name (default: grpo)")
    parser.add_argument("--seeds", type=int, default=8, help="how many (default: 8)")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="of one update (default: 1e-3)")
    parser.add_argument("--json", type=Path, default=Path("updates_per_batch.json"), help="where to write")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    curves: dict[Setting, list[Curve]] = {setting: [] for setting in SETTINGS}
    for seed in range(asked.seeds):
        for setting in SETTINGS:
            with tempfile.TemporaryDirectory() as folder:
                curve = train(setting, seed, asked.algorithm, asked.learning_rate, Path(folder))
            curves[setting].append(curve)
            print(f"seed {seed}, {setting.name}: reward {curve.rewards[0]:.2f} → {curve.rewards[-1]:.2f}")
    rows = report(curves)
    runs = {setting.name: [asdict(curve) for curve in several] for setting, several in curves.items()}
    document = {
        "algorithm": asked.algorithm,
        "learning_rate": asked.learning_rate,
        "rows": rows,
        "runs": runs,
    }
    asked.json.write_text(json.dumps(document, indent=1), encoding="utf-8")
    print(f"\n{table(rows)}\n\nwritten: {asked.json}")


if __name__ == "__main__":
    main()
