"""Keys depend on every part and on where it ends."""

from bridge.queue.hashing import digest, identity, lane, signed64


def test_parts_do_not_run_together() -> None:
    """What ends one part does not begin the next."""
    assert signed64(b"ab", b"c") != signed64(b"a", b"bc")
    assert identity("l", b"a", b"bc", b"1") != identity("l", b"ab", b"c", b"1")


def test_the_values_never_change() -> None:
    """Stored keys are found again by every later release."""
    assert identity("ris", b"RIS", b"NORTH", b"1") == -6008900380756168105
    assert lane("SITE1", "1001") == -7081334439224382597
    assert digest(b"x").hex() == "442a44457137672b3218c1007dc8f76a"


def test_keys_fit_a_signed_integer() -> None:
    """Both databases hold them as they are."""
    assert all(-(2**63) <= signed64(bytes([n])) < 2**63 for n in range(256))
