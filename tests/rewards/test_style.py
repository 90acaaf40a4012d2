"""Style is read from text: findings by line, no configuration, no noqa, nothing executed."""

from pathlib import Path

from posttrain.rewards.style import code_lines, style_of

CLEAN = "def double(x):\n    return 2 * x\n"


async def test_clean_code_has_no_finding() -> None:
    found = await style_of(CLEAN)
    assert (found.num_findings, found.num_code_lines, found.clean) == (0, 2, 1.0)


async def test_an_unused_import_is_found_also_under_noqa() -> None:
    plain, hidden = await style_of("import os\n" + CLEAN), await style_of("import os  # noqa\n" + CLEAN)
    assert plain.num_findings == hidden.num_findings == 1
    assert plain.clean == 1 - 1 / 3


async def test_what_is_not_python_has_no_style() -> None:
    for text in ("def f(:", "", "# only a comment\n", "x = 1\n" * 50_000, "\x00", "def f(x):\n  return (x"):
        assert (await style_of(text)).clean == 0.0


async def test_code_is_never_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    await style_of(f"open({str(mark)!r}, 'w').close()\n")
    assert not mark.exists()


async def test_padding_with_comments_and_lines_costs() -> None:
    found = await style_of("# why\n" * 8 + CLEAN)
    assert found.commented == 0.25
    assert found.brevity(1) == 0.5
    assert found.brevity(2) == 1.0
    assert code_lines("x = '''a\nb'''\n\n# c\n") == 2
