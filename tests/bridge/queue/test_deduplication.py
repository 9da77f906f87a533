"""Decisions on retransmits, reused control ids and corrected refusals."""

from bridge.queue.digests import stored_digest
from bridge.queue.ledger.arrivals import Arrival
from bridge.queue.ledger.deduplication import (
    AdmissionDecision,
    StoredMessage,
    decide,
)
from tests.bridge.queue.samples import arrival, refused


def _stored(original: Arrival, message_id: int, edition: int = 0) -> StoredMessage:
    digest = stored_digest(original.digest)
    return StoredMessage(original.identity, digest, edition, message_id, original.ack_code)


def test_unknown_arrivals_are_new() -> None:
    """Nothing stored, nothing alike: all new."""
    assert decide([arrival("A"), arrival("B")], []) == [AdmissionDecision(0), AdmissionDecision(0)]


def test_a_copy_of_what_is_stored() -> None:
    """Same identity and content is a retransmit of the stored message."""
    assert decide([arrival("A")], [_stored(arrival("A"), 7)]) == [AdmissionDecision(0, stored=7)]


def test_a_copy_within_the_batch() -> None:
    """Two copies that arrive together are one message."""
    assert decide([arrival("A"), arrival("A")], []) == [
        AdmissionDecision(0),
        AdmissionDecision(0, batch_position=0),
    ]


def test_a_control_id_used_again() -> None:
    """Same control id and other content is another message, whichever way it is noticed."""
    other = arrival("A", content="other")
    assert decide([other], [_stored(arrival("A"), 7)]) == [AdmissionDecision(0, reused=True)]
    assert decide([arrival("A"), other], []) == [
        AdmissionDecision(0),
        AdmissionDecision(0, reused=True),
    ]


def test_the_original_of_a_reused_id_is_still_known() -> None:
    """After the id was used again, a retransmit of either is a retransmit."""
    first, other = arrival("A"), arrival("A", content="other")
    known = [_stored(first, 7), _stored(other, 8)]
    assert decide([first, other], known) == [
        AdmissionDecision(0, stored=7),
        AdmissionDecision(0, stored=8),
    ]


def test_a_refusal_is_repeated() -> None:
    """What was refused and still would be is answered as before."""
    assert decide([refused("A")], [_stored(refused("A"), 7)]) == [AdmissionDecision(0, stored=7)]


def test_a_refusal_that_was_put_right() -> None:
    """What was refused and would now be accepted is a new message, once."""
    known = [_stored(refused("A"), 7)]
    assert decide([arrival("A"), arrival("A")], known) == [
        AdmissionDecision(1),
        AdmissionDecision(1, batch_position=0),
    ]
    known.append(_stored(arrival("A"), 9, edition=1))
    assert decide([arrival("A")], known) == [AdmissionDecision(1, stored=9)]


def test_what_was_accepted_is_never_refused_later() -> None:
    """A retransmit of an accepted message is accepted, even if today it would be refused."""
    assert decide([refused("A")], [_stored(arrival("A"), 7)]) == [AdmissionDecision(0, stored=7)]


def test_a_refused_reuse_stays_refused() -> None:
    """Where used control ids are refused, the retransmit of a refused one gets its refusal."""
    other = arrival("A", content="other", refuse_reuse=b"NAK")
    known = [_stored(arrival("A"), 7)]
    assert decide([other, other], known) == [
        AdmissionDecision(0, reused=True),
        AdmissionDecision(0, batch_position=0),
    ]
    nak = StoredMessage(other.identity, stored_digest(other.digest), 0, 8, "AE")
    assert decide([other], [*known, nak]) == [AdmissionDecision(0, stored=8)]
