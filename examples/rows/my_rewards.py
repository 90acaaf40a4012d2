"""Reward functions as TRL takes them, used unchanged: `reward = "my_rewards:accuracy"`."""

import re


def accuracy(completions, answer, **kwargs):
    """Give 1.0 where the last number of a completion is the answer."""
    found = [re.findall(r"-?\d+", completion) for completion in completions]
    return [float(bool(numbers) and numbers[-1] == gold) for numbers, gold in zip(found, answer, strict=True)]


def digits(completions, **kwargs):
    """Give the share of a completion that is digits: a hint while nothing is right yet."""
    return [sum(map(str.isdigit, text)) / max(1, len(text)) for text in completions]


async def short(completions, difficulty, log_metric=None, **kwargs):
    """Give 1.0 for at most ten characters; not applicable (None) to hard rows."""
    if log_metric is not None:
        log_metric("characters", sum(map(len, completions)) / len(completions))
    return [
        None if level == "carry" else float(len(text) <= 10)
        for text, level in zip(completions, difficulty, strict=True)
    ]
