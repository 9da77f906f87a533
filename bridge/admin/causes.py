"""
Causes: why a message or delivery is in its state, in words, with the action that is proposed.

Lists, exports and commands have one text for each code.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bridge.queue.states import QueueState
from mappings.hl7.acknowledgment import ERROR_DESCRIPTIONS


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause in words, and the action that may remove it; '' if there is none."""

    words: str
    action: str = ""


NO_CAUSE: Final = Cause("")
CAUSES: Final[Mapping[str, Cause]] = {}
"""By the code of a message or delivery."""

_DESCRIPTIONS: Final = {code.value: words for code, words in ERROR_DESCRIPTIONS.items()}
_PROPOSED: Final[Mapping[str, str]] = {
    QueueState.PARKED: "replay",
    QueueState.REFUSED: "edit and resend",
}


def cause_of(state: str, code: str, detail: str = "") -> Cause:
    """Return the cause of a row; `detail` is the text that was stored with it."""
    if code in CAUSES:
        return CAUSES[code]
    if not code and not detail:
        return NO_CAUSE
    words = " ".join(filter(None, (_DESCRIPTIONS.get(code, code), detail)))
    return Cause(words, _PROPOSED.get(state, ""))
