import json
from dataclasses import replace

import pytest

from posttrain.bench import loop
from posttrain.bench.child import Program
from posttrain.bench.loop import Place, Workload, run
from posttrain.bench.overlay import ABSENT, Overlay
from posttrain.bench.sides import DEFAULTS
from posttrain.errors import RunFailed
from posttrain.models.source import resolve

FAKE = """
def main(lines, settings):
    rows = len(settings["prompts"]) * settings["attempts"]
    lines.answer({
        "version": "0", "torch": "2", "num_trainable": 10, "rows": rows, "threads": settings["threads"],
        "micro_batch": settings["micro_batch"] or 8, "checkpointing": settings["checkpointing"] is None,
    })
    kind = settings["micro_batch"] or "default"
    seconds = {
        "ours": [9.0] + 3 * [1.0, 2.0], "default": [99.0, 8.0, 8.0], 4: [9.0, 6.0, 6.0], 2: [9.0, 3.0, 3.0],
    }
    for number in range(len(seconds[kind])):
        lines.wait()
        lines.answer({
            "seconds": seconds[kind][number], "sampling_seconds": 0.5, "cpu_seconds": 1.0, "prompts": "same",
            "num_tokens": 64 * rows,
        })
    lines.wait()
"""
OURS = FAKE.replace('settings["micro_batch"] or "default"', '"ours"')
WORKLOAD = Workload(prompts=2, attempts=4, micro_batches=(4, 2), warmups=1, repetitions=2)
PLACE = Place("a folder", "float32", threads=1)


@pytest.fixture
def fakes(script, monkeypatch, tmp_path):
    """Put scripts in the places of both sides; returns a function that replaces the peer's text."""

    def peer(text: str) -> Overlay:
        path = script(text, "peer.py")
        monkeypatch.setattr(loop, "peer_script", lambda name: path)
        return Overlay(tmp_path, "1.16.0")

    ours = script(OURS, "ours.py")
    monkeypatch.setattr(loop, "_ours", lambda settings, _: _program(ours, settings))
    monkeypatch.setattr(loop, "agree", lambda *args, **keywords: [])
    return peer


def _program(path, settings):
    return Program("ours", path, {"prompts": list(settings.prompts), "attempts": settings.attempts,
                                  "threads": 1, "micro_batch": None, "checkpointing": None}, 1)  # fmt: skip


def test_ratios_are_medians_over_turns_without_the_warm_up(fakes):
    measured = run(PLACE, WORKLOAD, fakes(FAKE))
    result = measured.result()
    assert (result.ours, result.peer, result.unit) == (1.5, 8.0, "s/step")
    assert result.ratio == (8.0 / 1.0 + 8.0 / 2.0) / 2
    assert result.peers == {
        DEFAULTS: 8.0, "TRL, no checkpointing, 4 rows": 6.0, "TRL, no checkpointing, 2 rows": 3.0,
    }  # fmt: skip
    assert result.settings["fastest_peer"] == "TRL, no checkpointing, 2 rows"
    assert result.settings["ratio_to_fastest"] == (3.0 + 1.5) / 2
    assert result.settings["training_seconds"] == 1.0
    assert "6.00x" in measured.text()
    assert json.loads(result.json())["ratio"] == result.ratio


def test_without_trl_ours_is_measured_alone_and_the_peer_is_named_as_absent(fakes):
    measured = run(PLACE, WORKLOAD, None)
    assert (measured.result().ours, measured.result().ratio) == (1.5, None)
    assert measured.result().peers == {DEFAULTS: ABSENT}
    assert "--no-deps 'trl==1.16.*'" in measured.text()


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"num_trainable": 10', '"num_trainable": 11', "num_trainable = 11, ours 10"),
        ('"rows": rows', '"rows": rows - 1', "rows = 7, ours 8"),
        ('"prompts": "same"', '"prompts": "other"', "did not do the same work"),
        ("64 * rows", "63 * rows", "sampled 504 tokens"),
    ],
)
def test_sides_that_do_unequal_work_are_not_compared(fakes, old, new, complaint):
    with pytest.raises(RunFailed, match=complaint):
        run(PLACE, WORKLOAD, fakes(FAKE.replace(old, new)))


def test_prompts_are_a_third_shorter_and_a_third_longer():
    texts = Workload(prompts=6, terms=9).texts()
    assert [text.count(",") + 1 for text in texts] == [6, 9, 12, 6, 9, 12]
    assert len(set(texts)) == 6


def test_our_side_samples_equal_lengths_and_steps_once():
    place = Place(str(resolve("tiny")), "float32", "cpu", threads=1)
    measured = run(place, replace(loop.QUICK, tokens=5, repetitions=2), None)
    assert [step.num_tokens for step in measured.ours.steps] == [2 * 2 * 5] * 2
    assert all(0 < step.sampling_seconds < step.seconds for step in measured.ours.steps)
    assert measured.ours.facts.rows == 4


@pytest.mark.slow
def test_trl_does_the_same_work(trl):
    place = Place(str(resolve("tiny")), "float32", "cpu", threads=1)
    measured = run(place, loop.QUICK, trl)
    assert [pair.peer.facts.checkpointing for pair in measured.pairs] == [True, False]
    assert [pair.peer.facts.micro_batch for pair in measured.pairs] == [4, 2]
    assert all(pair.peer.facts.version == trl.version for pair in measured.pairs)
