"""The page of error codes is that of the source."""

import re
from pathlib import Path

from bridge.contract.errors import ErrorCode
from bridge.engine.launch import LaunchWarning

PAGE = Path(__file__).resolve().parents[4] / "docs" / "reference" / "error-codes.md"
_CODE = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)


def test_the_page_lists_every_code() -> None:
    """`docs/reference/error-codes.md` has the row of each code, and of each warning."""
    codes, _, warnings = PAGE.read_text("utf-8").partition("## Warnings")
    rows = [
        f"| `{code}` | {code.status} | {code.text} | {'retry ' if code.retryable else ''}|"
        for code in ErrorCode
    ]
    assert re.findall(r"^\| `.*$", codes, re.MULTILINE) == rows
    assert set(_CODE.findall(warnings)) == {warning.value for warning in LaunchWarning}
