"""When certificates, and what they are checked by, expire. Reads files; knows no settings."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from cryptography import x509

from bridge.operations.conditions import Life

_END_OF_LIST = b"-----END X509 CRL-----"


def expiries(files: Mapping[str, Path]) -> dict[str, int]:
    """Give, for what each file belongs to, when the first of its chain expires (ms)."""
    return {owner: life.ends for owner, life in chains(files).items()}


def chains(files: Mapping[str, Path]) -> dict[str, Life]:
    """Give, for what each file belongs to, how long the first of its chain to expire is valid."""
    return _each(files, lambda data: min(_certificates(data), key=_end))


def authorities(files: Mapping[str, Path]) -> dict[str, Life]:
    """Give the authority of each file that is valid longest: after it nobody is trusted."""
    return _each(files, lambda data: max(_certificates(data), key=_end))


def revocation_lists(files: Mapping[str, Path]) -> dict[str, Life]:
    """
    Give the list of each file that wants to be renewed first.

    OpenSSL refuses all whom its authority has issued to from then on (RFC 5280 §5.1.2.5).
    """
    return _each(files, lambda data: min(_lists(data), key=_end))


def _each(files: Mapping[str, Path], choose: Callable[[bytes], Life]) -> dict[str, Life]:
    found = {}
    for owner, file in files.items():
        with suppress(OSError, ValueError):  # `bridge check` and the start say what is wrong
            found[owner] = choose(file.read_bytes())
    return found


def _end(life: Life) -> int:
    return life.ends


def _certificates(data: bytes) -> list[Life]:
    return [
        Life(_ms(each.not_valid_before_utc), _ms(each.not_valid_after_utc))
        for each in x509.load_pem_x509_certificates(data)
    ]


def _lists(data: bytes) -> list[Life]:
    parts = data.split(_END_OF_LIST)[:-1]
    lists = [x509.load_pem_x509_crl(part.lstrip() + _END_OF_LIST) for part in parts]
    return [
        Life(_ms(each.last_update_utc), _ms(each.next_update_utc))
        for each in lists
        if each.next_update_utc is not None
    ]


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
