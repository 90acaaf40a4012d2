"""A group read back equals the one written, to the last bit."""

import math
import random
import struct
from dataclasses import replace

import pytest
import torch

from posttrain.errors import InputError, RowError, RunFolderError
from posttrain.records.groups import decode_group, encode_group, groups_path, read_groups, write_groups
from posttrain.types import Group, Message, Reward, Task, ToolCall, Trajectory, Turn, Unjudged

TASK = Task(
    id="sums/0/7",
    domain="sums",
    level=2,
    prompt=(Message("system", "Be brief."), Message("user", "1 + 1 = ?\n\u2028é\ud800")),
    reference={"answer": "2", "tests": [{"in": [1, 1.5], "out": None}], "odd": {"$float": "nan"}},
    tools=({"name": "add", "parameters": {"type": "object"}},),
    setup={"users": {"7": "Ann"}},
)


def make_group(logprobs=(-0.1, -2.5)):
    call = Message("assistant", "", (ToolCall("c1", "add", {"a": 1, "b": [True]}),))
    turns = (
        Turn(TASK.prompt[1], (5, 6, 7)),
        Turn(call, tuple(range(len(logprobs))), tuple(logprobs), version=3),
        Turn(Message("tool", "2", tool_call_id="c1"), (9,)),
        Turn(Message("assistant", "2"), (2, 0), (-1e-7, -0.0), version=4),
    )
    first = Trajectory(TASK, turns, "stop", temperature=0.7)
    second = Trajectory(replace(TASK, id="sums/0/8"), turns[:1], "error")
    reward = Reward(0.3, {"exact": 0.1 + 0.2}, ("copied",), (0.5, 1.0))
    return Group(12, TASK, (first, second), (reward, Unjudged("infra", "box died\n")))


def test_a_complete_group_equals_itself_read_back():
    group = make_group()
    line = encode_group(group)
    assert b"\n" not in line
    assert decode_group(line) == group


def test_float32_logprobs_keep_every_bit():
    draw = torch.Generator().manual_seed(0)
    sampled = torch.cat([-torch.rand(500, generator=draw) * 20, -torch.rand(500, generator=draw) * 1e-30])
    back = decode_group(encode_group(make_group(sampled.tolist()))).trajectories[0].turns[1].logprobs
    assert torch.equal(torch.tensor(back).view(torch.int32), sampled.view(torch.int32))


def test_double_and_infinite_logprobs_keep_every_bit():
    draw = random.Random(1)
    given = (*(-draw.random() * 10.0 ** draw.randrange(-200, 200) for _ in range(500)), -math.inf, -0.0)
    back = decode_group(encode_group(make_group(given))).trajectories[0].turns[1].logprobs
    assert [struct.pack("<d", v) for v in back] == [struct.pack("<d", v) for v in given]


def test_a_reward_that_is_not_a_number_stays_one():
    group = make_group()
    odd = replace(group, verdicts=(Reward(math.nan), group.verdicts[1]))
    assert math.isnan(decode_group(encode_group(odd)).verdicts[0].value)


def test_the_groups_of_a_step_are_written_once_and_read_in_order(tmp_path):
    groups = [make_group(), replace(make_group(), sequence=13)]
    path = write_groups(tmp_path, 1, groups)
    assert path == groups_path(tmp_path, 1) == tmp_path / "groups/step-000001.jsonl"
    assert list(read_groups(path)) == groups
    with pytest.raises(RunFolderError, match="the groups of step 1 are already written"):
        write_groups(tmp_path, 1, [])
    assert list(read_groups(path)) == groups


def test_a_line_that_is_no_group_names_file_and_row(tmp_path):
    path = write_groups(tmp_path, 1, [make_group()])
    good = path.read_bytes()
    for bad in (
        b"{",
        b"[]",
        b"{}",
        good[:200],
        good.replace(b'"stop"', b'"halt"'),
        good.replace(b'"kind"', b'"sort"'),
    ):
        path.write_bytes(good + bad)
        rows = read_groups(path)
        next(rows)
        with pytest.raises(RowError, match=r"step-000001\.jsonl, row 2: not a group"):
            next(rows)


def test_a_task_that_json_cannot_hold_is_refused_by_path_and_leaves_no_file(tmp_path):
    group = make_group()
    task = replace(TASK, reference={"tests": {"a": {1, 2}}})
    with pytest.raises(InputError, match=r"task\.reference\.tests\.a is a set"):
        write_groups(tmp_path, 1, [group, replace(group, task=task)])
    assert not groups_path(tmp_path, 1).exists()
