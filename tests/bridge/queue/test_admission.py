"""What is a retransmit, what a control id used again, and what a refusal put right."""

from bridge.queue.ledger.arrivals import Arrival
from bridge.queue.ledger.deduplication import Ruling, Stored, rule, short
from tests.bridge.queue.people import arrival, refused


def _stored(original: Arrival, message_id: int, edition: int = 0) -> Stored:
    digest = short(original.digest)
    return Stored(original.identity, digest, edition, message_id, original.ack_code)


def test_unknown_arrivals_are_new() -> None:
    """Nothing stored, nothing alike: all new."""
    assert rule([arrival("A"), arrival("B")], []) == [Ruling(0), Ruling(0)]


def test_a_copy_of_what_is_stored() -> None:
    """Same identity and content is a retransmit of the stored message."""
    assert rule([arrival("A")], [_stored(arrival("A"), 7)]) == [Ruling(0, stored=7)]


def test_a_copy_within_the_batch() -> None:
    """Two copies that arrive together are one message."""
    assert rule([arrival("A"), arrival("A")], []) == [Ruling(0), Ruling(0, twin=0)]


def test_a_control_id_used_again() -> None:
    """Same control id and other content is another message, whichever way it is noticed."""
    other = arrival("A", content="other")
    assert rule([other], [_stored(arrival("A"), 7)]) == [Ruling(0, reused=True)]
    assert rule([arrival("A"), other], []) == [Ruling(0), Ruling(0, reused=True)]


def test_the_original_of_a_reused_id_is_still_known() -> None:
    """After the id was used again, a retransmit of either is a retransmit."""
    first, other = arrival("A"), arrival("A", content="other")
    known = [_stored(first, 7), _stored(other, 8)]
    assert rule([first, other], known) == [Ruling(0, stored=7), Ruling(0, stored=8)]


def test_a_refusal_is_repeated() -> None:
    """What was refused and still would be is answered as before."""
    assert rule([refused("A")], [_stored(refused("A"), 7)]) == [Ruling(0, stored=7)]


def test_a_refusal_that_was_put_right() -> None:
    """What was refused and would now be accepted is a new message, once."""
    known = [_stored(refused("A"), 7)]
    assert rule([arrival("A"), arrival("A")], known) == [Ruling(1), Ruling(1, twin=0)]
    known.append(_stored(arrival("A"), 9, edition=1))
    assert rule([arrival("A")], known) == [Ruling(1, stored=9)]


def test_what_was_accepted_is_never_refused_later() -> None:
    """A retransmit of an accepted message is accepted, even if today it would be refused."""
    assert rule([refused("A")], [_stored(arrival("A"), 7)]) == [Ruling(0, stored=7)]


def test_a_refused_reuse_stays_refused() -> None:
    """Where used control ids are refused, the retransmit of a refused one gets its refusal."""
    other = arrival("A", content="other", refuse_reuse=b"NAK")
    known = [_stored(arrival("A"), 7)]
    assert rule([other, other], known) == [Ruling(0, reused=True), Ruling(0, twin=0)]
    nak = Stored(other.identity, short(other.digest), 0, 8, "AE")
    assert rule([other], [*known, nak]) == [Ruling(0, stored=8)]
