"""A resumed run is the same run, or says in which keys it is not."""

import pytest

from posttrain.errors import RunFolderError
from posttrain.records.identity import Change, check_resume, compare

CONFIG = {
    "seed": 1,
    "model": {"source": "tiny", "lora": {"rank": 8}},
    "algorithm": {"use": "grpo", "clip_high": 0.28},
    "domains": [{"use": "generated", "level": 0}, {"use": "mine:Sql"}],
    "batch": {"groups": 8},
    "optimizer": {"betas": [0.9, 0.99]},
    "seeds": 3,
}


def changed(**top):
    return CONFIG | top


def test_equal_configs_differ_in_nothing_even_where_tuples_became_lists():
    assert check_resume(CONFIG, changed(optimizer={"betas": (0.9, 0.99)})) == []


def test_identity_keys_and_other_keys_are_told_apart_by_dotted_path():
    new = changed(
        model={"source": "tiny", "lora": {"rank": 16}},
        domains=[{"use": "generated", "level": 2}],
        optimizer={"betas": [0.9, 0.95]},
        seeds=4,
    )
    difference = compare(CONFIG, new)
    assert difference.identity == (
        Change("domains.0.level", "0", "2"),
        Change("domains.1.use", '"mine:Sql"', "absent"),
        Change("model.lora.rank", "8", "16"),
    )
    assert difference.other == (
        Change("optimizer.betas", "[0.9, 0.99]", "[0.9, 0.95]"),
        Change("seeds", "3", "4"),
    )


def test_a_changed_identity_is_refused_with_keys_and_both_values():
    with pytest.raises(RunFolderError, match=r"seed: 1 → 2.*--allow-changed") as refusal:
        check_resume(CONFIG, changed(seed=2, algorithm={"use": "rloo", "clip_high": 0.28}))
    assert 'algorithm.use: "grpo" → "rloo"' in str(refusal.value)
    assert refusal.value.exit_code == 2


def test_an_allowed_change_says_what_exactness_is_left():
    lines = check_resume(CONFIG, changed(seed=2, seeds=4), allow_changed=True)
    assert lines[:2] == ["changed: seeds: 3 → 4", "changed identity: seed: 1 → 2"]
    assert "state-exact only" in lines[2]


def test_other_changes_are_returned_without_complaint():
    assert check_resume(CONFIG, changed(seeds=None)) == ["changed: seeds: 3 → null"]


@pytest.mark.parametrize(("old", "new"), [(True, 1), (0, False), ("1", 1), (None, {}), ([], {})])
def test_values_of_different_types_differ(old, new):
    assert len(compare({"batch": old}, {"batch": new}).identity) == 1


def test_the_identity_keys_can_be_chosen():
    assert compare(CONFIG, changed(seeds=4), identity_keys=("seeds",)).identity == (
        Change("seeds", "3", "4"),
    )
