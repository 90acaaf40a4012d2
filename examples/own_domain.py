"""A domain of one's own: three functions. Use it with `use = "own_domain:reverse"`."""

from posttrain.types import Domain, Message, Reward, Task

WORDS = {"train": ("stone", "river", "cloud", "light"), "eval": ("grass", "flame", "ocean")}


def size(split, level):
    return len(WORDS[split])


def task(split, level, index):
    word = WORDS[split][index % size(split, level)]
    prompt = Message("user", f"Write the word '{word}' backwards.")
    return Task(f"reverse/{split}/{index}", "reverse", level, (prompt,), {"answer": word[::-1]})


async def verify(trajectory, sandbox, files):
    return Reward(float(trajectory.answer.strip().lower() == trajectory.task.reference["answer"]))


reverse = Domain("reverse", size, task, verify)
