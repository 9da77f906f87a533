"""
Roles on a site and their permissions in the reporting app (interface reference, Authentication).

The HTTP layer restricts the administrative endpoints to administrators.
"""

from enum import StrEnum


class SiteRole(StrEnum):
    USER = "user"
    ADMINISTRATOR = "administrator"
    PRELIM = "prelim"  # writes preliminary reads, cannot sign


class ReportAction(StrEnum):
    """An action of a user on an open report."""

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
"""(role, owns the report) to the permitted actions."""


def permits(role: SiteRole, action: ReportAction, *, owner: bool) -> bool:
    return action in PERMITTED[role, owner]
