"""
Enumerations of reports: status, origin, state of addenda, releases, attached files.

`bridge.engine.rules.lifecycle` has the transitions.
"""

from enum import StrEnum


class Status(StrEnum):
    """The status of a report (interface document, States and transitions)."""

    ORDERED = "Ordered"
    DRAFT = "Draft"
    PRELIMINARY = "Preliminary"
    FINAL = "Final"
    ADDENDUM = "Addendum"


SIGNED = frozenset({Status.FINAL, Status.ADDENDUM})


class ReportOrigin(StrEnum):
    """The origin of a report; a report that began as an order can be reset to one."""

    LAUNCH = "launch"
    ORDER = "order"
    UNLINK = "unlink"


class AddendumState(StrEnum):
    """The state of an addendum; a signed one may still be within its sign delay."""

    DRAFT = "draft"
    SIGNED = "signed"


class ReleaseKind(StrEnum):
    """The kind of a release."""

    FINAL = "final"
    ADDENDUM = "addendum"
    RETRACTION = "retraction"  # a delivered addendum was recalled with its report


class FileKind(StrEnum):
    """The kind of a file attached to a report."""

    STRUCTURED_REPORT = "dicomSR"
    KEY_IMAGE = "keyImage"
    SET_ASIDE = "setAside"  # a DICOM SR of another patient, which the report does not show
