"""Log lines of Twisted have the event and no values."""

from typing import Any

import pytest
from structlog.testing import capture_logs
from twisted.logger import LogLevel
from twisted.python.failure import Failure

from bridge.logs import SafeObserver

FAILURE = Failure(ValueError("DOE"))
PYTHON_WARNING = {  # as twisted.logger shows those of the module `warnings`
    "log_format": "{filename}:{lineno}: {category}: {warning}",
    "warning": UserWarning("bad value 'DOE' of UID"),
    "category": "builtins.UserWarning",
    "filename": "/somewhere/DOE/reader.py",
    "lineno": 41,
}


@pytest.mark.parametrize(
    ("event", "logged"),
    [
        ({"log_failure": FAILURE}, "ValueError"),
        ({"log_format": "cannot accept: {reason}", "reason": "DOE"}, "cannot accept: …"),
        ({"log_format": "{count} of {peer}", "count": 7, "peer": FAILURE}, "7 of Failure"),
        (PYTHON_WARNING, "reader.py:41: builtins.UserWarning: bad value '…' of UID"),
        ({"log_format": "{log_text}", "message": ("DOE",)}, "without an exception"),
        ({}, "without an exception"),
    ],
)
def test_no_warning_is_empty_and_none_has_values(event: dict[str, Any], logged: str) -> None:
    """A line has class and place of an exception, or a text with its numbers and classes."""
    with capture_logs() as lines:
        SafeObserver()({"log_level": LogLevel.warn, "log_namespace": "twisted.test", **event})
    (line,) = lines
    assert logged in line["error"]
    assert line["reason"] == "twisted.test"
    assert "DOE" not in str(line)
