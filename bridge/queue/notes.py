"""
What the worker notes with a message: codes, and the calls to the report engine that it made.

No I/O. Notes contain no patient data. They are in the column `notes` of the message.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pydantic_core import to_json


class EngineCall(NamedTuple):
    """
    A call to the report engine.

    `call` is such as `launch` or `patient/merge`; `place` is that of its order in the message, or
    ''. `status` is the HTTP status, 0 without a response; `code` is the error code; `took` is in
    ms.
    """

    call: str
    place: str
    status: int
    code: str
    took: int


@dataclass(frozen=True, slots=True)
class MessageNotes:
    """The codes of what happened to a message, and its calls in their order."""

    codes: Sequence[str] = ()
    calls: Sequence[EngineCall] = ()

    def to_text(self) -> str:
        """Return the text to store."""
        return to_json({"codes": self.codes, "calls": self.calls}).decode()


def read_notes(text: str | None) -> MessageNotes:
    """Return stored notes. Earlier releases stored the codes alone, as a list."""
    stored = json.loads(text) if text else []
    if isinstance(stored, list):
        return MessageNotes(tuple(stored))
    return MessageNotes(
        tuple(stored["codes"]), tuple(EngineCall(*call) for call in stored["calls"])
    )
