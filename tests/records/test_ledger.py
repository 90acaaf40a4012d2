"""Every attempt ever started has one fate, and the sums say so."""

import json

import pytest

from posttrain.errors import RunFailed
from posttrain.records.ledger import Ledger, outcome_of
from posttrain.types import Group, Message, Reward, Task, Trajectory, Turn, Unjudged


def attempt(stop="stop", domain="sums"):
    task = Task("t", domain, 0, (Message("user", "1+1"),), {})
    return Trajectory(task, (Turn(Message("user", "1+1"), (1,)),), stop)


def group(*pairs):
    trajectories = tuple(attempt(stop) for stop, _ in pairs)
    return Group(0, trajectories[0].task, trajectories, tuple(verdict for _, verdict in pairs))


@pytest.mark.parametrize(("stop", "verdict", "outcome"), [
    ("stop", Reward(0.0), "judged"),
    ("stop", Reward(1.0), "judged"),
    ("length", Reward(1.0), "policy_fault"),
    ("context", Reward(0.0), "policy_fault"),
    ("deadline", Reward(0.0), "policy_fault"),
    ("length", Unjudged("infra", ""), "unjudged"),
    ("stop", Unjudged("deadline", ""), "unjudged"),
])  # fmt: skip
def test_a_limit_is_the_policys_fault_and_a_broken_judge_is_not(stop, verdict, outcome):
    assert outcome_of(attempt(stop), verdict) == outcome


def test_counts_by_hand_add_up_in_every_domain():
    ledger = Ledger()
    ledger.start(8, "sums")
    ledger.start(4, "words")
    ledger.settle("judged", "trained", "sums", 5)
    ledger.settle("policy_fault", "trained", "sums", 2)
    ledger.settle("judged", "filtered", "words", 3)
    assert (ledger.started, ledger.pending, ledger.count()) == (12, 2, 10)
    assert ledger.count(disposition="trained") == 7
    assert ledger.count(outcome="judged") == 8
    assert ledger.count("judged", "filtered", "sums") == 0
    assert ledger.count(domain="absent") == 0
    ledger.reconcile()
    ledger.reconcile(pending=2)
    assert ledger.line(3) == {"step": 3, "started": 12, "pending": 2, "domains": {
        "sums": {"started": 8, "pending": 1,
                 "settled": {"judged": {"trained": 5}, "policy_fault": {"trained": 2}}},
        "words": {"started": 4, "pending": 1, "settled": {"judged": {"filtered": 3}}},
    }}  # fmt: skip


def test_a_fate_without_a_start_and_a_lost_attempt_are_noticed():
    ledger = Ledger()
    ledger.start(1, "sums")
    ledger.settle("judged", "trained", "sums", 2)
    with pytest.raises(RunFailed, match="'sums' has 1 attempts started, 2 settled and -1 pending"):
        ledger.reconcile()
    other = Ledger()
    other.start(3, "sums")
    with pytest.raises(RunFailed, match="3 attempts are pending but 2 are in flight"):
        other.reconcile(pending=2)


def test_an_error_in_one_domain_is_not_hidden_by_the_opposite_one_in_another():
    ledger = Ledger()
    ledger.start(2, "sums")
    ledger.settle("judged", "trained", "words", 1)
    assert ledger.started == ledger.pending + ledger.count()
    with pytest.raises(RunFailed, match="'words'"):
        ledger.reconcile()


def test_a_trained_group_leaves_its_unjudged_attempts_out():
    ledger = Ledger()
    ledger.start(3, "sums")
    ledger.settle_group(
        group(("stop", Reward(1.0)), ("length", Reward(0.0)), ("stop", Unjudged("infra", "x"))), "trained"
    )
    assert ledger.count("judged", "trained") == 1
    assert ledger.count("policy_fault", "trained") == 1
    assert ledger.count("unjudged", "dropped") == 1
    assert ledger.pending == 0


def test_the_state_survives_json_and_goes_on_counting():
    ledger = Ledger()
    ledger.start(5, "sums")
    ledger.settle("unjudged", "dropped", "sums")
    again = Ledger()
    again.load_state_dict(json.loads(json.dumps(ledger.state_dict())))
    assert again.state_dict() == ledger.state_dict()
    for one in (ledger, again):
        one.settle("judged", "evaluated", "sums", 4)
        one.reconcile(pending=0)
    assert again.line(1) == ledger.line(1)


def test_an_unknown_outcome_is_our_own_mistake():
    with pytest.raises(AssertionError):
        Ledger().settle("lost", "trained", "sums")
