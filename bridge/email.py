"""
E-mail addresses as identities: one canonical form, and which addresses are accepted.

Addresses that any part of the product could attribute to the same person have the same form.
"""

import re
import unicodedata
from typing import Final

_SHAPE: Final = re.compile(r"[^@\s<>]{1,64}@[^@\s<>]{1,190}")
_INVISIBLE: Final = ("Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp", "Zs", "Mn", "Me", "Mc")
_LOOKALIKE_SCRIPTS: Final = frozenset(
    {"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC"}
)
_FULL_STOPS: Final = str.maketrans("\u3002\uff0e\uff61", "...")  # RFC 3490, 3.1


def canonical_email(text: str) -> str:
    """Return the form by which an account is known: NFKC, case folded, the domain in ASCII."""
    folded = _folded(text.strip())
    local, at, domain = folded.rpartition("@")
    if not at:
        return folded
    domain = domain.translate(_FULL_STOPS)
    try:
        return f"{local}@{domain.encode('idna').decode('ascii').lower()}"
    except UnicodeError:
        return folded


def is_email(text: str) -> bool:
    """
    True if an address is accepted for an account.

    Refused are invisible and control characters, bidirectional marks, characters that only look
    like another (full width, ligatures), and words that mix scripts whose letters look alike.
    """
    address = text.strip()
    if not _SHAPE.fullmatch(address) or not all(map(_is_plain, address + canonical_email(address))):
        return False
    if unicodedata.normalize("NFKC", address) != unicodedata.normalize("NFC", address):
        return False
    local, _, domain = address.rpartition("@")
    labels = domain.split(".")
    if not all(labels) or any(_mixes(word) for word in (local, *labels)):
        return False
    try:
        domain.encode("idna")
    except UnicodeError:
        return False
    return True


def is_same_mailbox(text: str) -> bool:
    """
    True if an address differs from its canonical form in letter case at most.

    Folding maps further letters to others, such as \u00df to ss. Their mailboxes may belong to two
    people, so an identity provider's address must not have such a letter.
    """
    address = text.strip()
    return is_email(address) and unicodedata.normalize("NFC", address).lower() == _folded(address)


def _folded(text: str) -> str:
    once = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", once).casefold()


def _is_plain(character: str) -> bool:
    # A letter with an accent is one character in NFC. A separate combining mark may be invisible.
    category = unicodedata.category(character)
    return category not in _INVISIBLE


def _mixes(word: str) -> bool:
    scripts = {
        unicodedata.name(character, "").partition(" ")[0]
        for character in word
        if character.isalpha()
    }
    return len(scripts & _LOOKALIKE_SCRIPTS) > 1
