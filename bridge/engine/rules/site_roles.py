"""
What a role on a site permits in the reporting application (interface document, Authentication).

The administrative endpoints are closed to everybody but administrators; that check is HTTP's.
"""

from enum import StrEnum


class SiteRole(StrEnum):
    """What an account may do on one site."""

    USER = "user"
    ADMINISTRATOR = "administrator"
    PRELIM = "prelim"  # writes preliminary reads, and never signs


class ReportAction(StrEnum):
    """What somebody may want to do to an open report."""

    EDIT = "edit"
    SIGN = "sign"
    PRELIM = "prelim"
    DISCARD = "discard"
    ADDEND = "addend"


_OWNER = frozenset(
    {
        ReportAction.EDIT,
        ReportAction.SIGN,
        ReportAction.PRELIM,
        ReportAction.DISCARD,
        ReportAction.ADDEND,
    }
)

PERMITTED: dict[tuple[SiteRole, bool], frozenset[ReportAction]] = {
    (SiteRole.ADMINISTRATOR, True): _OWNER,
    (SiteRole.ADMINISTRATOR, False): frozenset(
        {ReportAction.SIGN, ReportAction.PRELIM, ReportAction.ADDEND}
    ),
    (SiteRole.USER, True): _OWNER,
    (SiteRole.USER, False): frozenset({ReportAction.ADDEND}),
    (SiteRole.PRELIM, True): frozenset(
        {ReportAction.EDIT, ReportAction.PRELIM, ReportAction.DISCARD}
    ),
    (SiteRole.PRELIM, False): frozenset(),
}
"""(role, owns the report) to what is permitted."""


def permits(role: SiteRole, deed: ReportAction, *, owner: bool) -> bool:
    """Tell whether a role may do a deed to a report that it owns, or does not."""
    return deed in PERMITTED[role, owner]
