"""
The key of an order, and checks of identifiers.

A launch is refused if a patient identifier is an e-mail address or the identity of the user
(interface document, Authentication 8).
"""

import hashlib
import re
from dataclasses import dataclass, field
from functools import lru_cache

from bridge.index_key import keyed_text

_INVISIBLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff]"
)
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s.]+")


@dataclass(frozen=True, slots=True)
class OrderId:
    """The key of an order: site, MRN and accession."""

    site_id: str
    mrn: str = field(repr=False)
    accession: str = field(repr=False)


def has_invisible(text: str) -> bool:
    """
    Tell whether an identifier has invisible characters.

    These are control characters, line ends and direction marks. Two identifiers that differ only in
    them look the same.
    """
    return _INVISIBLE.search(text) is not None


def looks_like_email(text: str) -> bool:
    """Tell whether a text is an e-mail address."""
    return "@" in text and _EMAIL.fullmatch(text.strip()) is not None


def is_placeholder(identifier: str, *, emails: frozenset[str], names: frozenset[str]) -> bool:
    """
    Tell whether a patient identifier is a placeholder.

    `emails` and `names` belong to the launching user and to the user of the launch.
    """
    folded = _folded(identifier)
    return bool(folded) and (looks_like_email(folded) or folded in _user_identities(emails, names))


@lru_cache(maxsize=256)
def _user_identities(emails: frozenset[str], names: frozenset[str]) -> frozenset[str]:
    """Return the folded identities of users: names, addresses, local parts."""
    locals_ = {each.partition("@")[0].casefold() for each in emails}
    return frozenset({_folded(each) for each in emails | names} | locals_) - {""}


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def link_target(identity: OrderId) -> str:
    """Return a keyed hash of an order, to find its links without storing its identifiers."""
    text = f"{identity.site_id}\x1f{identity.mrn}\x1f{identity.accession}"
    return keyed_text(hashlib.sha256(text.encode()).hexdigest())
