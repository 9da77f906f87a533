"""Answers of hooks: text that can be stored, or a reason without patient data."""

import pytest

from bridge.workers.hooks import WorkerHookRunner
from mappings.language.hooks import HookStopped

MESSAGE = "MSH|^~\\&|RIS\rPID|1||M1||DOE^JANE\r"


@pytest.mark.parametrize("answer", ["'a\\x00b'", "'\\ud800'", "chr(0xDFFF)"])
def test_an_answer_that_no_database_takes_is_refused(answer: str) -> None:
    """The order becomes an exception; storing its text does not fail."""
    source = f"def value(message):\n    return {answer}\n"
    with pytest.raises(HookStopped, match="NUL character or an unpaired surrogate"):
        WorkerHookRunner().call("odd", source, "value", MESSAGE)


def test_an_ordinary_answer() -> None:
    """Text of any language passes."""
    source = "def value(message):\n    return f'{message[1][3]} \\u80ba \\U0001f9b4'\n"
    assert WorkerHookRunner().call("plain", source, "value", MESSAGE) == "M1 \u80ba \U0001f9b4"
