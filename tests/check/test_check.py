"""`posttrain check PKG:THING`: each kind is told apart, broken ones exit 1, and bad input exits 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from posttrain.check.program import check
from posttrain.check.suites import algorithm_rules
from posttrain.cli import app, guarded

pytestmark = pytest.mark.usefixtures("folder")


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run `posttrain check` with these arguments: exit code, output, errors."""
    code = guarded(lambda: app(["check", *arguments], standalone_mode=True))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


SOUND = [
    (("parts_of_test:sums",), "domain sums", "gold answer succeeds"),
    (("parts_of_test:make", "levels=2"), "domain sums (levels 0, 1)", "wrong answer fails"),
    (("generated:count_bits", "min_n=1", "max_n=50"), "domain count_bits", "task is pure"),
    (("parts_of_test:verify", "answer=7"), "verifier parts_of_test:verify", "verify leaves the loop free"),
    (("grpo",), "algorithm grpo", "losses do not depend on micro batches"),
    (("grpo", "clip_high=0.4"), "algorithm grpo", "equal rewards teach nothing"),
    (("posttrain.algorithms.rloo:RLOO",), "algorithm posttrain.algorithms.rloo:RLOO", "advantages fit"),
    (("parts_of_test:scripted",), "engine parts_of_test:scripted", "an empty wave gives nothing"),
    (("posttrain.engines.torch:TorchEngine",), "engine", "log probabilities follow the loaded weights"),
]


@pytest.mark.parametrize(("arguments", "heading", "rule"), SOUND, ids=lambda value: str(value)[:40])
def test_sound_parts_pass_as_what_they_are(arguments, heading, rule, capsys):
    code, out, _ = said(capsys, *arguments, "--tasks", "3")
    assert code == 0, out
    assert out.startswith(heading)
    assert rule in out
    assert "all hold" in out
    assert "BROKEN" not in out


BROKEN = [
    (("parts_of_test:gift",), "wrong answer fails", "earns 1 (success: 1)"),
    (("parts_of_test:make", "success=2"), "gold answer succeeds", "earns 1 (success: 2)"),
    (("parts_of_test:generous", "--kind", "domain"), None, "expected a posttrain.Domain"),
    (("parts_of_test:late",), "verify is async", "async def"),
    (("parts_of_test:unitwise",), "verify raises nothing", "KeyError: 'unit'"),
    (("parts_of_test:LocalMean",), "losses do not depend on micro batches", "example batch"),
    (("parts_of_test:Stale",), "log probabilities follow the loaded weights", "log-probabilities are"),
]


@pytest.mark.parametrize(("arguments", "rule", "evidence"), BROKEN, ids=lambda value: str(value)[:40])
def test_broken_parts_exit_1_and_name_the_rule_with_its_evidence(arguments, rule, evidence, capsys):
    code, out, err = said(capsys, *arguments, "--tasks", "3")
    if rule is None:
        assert code == 2
        assert evidence in err
        return
    assert code == 1
    (line,) = [line for line in out.splitlines() if line.startswith("  BROKEN") and rule in line]
    assert evidence in line
    assert "broken" in out.splitlines()[-1]


def test_a_sandbox_that_passes_everything_is_found(capsys):
    code, out, _ = said(capsys, "parts_of_test:permissive")
    assert code == 1
    assert out.startswith("sandbox parts_of_test:permissive")
    assert "BROKEN" in out


def test_the_constant_answer_is_shown_and_breaks_nothing():
    (section,) = check("generated:count_bits", ["min_n=1", "max_n=50"], num_tasks=3).sections
    (shown,) = [outcome for outcome in section.outcomes if outcome.rule == "best constant answer"]
    assert shown.status == "shown"
    assert shown.value is not None
    assert 0 < shown.value < 1


def test_the_verifier_s_reference_is_what_is_given(capsys):
    assert said(capsys, "parts_of_test:unitwise", "unit=km")[0] == 0


def test_algorithms_that_do_not_compare_are_not_asked_to():
    (section,) = check("sft").sections
    statuses = {outcome.rule: outcome.status for outcome in section.outcomes}
    assert statuses["equal rewards teach nothing"] == "skipped"
    assert set(statuses.values()) == {"holds", "skipped"}


