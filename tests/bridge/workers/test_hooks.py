"""Results of hooks: text that can be stored, or an error without patient data."""

import pytest

from bridge.workers.hooks import WorkerHookRunner
from mappings.language.hooks import HookStopped

MESSAGE = "MSH|^~\\&|RIS\rPID|1||M1||DOE^JANE\r"


@pytest.mark.parametrize("result", ["'a\\x00b'", "'\\ud800'", "chr(0xDFFF)"])
def test_a_result_that_no_database_can_store_is_refused(result: str) -> None:
    """The hook fails before its text is stored."""
    source = f"def value(message):\n    return {result}\n"
    with pytest.raises(HookStopped, match="NUL character or an unpaired surrogate"):
        WorkerHookRunner().call("odd", source, "value", MESSAGE)


def test_a_result_in_any_language() -> None:
    """Text of all languages is accepted."""
    source = "def value(message):\n    return f'{message[1][3]} \\u80ba \\U0001f9b4'\n"
    assert WorkerHookRunner().call("plain", source, "value", MESSAGE) == "M1 \u80ba \U0001f9b4"
