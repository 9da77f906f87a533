"""
Which acknowledgments a message is owed, and how several are stored as one value.

Pure. HL7 v2.5.1 §2.9: original mode has one application acknowledgment; enhanced mode
(MSH-15 or MSH-16 valued) a commit acknowledgment, then the application's, each on condition.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import NamedTuple

from mappings.hl7.header import Header
from mappings.hl7.tables import AckCode, AckCondition

BETWEEN = b"\x1c\r\x0b"  # no payload can contain the end of its own frame


@dataclass(frozen=True, slots=True)
class Owed:
    """The codes to send: a commit acknowledgment, an application acknowledgment, or neither."""

    commit: AckCode | None
    application: AckCode | None

    @property
    def codes(self) -> tuple[AckCode, ...]:
        """Those that are sent, in their order."""
        return tuple(each for each in (self.commit, self.application) if each is not None)


def _condition(field: bytes) -> str:
    """
    Read MSH-15 or MSH-16: a value of table 0155, or empty.

    A value outside the table means always, because an acknowledgment too many is the smaller harm.
    """
    code = field.strip().upper().decode("ascii", "replace")
    return code if code in CONDITIONS else AckCondition.ALWAYS.value


CONDITIONS = ("", *(each.value for each in AckCondition))


class _Row(NamedTuple):
    """What one line of the matrix says; `later` answers when the report service has spoken."""

    at_once: Owed
    later: AckCode | None


_Key = tuple[str, str, str]


def _matrix() -> Mapping[_Key, _Row]:
    text = files("bridge.intake").joinpath("acknowledgments.csv").read_text("ascii")
    return MappingProxyType(
        {
            (row["accept_ack"], row["application_ack"], row["outcome"]): _Row(
                Owed(_code(row["commit"]), _code(row["application"])), _code(row["later"])
            )
            for row in csv.DictReader(text.splitlines())
        }
    )


def _code(text: str) -> AckCode | None:
    return AckCode(text) if text else None


MATRIX = _matrix()
"""
`acknowledgments.csv`: by MSH-15, MSH-16 and the outcome AA, AE or AR.

In enhanced mode a message that we do not take gets CE or CR and, since it never reaches the
application, no second acknowledgment; only where the sender wants no commit acknowledgment of
that kind, the application's tells it. An empty field beside a valued one means never
(HL7 v2.5.1 §2.9.3).
"""


def _row(header: Header, verdict: AckCode) -> _Row:
    accept, application = _condition(header.accept_ack), _condition(header.application_ack)
    return MATRIX[accept, application, verdict.application.value]


def owed(header: Header, verdict: AckCode) -> Owed:
    """Say what answers a message whose application verdict is AA, AE or AR."""
    return _row(header, verdict).at_once


def owed_application(header: Header, verdict: AckCode) -> AckCode | None:
    """Say which application acknowledgment follows a commit acknowledgment that was positive."""
    return _row(header, verdict).later


def join(payloads: Sequence[bytes]) -> bytes:
    """Make one stored value of the reply payloads."""
    return BETWEEN.join(payloads)


def split(stored: bytes) -> list[bytes]:
    """Give the reply payloads back, byte by byte; none for an empty value."""
    return stored.split(BETWEEN) if stored else []