def test_every_rule_of_the_algorithm_contract_is_run():
    import inspect

    from posttrain.contracts import algorithm

    called = inspect.getsource(algorithm.check)
    assert algorithm_rules()
    assert all(f"{name}(algorithm)" in called for name in algorithm_rules())
    assert called.count("(algorithm)") == len(algorithm_rules())


def test_json_holds_every_rule_with_its_number(capsys):
    code, out, _ = said(capsys, "parts_of_test:gift", "--json", "--tasks", "2")
    report = json.loads(out)
    assert code == 1
    assert report["holds"] is False
    (section,) = report["sections"]
    assert (section["kind"], section["subject"]) == ("domain", "sums")
    rules = {outcome["rule"]: outcome for outcome in section["outcomes"]}
    assert rules["wrong answer fails"]["status"] == "broken"
    assert rules["gold answer succeeds"]["status"] == "holds"
    assert rules["best constant answer"]["value"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("parts_of_test:sum",), "Did you mean 'sums'"),
        (("no_such_module:thing",), "there is no module 'no_such_module'"),
        (("grpoo",), "Did you mean 'grpo'"),
        (("parts_of_test:number",), "is int 3, expected a domain"),
        (("parts_of_test:Half",), "To be an algorithm it lacks needs, loss"),
        (("parts_of_test:sums", "levels=2"), "takes no settings"),
        (("parts_of_test:make", "sucess=2"), "Did you mean 'success'"),
        (("parts_of_test:make", "success=high"), "success: expected a number, got 'high'"),
        (("parts_of_test:make", "success"), "not of the form key.path=value"),
        (
            ("parts_of_test:fails", "path=x"),
            "raised RuntimeError when called with {'path': 'x'}: cannot open x",
        ),
        (("parts_of_test:sums", "--kind", "domian"), "Did you mean 'domain'"),
        (("parts_of_test:sums", "--kind", "engine"), "is Domain"),
        (("none.toml",), "none.toml: cannot be read"),
        (("run.toml", "run.step=3"), "Did you mean 'steps'"),
    ],
)
def test_what_cannot_be_checked_exits_2_with_the_next_step(arguments, hint, capsys):
    code, out, err = said(capsys, *arguments)
    assert code == 2, out
    assert hint in err
    assert "Traceback" not in err


def test_a_config_is_checked_as_a_whole(capsys):
    code, out, _ = said(capsys, "run.toml", "model.lora.rank=2")
    assert code == 0, out
    headings = [line.split()[0] for line in out.splitlines() if line and not line.startswith(" ")]
    assert headings[:3] == ["domain", "algorithm", "learner"]
    for rule in (
        "shared prompts = full rows", "packed rows = rows alone", "accumulated = one batch",
        "sampler = trainer log-probabilities", "after a load, log-probabilities are the new weights'",
        "the export gives the trained logits", "the export differs from the base", "resume = going on",
    ):  # fmt: skip
        assert f"ok       {rule}" in out


def test_full_fine_tuning_is_checked_too():
    report = check("run.toml", ["model.lora=false"])
    assert report.holds, report.text()
    assert "all weights" in report.sections[-1].subject


def test_a_config_whose_domain_or_algorithm_is_broken_exits_1(capsys):
    code, out, _ = said(capsys, "run.toml", "domains.0.use=parts_of_test:gift")
    assert code == 1
    assert "wrong answer fails" in out
    code, out, _ = said(capsys, "run.toml", "algorithm.use=parts_of_test:LocalMean")
    assert code == 1
    broken = [line for line in out.splitlines() if line.startswith("  BROKEN")]
    assert any("losses do not depend on micro batches" in line for line in broken)
    assert any("accumulated = one batch" in line for line in broken)


def test_nothing_is_left_behind(folder: Path):
    before = {path.name for path in folder.iterdir()}
    check("run.toml")
    assert {path.name for path in folder.iterdir()} - {"__pycache__"} == before - {"__pycache__"}
