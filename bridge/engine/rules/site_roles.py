"""
What a role on a site permits in the reporting application (interface document, Authentication).

The administrative endpoints are closed to everybody but administrators; that check is HTTP's.
"""

from enum import StrEnum


class Role(StrEnum):
    """What an account may do on one site."""

    USER = "user"
    ADMINISTRATOR = "administrator"
    PRELIM = "prelim"  # writes preliminary reads, and never signs


class Deed(StrEnum):
    """What somebody may want to do to an open report."""

    EDIT = "edit"
    SIGN = "sign"
    PRELIM = "prelim"
    DISCARD = "discard"
    ADDEND = "addend"


_OWNER = frozenset({Deed.EDIT, Deed.SIGN, Deed.PRELIM, Deed.DISCARD, Deed.ADDEND})

PERMITTED: dict[tuple[Role, bool], frozenset[Deed]] = {
    (Role.ADMINISTRATOR, True): _OWNER,
    (Role.ADMINISTRATOR, False): frozenset({Deed.SIGN, Deed.PRELIM, Deed.ADDEND}),
    (Role.USER, True): _OWNER,
    (Role.USER, False): frozenset({Deed.ADDEND}),
    (Role.PRELIM, True): frozenset({Deed.EDIT, Deed.PRELIM, Deed.DISCARD}),
    (Role.PRELIM, False): frozenset(),
}
"""(role, owns the report) to what is permitted."""


def permits(role: Role, deed: Deed, *, owner: bool) -> bool:
    """Tell whether a role may do a deed to a report that it owns, or does not."""
    return deed in PERMITTED[role, owner]
