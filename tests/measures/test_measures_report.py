"""Tables of scores and comparisons, against hand-worked figures."""

import json
import math

import pytest

from posttrain.measures.report import DomainScores, Scores, compare, markdown_table, summarise, text_table


def scores(label: str, **domains: list[list[int]]) -> Scores:
    by_domain = {
        name: DomainScores({str(i): tuple(map(float, attempts)) for i, attempts in enumerate(tasks)})
        for name, tasks in domains.items()
    }
    return Scores(label, by_domain, constants={"sums": 0.2})


def test_a_summary_has_pass_1_pass_k_and_pass_hat_k_over_judged_attempts() -> None:
    domain = DomainScores(
        {"a": (1.0, 0.0, 0.0, 0.0), "b": (1.0, 1.0), "c": ()}, num_unjudged=6, num_truncated=2
    )
    (row,) = summarise(Scores("base", {"sums": domain}))
    assert row.pass_1.mean == pytest.approx((0.25 + 1.0) / 2)
    assert row.k == 2
    assert row.pass_k == pytest.approx((0.5 + 1.0) / 2)
    assert row.pass_hat_k == pytest.approx((0.0 + 1.0) / 2)
    assert (row.num_unjudged, row.num_truncated, row.pass_1.num_tasks) == (6, 2, 2)


def test_a_domain_without_judged_attempts_is_shown_and_stays_json() -> None:
    (row,) = summarise(Scores("base", {"sums": DomainScores({}, num_unjudged=8)}))
    assert row.cells()["pass@1"] == "–"
    assert json.loads(json.dumps(row.as_json(), allow_nan=False))["pass_1"]["mean"] is None


def test_a_comparison_tells_gains_and_losses_after_holm() -> None:
    base = scores("base", sums=[[0, 0]] * 20, words=[[1, 1]] * 20, same=[[1, 0]] * 20, gone=[[1, 1]])
    other = scores("rl", sums=[[1, 1]] * 20, words=[[0, 0]] * 20, same=[[0, 1]] * 20)
    rows = {row.domain: row for row in compare(base, other)}
    assert list(rows) == ["sums", "words", "same", "mean over domains"]
    assert [rows[name].verdict for name in rows] == ["gain", "loss", "", ""]
    assert rows["sums"].difference.mean == 1.0
    assert rows["sums"].constant == 0.2
    assert rows["mean over domains"].difference.mean == pytest.approx(0.0)


def test_the_mean_over_domains_adds_half_widths_in_squares() -> None:
    base = scores("base", sums=[[0], [0], [0], [1]], words=[[0], [1], [0], [0]])
    other = scores("rl", sums=[[1], [0], [1], [1]], words=[[1], [1], [0], [1]])
    *rows, mean = compare(base, other)
    widths = [row.difference.half_width for row in rows]
    assert mean.difference.half_width == pytest.approx(math.hypot(*widths) / 2)
    assert mean.difference.num_tasks == 8
    assert mean.constant is None


def test_tables_have_a_header_and_one_line_per_row() -> None:
    rows = compare(scores("base", sums=[[0, 0], [1, 0]]), scores("rl", sums=[[1, 0], [1, 1]]))
    lines = markdown_table(rows).splitlines()
    assert lines[0].startswith("| domain | base | other | difference |")
    assert lines[1].startswith("| --- | ---: |")
    assert lines[2].startswith("| sums | 0.25 | 0.75 | +0.50 [")
    assert len(lines) == 4
    plain = text_table(rows).splitlines()
    assert len({len(line) for line in plain}) == 1
    assert plain[1].split()[:3] == ["sums", "0.25", "0.75"]
    assert text_table([]) == markdown_table([]) == ""
    json.dumps([row.as_json() for row in rows], allow_nan=False)
