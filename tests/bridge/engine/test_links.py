"""Sealed links: sealing, opening, key rotation."""

import secrets
from dataclasses import replace

import pytest

from bridge.engine.links import (
    Binding,
    KeyRing,
    Purpose,
    SealBroken,
    Sealed,
    UnknownSealKey,
    handle_hash,
    is_handle,
    new_handle,
)

OLD, NEW = ("2025", b"o" * 32), ("2026", b"n" * 32)
HANDLE = new_handle(secrets.token_bytes)
BINDING = Binding(handle_hash(HANDLE), "SITE1", Purpose.LAUNCH)
PAYLOAD = b'{"PatientName":"Invented^Person"}'


def ring(*keys: tuple[str, bytes]) -> KeyRing:
    """Make a ring of these keys, newest first."""
    return KeyRing(keys, secrets.token_bytes)


def test_a_handle_has_128_bits_in_22_characters() -> None:
    """A handle is short enough for the small QR code."""
    assert len(HANDLE) == 22
    assert is_handle(HANDLE)
    assert not is_handle(HANDLE + "=")
    assert not is_handle("")


def test_a_sealed_payload_opens() -> None:
    """The payload is returned byte for byte."""
    keys = ring(NEW)
    assert keys.open(keys.seal(PAYLOAD, BINDING), BINDING) == PAYLOAD


def test_nothing_of_the_payload_is_readable() -> None:
    """The stored bytes do not contain the payload or parts of it."""
    sealed = ring(NEW).seal(PAYLOAD, BINDING)
    assert b"Invented" not in sealed.data


def test_two_seals_of_one_payload_differ() -> None:
    """Every seal has its own nonce."""
    keys = ring(NEW)
    assert keys.seal(PAYLOAD, BINDING).data != keys.seal(PAYLOAD, BINDING).data


def test_an_older_key_still_opens_and_the_newest_seals() -> None:
    sealed = ring(OLD).seal(PAYLOAD, BINDING)
    rotated = ring(NEW, OLD)
    assert rotated.open(sealed, BINDING) == PAYLOAD
    assert rotated.seal(PAYLOAD, BINDING).key_id == "2026"


def test_resealing_moves_a_payload_to_the_newest_key() -> None:
    """After resealing, the old key can be removed from the ring."""
    resealed = ring(NEW, OLD).reseal(ring(OLD).seal(PAYLOAD, BINDING), BINDING)
    assert resealed is not None
    assert ring(NEW).open(resealed, BINDING) == PAYLOAD
    assert ring(NEW).reseal(resealed, BINDING) is None


def test_a_removed_key_opens_nothing() -> None:
    """The error names the key, never the payload."""
    with pytest.raises(UnknownSealKey, match="2025"):
        ring(NEW).open(ring(OLD).seal(PAYLOAD, BINDING), BINDING)


@pytest.mark.parametrize(
    "other",
    [
        replace(BINDING, handle_hash=handle_hash("another")),
        replace(BINDING, site_id="SITE2"),
        replace(BINDING, purpose=Purpose.INIT),
    ],
    ids=["handle", "site", "purpose"],
)
def test_a_row_moved_to_another_place_does_not_open(other: Binding) -> None:
    """Handle, site and purpose are authenticated."""
    keys = ring(NEW)
    with pytest.raises(SealBroken):
        keys.open(keys.seal(PAYLOAD, BINDING), other)


def test_an_altered_byte_is_detected() -> None:
    """The ciphertext is authenticated."""
    keys = ring(NEW)
    sealed = keys.seal(PAYLOAD, BINDING)
    altered = Sealed(sealed.key_id, sealed.data[:-1] + bytes([sealed.data[-1] ^ 1]))
    with pytest.raises(SealBroken):
        keys.open(altered, BINDING)


def test_an_empty_ring_is_refused() -> None:
    """There is no unsealed mode."""
    with pytest.raises(ValueError, match="empty"):
        ring()
