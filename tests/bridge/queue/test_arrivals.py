"""The hashes of an arrival depend on each part and on the boundaries of the parts."""

from bridge import index_key
from bridge.queue.digests import digest
from bridge.queue.ledger.arrivals import lane, sequential64, signed64


def test_boundaries_of_parts() -> None:
    """Moving a character to the next part changes the hash."""
    assert signed64(b"ab", b"c") != signed64(b"a", b"bc")
    assert sequential64(b"l", b"a", b"bc", b"1") != sequential64(b"l", b"ab", b"c", b"1")


def test_the_values_never_change() -> None:
    """Later releases compute the same keys, so that they find stored ones."""
    index_key.install(bytes(range(index_key.KEY_BYTES)))
    assert lane("SITE1", "1001") == 5832673093205313604
    assert digest(b"x").hex() == "442a44457137672b3218c1007dc8f76a"


def test_consecutive_control_ids() -> None:
    """Consecutive control ids are on one page of the index."""
    first, second = (sequential64(b"l", b"a", b"f", f"C{n}".encode()) for n in (100_001, 100_002))
    assert second == first + 1


def test_control_ids_with_equal_digits() -> None:
    """The key depends on the number of digits and on the text before them."""
    ids = (b"C0001", b"C00001", b"C000000001", b"C1000000001", b"D0001", b"0001", b"1", b"C01")
    assert len({sequential64(b"l", b"a", b"f", each) for each in ids}) == len(ids)


def test_a_lane_hides_the_patient_number() -> None:
    assert lane("SITE1|100002") - lane("SITE1|100001") != 1


def test_keys_fit_a_signed_integer() -> None:
    assert all(-(2**63) <= signed64(bytes([n])) < 2**63 for n in range(256))
    ids = (sequential64(b"l", b"a", b"f", f"{n}999999".encode()) for n in range(256))
    assert all(-(2**63) <= each < 2**63 for each in ids)
