"""The fixed mixture: shares, determinism, state and the pause of broken domains."""

from collections import Counter

from posttrain.curriculum.mixture import Entry, Mixture
from posttrain.types import Domain, Group, Message, Reward, Split, Task, Trajectory, Unjudged


def make_domain(name: str) -> Domain:
    def task(split: Split, level: int, index: int) -> Task:
        return Task(f"{name}-{split}-{index}", name, level, (Message("user", "?"),), {})

    async def verify(trajectory, sandbox, files) -> Reward:
        return Reward(1.0)

    return Domain(name, lambda split, level: None, task, verify)


def entries(**weights: float) -> tuple[Entry, ...]:
    return tuple(Entry(make_domain(name), 0, weight) for name, weight in weights.items())


def names(mixture: Mixture, count: int) -> list[str]:
    return [draw.domain.name for draw in mixture.draw(count)]


def test_shares_follow_the_weights_exactly_over_a_cycle() -> None:
    assert Counter(names(Mixture(entries(a=3.0, b=1.0, c=1.0)), 50)) == {"a": 30, "b": 10, "c": 10}


def test_no_domain_waits_longer_than_its_share_allows() -> None:
    drawn = names(Mixture(entries(a=1.0, b=1.0, c=1.0)), 9)
    assert all(set(drawn[i : i + 3]) == {"a", "b", "c"} for i in (0, 3, 6))


def test_draws_are_numbered_in_order_and_tasks_do_not_repeat() -> None:
    draws = Mixture(entries(a=1.0, b=1.0), start=5).draw(10)
    assert [draw.sequence for draw in draws] == list(range(10))
    assert [draw.task.id for draw in draws if draw.domain.name == "a"] == [
        f"a-train-{i}" for i in range(5, 10)
    ]


def test_a_restored_mixture_draws_what_the_uninterrupted_one_draws() -> None:
    whole, first = Mixture(entries(a=2.0, b=1.0)), Mixture(entries(a=2.0, b=1.0))
    expected = [draw.task.id for draw in whole.draw(20)]
    before = [draw.task.id for draw in first.draw(7)]
    second = Mixture(entries(a=2.0, b=1.0))
    second.load_state_dict(first.state_dict())
    assert before + [draw.task.id for draw in second.draw(13)] == expected


def unjudged_group(name: str, count: int) -> Group:
    task = Task("t", name, 0, (Message("user", "?"),), {})
    attempt = Trajectory(task, (), "stop")
    return Group(0, task, (attempt,) * count, (Unjudged("error", "broken"),) * count)


def test_a_domain_whose_verifier_keeps_failing_is_paused_named_and_tried_again() -> None:
    mixture = Mixture(entries(a=1.0, b=1.0))
    mixture.observe([unjudged_group("a", 20)])
    assert "a: 20 of 20" in mixture.alarms[0]
    assert set(names(mixture, 64)) == {"b"}
    assert "a" in names(mixture, 4)


def test_with_every_domain_paused_the_draws_go_on() -> None:
    mixture = Mixture(entries(a=1.0))
    mixture.observe([unjudged_group("a", 20)])
    assert names(mixture, 3) == ["a", "a", "a"]
