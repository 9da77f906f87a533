"""Identities of messages are stable; control ids of the bridge are short, plain and unique."""

from bridge.intake.receive import identity
from bridge.queue.digests import digest, stored_digest
from mappings.hl7.header import peek


def test_an_identity_never_changes() -> None:
    """Later releases compute the same identity and digest: they know retransmits and damage."""
    header = peek(b"MSH|^~\\&|RIS|NORTH|||20260101||ORM^O01|1|P|2.3\r")
    assert identity.message_identity("ris", header) == -6008900380756168105
    assert identity.payload_identity("ris", digest(b"MSH|")) == 978237913239183036
    assert stored_digest(digest(b"MSH|")) == -2346342023636188671


def test_ids_are_unique() -> None:
    """Ids are unique in one generator, in two, and after the counter restarts."""
    one, other = identity.ControlIds(), identity.ControlIds()
    ids = [give() for give in (one, other) for _ in range(1000)]
    one._count = iter([identity._MAX_COUNT + 1])  # type: ignore[assignment]  # near its end
    ids += [one() for _ in range(10)]
    assert len(set(ids)) == len(ids)


def test_form_of_ids() -> None:
    """Ids are letters and digits, at most 20 characters, the limit of MSH-10 before 2.7."""
    give = identity.ControlIds()
    assert all(len(each) == 20 and each.isalnum() and each.isascii() for each in (give(), give()))
