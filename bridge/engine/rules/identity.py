"""
Identifiers: which are placeholders, and how unguessable ones are written.

Launches whose patient identifiers are an e-mail address or the launching user's own identity
are rejected (interface document, Authentication 8).
"""

import hashlib
import re
from dataclasses import dataclass, field
from functools import lru_cache

from bridge.index_key import keyed_text

_UNSEEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff]"
)
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s.]+")


@dataclass(frozen=True, slots=True)
class OrderId:
    """What identifies an order: site, patient and accession."""

    site_id: str
    mrn: str = field(repr=False)
    accession: str = field(repr=False)


def has_unseen(text: str) -> bool:
    """
    Tell whether an identifier has characters that nobody sees.

    Control characters, line ends, and marks that change the direction of writing: with them two
    different identifiers look the same.
    """
    return _UNSEEN.search(text) is not None


def looks_like_email(text: str) -> bool:
    """Tell whether a text is an e-mail address."""
    return "@" in text and _EMAIL.fullmatch(text.strip()) is not None


def is_placeholder(identifier: str, *, emails: frozenset[str], names: frozenset[str]) -> bool:
    """
    Tell whether a patient identifier stands in for none.

    `emails` and `names` are those of the launching user and of the user launched for.
    """
    folded = _folded(identifier)
    return bool(folded) and (looks_like_email(folded) or folded in _own(emails, names))


@lru_cache(maxsize=256)
def _own(emails: frozenset[str], names: frozenset[str]) -> frozenset[str]:
    """Return how users' own identities may be written in place of a patient's."""
    locals_ = {each.partition("@")[0].casefold() for each in emails}
    return frozenset({_folded(each) for each in emails | names} | locals_) - {""}


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def link_target(identity: OrderId) -> str:
    """Return the keyed hash by which the links of an order are found without naming it."""
    text = f"{identity.site_id}\x1f{identity.mrn}\x1f{identity.accession}"
    return keyed_text(hashlib.sha256(text.encode()).hexdigest())
