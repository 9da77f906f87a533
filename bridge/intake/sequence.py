"""
The sequence number protocol (HL7 v2.5.1 §2.10.1): whose turn it is among one sender's messages.

Pure. The number last accepted comes in; what is to be said of MSH-13 goes out. Who keeps the
numbers is `sequencing`'s business.
"""

from typing import NamedTuple

from bridge.intake.listening import SequenceNumbers
from bridge.intake.verdict import Turn, Verdict
from mappings.hl7.header import Header
from mappings.hl7.refusals import (
    DuplicateKey,
    MissingField,
    OutOfSequence,
    Refusal,
    WrongDataType,
)

PLACE = "MSH-13"
RESTART, RESYNCHRONIZE = 0, -1
_MOST_DIGITS = 15  # of an NM, HL7 v2.5.1 §2.15.9.13
_UNKNOWN = b"-1"  # MSA-4 when any number may be the next


class Advance(NamedTuple):
    """
    A verdict under the protocol, and the number that is the last one then.

    `last` None: none is known, so that any number may follow. `only_if_taken`: it counts once
    the message was stored and answered positively.
    """

    verdict: Verdict
    last: int | None
    only_if_taken: bool = True


def advance(verdict: Verdict, payload: bytes, last: int | None, mode: SequenceNumbers) -> Advance:
    """Apply the protocol to what was found of a message that its header does not refuse."""
    header = verdict.header
    if header is None or verdict.definition is None or mode is SequenceNumbers.OFF:
        return Advance(verdict, last)
    raw = header.sequence_number.strip()
    if not raw or raw == b'""':
        missing = mode is SequenceNumbers.REQUIRE
        return Advance(_refused(verdict, MissingField(PLACE)) if missing else verdict, last)
    number = _read(raw)
    if number is None:
        return Advance(_refused(verdict, WrongDataType(PLACE)), last)
    if number in {RESTART, RESYNCHRONIZE}:
        return _about_the_link(verdict, payload, number, last)
    return _in_turn(verdict, number, last)


def _in_turn(verdict: Verdict, number: int, last: int | None) -> Advance:
    if last is None or number == last + 1:
        turn = Turn(b"%d" % number)
        taken = not verdict.refusals
        return Advance(verdict._replace(turn=turn), number if taken else last)
    refusal = DuplicateKey(PLACE) if number <= last else OutOfSequence()
    return Advance(_refused(verdict, refusal, _expected(last), fresh=number > last), last)


def _about_the_link(verdict: Verdict, payload: bytes, number: int, last: int | None) -> Advance:
    """
    Answer a restart with what is expected, a resynchronization with -1.

    Such a message need have nothing but its header. One that has more is a message as well.
    """
    after = last if number == RESTART else None
    said = _expected(after)
    if verdict.header is not None and is_bare(payload, verdict.header):
        turn = Turn(said, is_fresh=True, is_bare=True)
        verdict = Verdict(verdict.header, verdict.definition, turn=turn)
    else:
        verdict = verdict._replace(turn=Turn(said))
    return Advance(verdict, after, only_if_taken=False)


def is_bare(payload: bytes, header: Header) -> bool:
    """Tell whether all fields behind MSH are empty or null."""
    marks = header.delimiters
    nothing = f'{marks.field}{marks.encoding_characters}" \t'.encode()
    lines = payload.replace(b"\n", b"\r").split(b"\r")
    beyond = [line for line in lines if line.strip()][1:]
    return not any(line[3:].strip(nothing) for line in beyond)


def _expected(last: int | None) -> bytes:
    return _UNKNOWN if last is None else b"%d" % (last + 1)


def _refused(
    verdict: Verdict, refusal: Refusal, expected: bytes = b"", *, fresh: bool = False
) -> Verdict:
    turn = Turn(expected, is_fresh=fresh)
    return Verdict(verdict.header, verdict.definition, refusals=(refusal,), turn=turn)


def _read(raw: bytes) -> int | None:
    """Read an NM that is whole; None where it is none, or below -1."""
    digits = raw.removeprefix(b"+").removeprefix(b"-")
    if not digits.isdigit() or len(digits) > _MOST_DIGITS:
        return None
    number = int(raw)
    return number if number >= RESYNCHRONIZE else None
