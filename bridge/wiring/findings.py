"""
What `bridge check` finds, and where it stands.

An error keeps the service from starting or from doing what is set; a warning is worth a look; a
note says how things are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from bridge.wiring.pointing import Pointer


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing, and where it stands."""

    severity: Severity
    place: str
    message: str


def placed(home: Path, found: Sequence[Finding]) -> list[Finding]:
    """Say where in the file what is wrong with a setting stands."""
    pointer = Pointer(home)
    return [
        Finding(each.severity, pointer.place(each.place, said), said)
        for each in found
        for said in [each.message.removeprefix(f"{each.place}: ")]
    ]
