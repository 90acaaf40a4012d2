"""Lines that are always valid JSON, torn ends included in the plan, and names that the docs know."""

import json
import math
import re
from pathlib import Path

import pytest

from posttrain.records import metrics
from posttrain.records.metrics import JsonLines, read_rows

PAGE = Path(__file__).parents[2] / "docs/reference/run-folder.md"


def documented(section):
    """Return the names in the first column of the table under a heading of the page."""
    text = PAGE.read_text().split(f"### {section}\n", 1)[1].split("\n### ", 1)[0]
    return re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)


def test_the_page_names_exactly_the_metrics_of_a_step():
    names = [name for name in documented("metrics.jsonl") if not name.startswith(metrics.COMPONENT)]
    assert sorted(names) == sorted(metrics.STEP_METRICS)


def test_the_page_names_exactly_the_metrics_of_a_domain():
    names = [
        name for name in documented("domains.jsonl") if not name.startswith((metrics.FLAG, metrics.PART))
    ]
    assert sorted(names) == sorted(metrics.DOMAIN_METRICS)


def test_an_undocumented_metric_is_our_own_mistake_and_a_component_is_not():
    metrics.check_names({"step": 1, "loss.kl": 0.1}, metrics.STEP_METRICS)
    with pytest.raises(AssertionError, match="rewrad"):
        metrics.check_names({"rewrad": 1}, metrics.STEP_METRICS)


def test_a_diverged_value_is_null_with_a_flag_at_any_depth():
    row = {"step": 1, "loss": math.nan, "by": {"a": [1.5, -math.inf]}, "up": math.inf}
    line = metrics.encode_row(row)
    assert line.endswith(b"}\n")
    assert json.loads(line, parse_constant=pytest.fail) == {
        "step": 1, "loss": None, "by": {"a": [1.5, None]}, "up": None,
        "nonfinite": {"loss": "nan", "by.a.1": "-inf", "up": "inf"},
    }  # fmt: skip


def test_each_row_is_readable_at_once_and_floats_keep_every_bit(tmp_path):
    file = JsonLines(tmp_path / "x.jsonl")
    for value in (0.1 + 0.2, 1e-300):
        file.append({"loss": value})
        assert read_rows(file.path, pytest.fail)[-1] == {"loss": value}
    file.close()
    file.append({"loss": 3})
    file.close()
    assert len(read_rows(file.path, pytest.fail)) == 3


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_torn_last_line_is_reported_and_the_next_row_is_whole(tmp_path, cut):
    file = JsonLines(tmp_path / "x.jsonl")
    file.append({"step": 1})
    file.append({"step": 2})
    file.close()
    blob = file.path.read_bytes()
    file.path.write_bytes(blob[:-cut])
    lines = []
    # Without its line's end the object is whole; with nothing left there is nothing to report.
    assert read_rows(file.path, lines.append) == ([{"step": 1}, {"step": 2}] if cut == 1 else [{"step": 1}])
    if 1 < cut < 11:
        assert lines == [f"{file.path}: torn last line 2 left out ({11 - cut} bytes)"]
    else:
        assert lines == []
    file.append({"step": 3})
    assert read_rows(file.path, lambda _: None)[-1] == {"step": 3}
    assert read_rows(file.path, lambda _: None)[0] == {"step": 1}


def test_an_unreadable_line_in_the_middle_is_reported_as_such(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"step":1}\n\xff\xfe{\n[2]\n{"step":3}\n')
    lines = []
    assert read_rows(path, lines.append) == [{"step": 1}, {"step": 3}]
    assert [line.split(": ")[1] for line in lines] == [
        "unreadable line 2 left out (3 bytes)",
        "unreadable line 3 left out (3 bytes)",
    ]


def test_an_absent_file_has_no_rows(tmp_path):
    assert read_rows(tmp_path / "x.jsonl", pytest.fail) == []
