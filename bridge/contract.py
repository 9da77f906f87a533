"""
Words of the report service's interface that both of its sides use.

The engine answers with them and the engine's client reads them; neither imports the other.
"""

from enum import StrEnum

TOKEN_HEADER = "x-access-token"  # noqa: S105  # the header's name, no token


class ReportStatus(StrEnum):
    """What a report can be (interface document, status record and launch response)."""

    PRE_LAUNCH = "PreLaunch"  # launch responses only: nothing to show yet
    ORDERED = "Ordered"
    DRAFT = "Draft"
    PRELIMINARY = "Preliminary"
    FINAL = "Final"
    ADDENDUM = "Addendum"
