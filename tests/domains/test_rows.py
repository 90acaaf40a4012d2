"""Rows as a domain: prompts, splits, levels, gold answers, and malformed rows that are all named."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from posttrain import assembly
from posttrain.cli import app, guarded
from posttrain.contracts.domain import attempt, check_domain
from posttrain.domains.rows import rows
from posttrain.domains.rows_order import digest, fraction, shuffled
from posttrain.errors import ConfigError, InputError, RowError
from posttrain.sandbox.scripted import ScriptedSandbox
from posttrain.types import Domain, Message, Split

ROOT = Path(__file__).parents[2]


def write(path: Path, cells: Sequence[Mapping[str, Any]]) -> str:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in cells))
    return str(path)


def questions(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"prompt": f"What is {n} + 1?", "answer": str(n + 1), **more} for n in range(count)]


def ids(domain: Domain, split: Split, level: int = 0) -> list[str]:
    return [domain.task(split, level, n).id for n in range(domain.size(split, level) or 0)]


def test_the_domain_contract_holds_for_text_and_for_chat(tmp_path: Path) -> None:
    chat = [
        {"prompt": [{"role": "user", "content": row["prompt"]}], "answer": row["answer"]}
        for row in questions(40)
    ]
    for name, cells in (("text", questions(40)), ("chat", chat)):
        domain = rows(write(tmp_path / f"{name}.jsonl", cells), reward="exact:answer")
        assert domain.name == name
        assert check_domain(domain) == []


def test_prompts_become_messages(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    turns = [
        {"role": "system", "content": ""},
        {"role": "user", "content": parts, "name": None},
        {"role": "assistant", "content": "no"},
        {"role": "user", "content": "again", "tool_calls": None},
    ]
    cells = [{"q": turns, "answer": 7}, {"q": "plain", "answer": "8"}] * 4
    domain = rows(write(tmp_path / "a.jsonl", cells), reward="exact:answer", prompt="q", eval_share=0.5)
    found = {task.prompt: task for n in range(8) for s in ("train", "eval") if (task := domain.task(s, 0, n))}
    said = tuple(
        Message(*pair) for pair in (("system", ""), ("user", "ab"), ("assistant", "no"), ("user", "again"))
    )
    assert set(found) == {said, (Message("user", "plain"),)}
    assert found[said].reference == {"columns": {"answer": 7}, "is_chat": True, "answer": "7"}


BAD_ROWS: list[tuple[dict[str, Any], str]] = [
    ({"answer": "1"}, "field 'prompt': is missing"),
    ({"prompt": "", "answer": "1"}, "field 'prompt': is empty"),
    ({"prompt": 3, "answer": "1"}, "field 'prompt': holds 3"),
    ({"prompt": [], "answer": "1"}, r"field 'prompt': holds \[\]"),
    ({"prompt": ["x"], "answer": "1"}, r"field 'prompt\[0\]': holds 'x'"),
    ({"prompt": [{"role": "bot", "content": "x"}], "answer": "1"}, r"'prompt\[0\].role': is 'bot'. Known"),
    ({"prompt": [{"role": "user", "content": None}], "answer": "1"}, r"'prompt\[0\].content': holds None"),
    (
        {"prompt": [{"role": "user", "content": [{"type": "image"}]}], "answer": "1"},
        "parts that are not text",
    ),
    (
        {
            "prompt": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "1"}],
            "answer": "1",
        },
        "ends with a message of the assistant",
    ),
    ({"prompt": [{"role": "user", "content": "q", "tool_calls": [1]}], "answer": "1"}, "tools are not read"),
    ({"prompt": "\ud800", "answer": "1"}, "a lone surrogate"),
    ({"prompt": "q", "answer": None}, "field 'answer': is missing or null"),
    ({"prompt": "q", "answer": " "}, "field 'answer': is empty"),
    ({"prompt": "q", "answer": "1", "level": 1.5}, "field 'level': holds 1.5"),
    ({"prompt": "q", "answer": "1"}, "field 'level': holds None"),
]


@pytest.mark.parametrize(("cells", "problem"), BAD_ROWS)
def test_a_malformed_row_names_file_row_and_field(
    tmp_path: Path, cells: dict[str, Any], problem: str
) -> None:
    path = write(tmp_path / "bad.jsonl", [*questions(3, level=1), cells, *questions(2, level=1)])
    with pytest.raises(RowError, match=rf"bad\.jsonl, row 4, .*{problem}"):
        rows(path, reward="exact:answer", level_column="level")


def test_malformed_rows_are_gathered_up_to_a_number_and_end_with_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = [cells for cells, _ in BAD_ROWS]
    path = write(tmp_path / "bad.jsonl", [*questions(3, level=1), *bad])
    config = tmp_path / "run.toml"
    config.write_text(f'[[domains]]\nuse = "rows:{path}"\nreward = "exact:answer"\nlevel_column = "level"\n')
    assert guarded(lambda: app(["train", str(config), "--dry-run"])) == 2
    said = capsys.readouterr().err
    assert f"{len(bad)} malformed rows (18 in all)" in said
    assert all(f"bad.jsonl, row {n}, field" in said for n in range(4, 4 + len(bad)))
    many = write(tmp_path / "many.jsonl", [*questions(3), *({"prompt": ""} for _ in range(90))])
    with pytest.raises(InputError, match=r"20 malformed rows of the first 23; reading stopped there \(93 "):
        rows(many, reward="exact:answer")


def test_a_column_that_no_row_has_is_a_misspelling(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", questions(50))
    with pytest.raises(InputError, match=r"have no column 'promt'. Did you mean 'prompt'"):
        rows(path, reward="exact:answer", prompt="promt")
    with pytest.raises(InputError, match=r"have no column 'anser'. Did you mean 'answer'"):
        rows(path, reward="exact:anser")


# --- splits ---------------------------------------------------------------------------------------


def test_the_split_follows_the_hash_and_holds_out_about_its_share(tmp_path: Path) -> None:
    domain = rows(write(tmp_path / "a.jsonl", questions(2_000)), reward="exact:answer", eval_share=0.2)
    train, held_out = ids(domain, "train"), ids(domain, "eval")
    assert len(train) + len(held_out) == 2_000
    # Five standard deviations of a binomial count: 5 · sqrt(2000 · 0.2 · 0.8) = 89.
    assert abs(len(held_out) - 400) < 89
    numbers = {name.split("/")[2] for name in (*train, *held_out)}
    assert numbers == {str(n) for n in range(1, 2_001)}


def test_appended_rows_move_no_other_row(tmp_path: Path) -> None:
    few = rows(write(tmp_path / "few.jsonl", questions(300)), reward="exact:answer", name="d")
    more = rows(write(tmp_path / "more.jsonl", questions(500)), reward="exact:answer", name="d")
    assert set(ids(few, "eval")) < set(ids(more, "eval"))
    assert set(ids(few, "train")) < set(ids(more, "train"))


def test_repeated_prompts_stay_on_one_side_and_another_seed_splits_otherwise(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", questions(200) * 3)
    domain = rows(path, reward="exact:answer", eval_share=0.3)
    sides = [
        {domain.task(split, 0, n).prompt for n in range(domain.size(split, 0) or 0)}
        for split in ("train", "eval")
    ]
    assert not sides[0] & sides[1]
    assert len(sides[0] | sides[1]) == 200
    other = rows(path, reward="exact:answer", eval_share=0.3, split_seed=1)
    assert set(ids(other, "eval")) != set(ids(domain, "eval"))


def test_a_file_of_held_out_rows_is_used_as_it_is(tmp_path: Path) -> None:
    cells = questions(30)
    train, held_out = write(tmp_path / "a.jsonl", cells[:20]), write(tmp_path / "b.jsonl", cells[20:])
    domain = rows(train, reward="exact:answer", eval=held_out)
    assert (domain.size("train", 0), domain.size("eval", 0)) == (20, 10)
    assert check_domain(domain) == []


def test_held_out_rows_that_are_training_rows_are_refused_by_name(tmp_path: Path) -> None:
    cells = questions(30)
    train, held_out = write(tmp_path / "a.jsonl", cells[:20]), write(tmp_path / "b.jsonl", cells[18:])
    with pytest.raises(InputError) as found:
        rows(train, reward="exact:answer", eval=held_out)
    assert "2 held-out rows are training rows too" in str(found.value)
    assert f"{held_out}, row 1 asks the same as {train}, row 19" in str(found.value)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1])
def test_a_share_that_leaves_a_side_empty_is_refused(tmp_path: Path, share: float) -> None:
    path = write(tmp_path / "a.jsonl", questions(30))
    with pytest.raises(ConfigError, match=f"{share} is not between 0 and 1"):
        rows(path, reward="exact:answer", eval_share=share)
    with pytest.raises(ConfigError, match=r"1e-09 leaves no row for evaluation \(30 rows\)"):
        rows(path, reward="exact:answer", eval_share=1e-9)


# --- order ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 5, 16, 17, 100, 1_000])
def test_an_order_is_a_permutation_and_keys_choose_it(size: int) -> None:
    orders = [[shuffled(place, size, key) for place in range(size)] for key in ("a", "b")]
    assert all(sorted(order) == list(range(size)) for order in orders)
    assert size < 16 or orders[0] != orders[1]


def test_every_row_comes_first_equally_often_over_keys() -> None:
    first = Counter(shuffled(0, 6, f"key {n}") for n in range(6_000))
    # Five standard deviations of a binomial count: 5 · sqrt(6000 · 1/6 · 5/6) = 144.
    assert all(abs(first[row] - 1_000) < 144 for row in range(6))


def test_digests_are_those_of_keyed_blake2() -> None:
    import hashlib

    key = hashlib.sha256(b"k").digest()
    assert digest("text", "k") == int(hashlib.blake2b(b"text", key=key, digest_size=8).hexdigest(), 16)
    assert 0 <= fraction("text", "k") < 1


def test_each_epoch_has_every_row_once_in_an_order_of_its_own(tmp_path: Path) -> None:
    domain = rows(write(tmp_path / "a.jsonl", questions(60)), reward="exact:answer")
    size = domain.size("train", 0) or 0
    epochs = [[domain.task("train", 0, epoch * size + n).id for n in range(size)] for epoch in range(3)]
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert len({tuple(sorted(epoch)) for epoch in epochs}) == 1


def test_without_shuffling_rows_come_as_in_the_file(tmp_path: Path) -> None:
    domain = rows(write(tmp_path / "a.jsonl", questions(40)), reward="exact:answer", shuffle=False)
    numbers = [int(name.rsplit("/", 1)[1]) for name in ids(domain, "train")]
    assert numbers == sorted(numbers)
    assert domain.task("train", 0, len(numbers)) == domain.task("train", 0, 0)


# --- levels, gold answers -------------------------------------------------------------------------


def test_levels_are_those_of_a_column_from_easy_to_hard(tmp_path: Path) -> None:
    cells = [{**row, "difficulty": 10 - n % 3} for n, row in enumerate(questions(300))]
    domain = rows(write(tmp_path / "a.jsonl", cells), reward="exact:answer", level_column="difficulty")
    assert domain.levels == 3
    for level, difficulty in enumerate((8, 9, 10)):
        task = domain.task("train", level, 5)
        assert (task.level, task.reference["columns"]["difficulty"]) == (level, difficulty)
    assert sum(domain.size(split, level) or 0 for split in ("train", "eval") for level in range(3)) == 300


def test_levels_in_words_are_listed_by_the_user(tmp_path: Path) -> None:
    cells = [{**row, "kind": ("hard", "easy")[n % 2]} for n, row in enumerate(questions(100))]
    path = write(tmp_path / "a.jsonl", cells)
    with pytest.raises(ConfigError, match=r"the levels are words: 'hard', 'easy'. List them"):
        rows(path, reward="exact:answer", level_column="kind")
    with pytest.raises(ConfigError, match="some rows are at level 'hard', which is not listed"):
        rows(path, reward="exact:answer", level_column="kind", levels=("easy",))
    with pytest.raises(ConfigError, match="is given, but no column of levels"):
        rows(path, reward="exact:answer", levels=("easy", "hard"))
    domain = rows(path, reward="exact:answer", level_column="kind", levels=("easy", "hard"))
    assert domain.task("eval", 1, 0).reference["columns"]["kind"] == "hard"


def test_a_column_of_too_many_levels_is_refused(tmp_path: Path) -> None:
    cells = [{**row, "n": n} for n, row in enumerate(questions(100))]
    with pytest.raises(InputError, match="'n' holds more than 64 levels"):
        rows(write(tmp_path / "a.jsonl", cells), reward="exact:answer", level_column="n")


@pytest.mark.parametrize(
    ("gold", "answer"),
    [("seven", "seven"), (7, "7"), ([{"role": "assistant", "content": "seven"}], "seven")],
)
def test_a_demonstration_is_text_a_number_or_a_message(tmp_path: Path, gold: Any, answer: str) -> None:
    path = write(tmp_path / "a.jsonl", [{**row, "completion": gold} for row in questions(30)])
    domain = rows(path, reward="exact:answer", demonstration="completion")
    task = domain.task("train", 0, 0)
    assert task.reference["answer"] == answer
    assert "completion" not in task.reference["columns"]


def test_without_a_gold_column_there_is_nothing_to_imitate(tmp_path: Path) -> None:
    def judge(completions: list[str], **_: Any) -> list[float]:
        return [1.0] * len(completions)

    domain = rows(write(tmp_path / "a.jsonl", questions(30)), reward=judge)
    assert "answer" not in domain.task("train", 0, 0).reference


def test_cells_that_only_other_rows_have_are_empty(tmp_path: Path) -> None:
    cells = [{**row, **({"hint": "h"} if n % 2 else {})} for n, row in enumerate(questions(40))]
    domain = rows(write(tmp_path / "a.jsonl", cells), reward="exact:answer")
    hints = {domain.task("train", 0, n).reference["columns"]["hint"] for n in range(30)}
    assert hints == {"h", None}


async def test_a_configuration_names_the_domain_and_finds_files_beside_itself(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", questions(60))
    (tmp_path / "rewards_beside.py").write_text("def odd(completions, **row):\n    return [0.5]\n")
    config = tmp_path / "run.toml"
    config.write_text(
        '[[domains]]\nname = "sums"\nuse = "rows:a.jsonl"\nreward = ["exact:answer", '
        '{ use = "rewards_beside:odd", weight = 0.1 }]\n'
    )
    (entry,) = assembly.domains(assembly.read(config), str(config))
    task = entry.domain.task("train", 0, 0)
    assert (entry.domain.name, task.domain) == ("sums", "sums")
    right = attempt(task, f"The answer is {task.reference['columns']['answer']}.")
    reward = await entry.domain.verify(right, ScriptedSandbox(), {})
    assert (reward.value, dict(reward.parts)) == (1.05, {"exact": 1.0, "odd": 0.5})


def test_a_run_goes_on_from_another_folder_with_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "else").mkdir()
    write(tmp_path / "conf" / "a.jsonl", questions(40))
    (tmp_path / "conf" / "lengths.py").write_text(
        "def length(completions, **columns):\n    return [len(completions[0].encode()) / 9]\n"
    )
    config = tmp_path / "conf" / "run.toml"
    config.write_text(
        '[model]\nsource = "tiny"\nlora = { rank = 2, alpha = 4.0 }\n[sampling]\nmax_tokens = 2\n'
        "[run]\nsteps = 2\ngroups = 2\nattempts = 4\ncheckpoint_every = 1\n"
        '[[domains]]\nuse = "rows:a.jsonl"\nreward = "lengths:length"\n'
    )

    def posttrain(*arguments: str) -> None:
        assert guarded(lambda: app(["train", *arguments])) == 0

    monkeypatch.setattr(sys, "path", list(sys.path))
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    posttrain(str(config), "--run", str(whole))
    posttrain(str(config), "--run", str(halves), "run.steps=1")
    monkeypatch.chdir(tmp_path / "else")
    posttrain("--resume", str(halves), "run.steps=2")
    for step in ("step-000001.jsonl", "step-000002.jsonl"):
        assert (halves / "groups" / step).read_bytes() == (whole / "groups" / step).read_bytes()


def test_the_shipped_example_keeps_the_contract() -> None:
    path = str(ROOT / "examples" / "rows" / "sums.jsonl")
    domain = rows(path, reward="numeric:answer", level_column="difficulty", levels=("plain", "carry"))
    assert check_domain(domain) == []
