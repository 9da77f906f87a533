"""
What becomes of a file, by the acknowledgments of its messages.

Pure. A file is done when all that is in it was accepted, failed when any was refused, and is
tried again when the refusal is our own trouble (AE 207): nothing is wrong with the file then.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum

from mappings.hl7.ack import Acknowledgment, read_ack
from mappings.hl7.batch import split
from mappings.hl7.refusals import Malformed
from mappings.hl7.tables import ErrorCode


class Fate(StrEnum):
    """What is done with a file."""

    DONE = "done"
    FAILED = "failed"
    AGAIN = "again"


def fate(replies: Sequence[bytes]) -> Fate:
    """Judge by all replies; a message whose sender asked for none was stored all the same."""
    acks = [ack for reply in replies for ack in _acknowledgments(reply)]
    refused = [ack for ack in acks if ack.code is None or not ack.code.positive]
    if any(ErrorCode.INTERNAL.value in ack.error_codes for ack in refused):
        return Fate.AGAIN
    return Fate.FAILED if refused else Fate.DONE


def _acknowledgments(reply: bytes) -> Iterator[Acknowledgment]:
    try:
        inside = split(reply)
    except Malformed:
        inside = None
    for each in [reply] if inside is None else inside:
        yield read_ack(each)


def settled(
    before: dict[str, tuple[int, int]], now: Sequence[tuple[str, int, int]]
) -> tuple[list[str], dict[str, tuple[int, int]]]:
    """
    Say which files (name, size, time) are whole, in their order, and what to remember of all.

    Whole is what looks as it did at the last look. Nothing overtakes a file that is still
    being written, unless that one is younger.
    """
    seen = {name: (size, at) for name, size, at in now}
    ready: list[str] = []
    for name, size, at in now:
        if before.get(name) != (size, at):
            break
        ready.append(name)
    return ready, seen
