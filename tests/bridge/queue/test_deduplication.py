"""The ledger decides about retransmits, reused control ids and corrected refusals."""

from dataclasses import replace
from typing import Any

from bridge.queue.digests import stored_digest
from bridge.queue.ledger.arrivals import PART_NUMBER_SHIFT, Arrival, MessageFlag
from bridge.queue.ledger.deduplication import (
    AdmissionDecision,
    StoredMessage,
    decide,
)
from tests.bridge.queue.samples import arrival, refused


def _stored(original: Arrival, message_id: int, edition: int = 0) -> StoredMessage:
    digest = stored_digest(original.digest)
    return StoredMessage(original.identity, digest, edition, message_id, original.ack_code)


def in_parts(control_id: str, **values: Any) -> list[Arrival]:
    """Return the two parts of a message about several patients."""
    first = arrival(control_id, flags=MessageFlag.PART, **values)
    flags = MessageFlag.PART | 1 << PART_NUMBER_SHIFT
    return [first, replace(first, identity=first.identity + 1, flags=flags, refuse_reuse=None)]


def test_unknown_arrivals_are_new() -> None:
    assert decide([arrival("A"), arrival("B")], []) == [AdmissionDecision(0), AdmissionDecision(0)]


def test_a_copy_of_a_stored_message() -> None:
    """Same identity and content as a stored message is a retransmit."""
    assert decide([arrival("A")], [_stored(arrival("A"), 7)]) == [AdmissionDecision(0, stored=7)]


def test_a_copy_within_the_batch() -> None:
    """Two copies in one batch are one message."""
    assert decide([arrival("A"), arrival("A")], []) == [
        AdmissionDecision(0),
        AdmissionDecision(0, batch_position=0),
    ]


def test_a_reused_control_id() -> None:
    """Same control id with other content is a new message, in the batch and in the database."""
    other = arrival("A", content="other")
    assert decide([other], [_stored(arrival("A"), 7)]) == [AdmissionDecision(0, reused=True)]
    assert decide([arrival("A"), other], []) == [
        AdmissionDecision(0),
        AdmissionDecision(0, reused=True),
    ]


def test_the_original_of_a_reused_id_is_still_known() -> None:
    """A retransmit of either message of a reused id is a retransmit."""
    first, other = arrival("A"), arrival("A", content="other")
    known = [_stored(first, 7), _stored(other, 8)]
    assert decide([first, other], known) == [
        AdmissionDecision(0, stored=7),
        AdmissionDecision(0, stored=8),
    ]


def test_a_refusal_is_repeated() -> None:
    """A refused message that is still refused gets the earlier reply."""
    assert decide([refused("A")], [_stored(refused("A"), 7)]) == [AdmissionDecision(0, stored=7)]


def test_a_corrected_refusal() -> None:
    """A refused message that is now accepted is a new message, once."""
    known = [_stored(refused("A"), 7)]
    assert decide([arrival("A"), arrival("A")], known) == [
        AdmissionDecision(1),
        AdmissionDecision(1, batch_position=0),
    ]
    known.append(_stored(arrival("A"), 9, edition=1))
    assert decide([arrival("A")], known) == [AdmissionDecision(1, stored=9)]


def test_an_accepted_message_stays_accepted() -> None:
    """A retransmit of an accepted message is accepted, also if it is refused today."""
    assert decide([refused("A")], [_stored(arrival("A"), 7)]) == [AdmissionDecision(0, stored=7)]


def test_a_refused_reuse_stays_refused() -> None:
    """If reused control ids are refused, a retransmit of the refused message gets its refusal."""
    other = arrival("A", content="other", refuse_reuse=b"NAK")
    known = [_stored(arrival("A"), 7)]
    assert decide([other, other], known) == [
        AdmissionDecision(0, reused=True),
        AdmissionDecision(0, batch_position=0),
    ]
    nak = StoredMessage(other.identity, stored_digest(other.digest), 0, 8, "AE")
    assert decide([other], [*known, nak]) == [AdmissionDecision(0, stored=8)]


def test_the_parts_of_a_reused_control_id() -> None:
    """All parts of a message are stored, or none if the message is refused."""
    known = [_stored(arrival("A"), 7)]
    assert decide(in_parts("A", content="other"), known) == [AdmissionDecision(0, reused=True)] * 2
    assert decide(in_parts("A", content="other", refuse_reuse=b"NAK"), known) == [
        AdmissionDecision(0, reused=True),
        AdmissionDecision(0, first_part=0),
    ]


def test_the_parts_of_a_copy() -> None:
    """No part of a copy is stored, also if the original was not divided."""
    one, two = in_parts("A")
    assert decide([one, two], [_stored(one, 7), _stored(two, 8)]) == [
        AdmissionDecision(0, stored=7),
        AdmissionDecision(0, stored=8),
    ]
    assert decide([arrival("B"), one, two], [_stored(arrival("A"), 7)]) == [
        AdmissionDecision(0),
        AdmissionDecision(0, stored=7),
        AdmissionDecision(0, first_part=1),
    ]


def test_the_parts_of_a_corrected_refusal() -> None:
    """All parts of a message that was refused and is accepted now are stored."""
    assert decide(in_parts("A"), [_stored(refused("A"), 7)]) == [
        AdmissionDecision(1),
        AdmissionDecision(0),
    ]
