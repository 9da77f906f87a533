"""The threat model names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "security.md"


def test_each_threat_has_a_protection_and_a_test() -> None:
    """Every row of the table has four cells, and every test file that it names is there."""
    rows = re.findall(r"^\| [STRIDE] \| .*$", PAGE.read_text("utf-8"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(tests/[^`]+)`", row)}

    assert len(rows) > 20
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 5 and "`tests/" in row for row in rows)
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []
