"""
Which acknowledgments a message is owed, and how several are stored as one value.

Pure. HL7 v2.5.1 §2.9: original mode has one application acknowledgment; enhanced mode
(MSH-15 or MSH-16 valued) a commit acknowledgment, then the application's, each on condition.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from mappings.hl7.header import Header
from mappings.hl7.tables import AckCode, AckCondition

WANTED: Mapping[AckCondition, frozenset[bool]] = MappingProxyType(
    {
        AckCondition.ALWAYS: frozenset({True, False}),
        AckCondition.NEVER: frozenset(),
        AckCondition.ERROR: frozenset({False}),
        AckCondition.SUCCESS: frozenset({True}),
    }
)
"""Table 0155: for which outcomes (positive?) a condition asks for an acknowledgment."""

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


def condition(field: bytes) -> AckCondition:
    """
    Read MSH-15 or MSH-16 of an enhanced message.

    Empty means never (HL7 v2.5.1 §2.9.3); a value outside the table means always, because
    an acknowledgment too many is the smaller harm.
    """
    code = field.strip().upper()
    if not code:
        return AckCondition.NEVER
    try:
        return AckCondition(code.decode("ascii", "replace"))
    except ValueError:
        return AckCondition.ALWAYS


def owed(header: Header, verdict: AckCode) -> Owed:
    """
    Say what answers a message whose application verdict is AA, AE or AR.

    In enhanced mode a message that we do not take gets CE or CR and, since it never reaches
    the application, no second acknowledgment; only where the sender wants no commit
    acknowledgment of that kind, the application's tells it.
    """
    if not header.enhanced:
        return Owed(None, verdict.application)
    positive = verdict.positive
    commit = positive in WANTED[condition(header.accept_ack)]
    application = positive in WANTED[condition(header.application_ack)]
    if not positive and commit:
        application = False
    return Owed(verdict.commit if commit else None, verdict.application if application else None)


def owed_application(header: Header, verdict: AckCode) -> AckCode | None:
    """Say which application acknowledgment follows a commit acknowledgment that was positive."""
    if not header.enhanced:
        return verdict.application
    wanted = verdict.positive in WANTED[condition(header.application_ack)]
    return verdict.application if wanted else None


def join(payloads: Sequence[bytes]) -> bytes:
    """Make one stored value of the reply payloads."""
    return BETWEEN.join(payloads)


def split(stored: bytes) -> list[bytes]:
    """Give the reply payloads back, byte by byte; none for an empty value."""
    return stored.split(BETWEEN) if stored else []
