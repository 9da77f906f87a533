"""
The words for where a report stands and where it came from.

Only the words: which status follows which is `bridge.engine.rules.lifecycle`.
"""

from enum import StrEnum


class Status(StrEnum):
    """A report's status in the spelling of the API (interface document, States and transitions)."""

    ORDERED = "Ordered"
    DRAFT = "Draft"
    PRELIMINARY = "Preliminary"
    FINAL = "Final"
    ADDENDUM = "Addendum"


SIGNED = frozenset({Status.FINAL, Status.ADDENDUM})


class ReportOrigin(StrEnum):
    """How a report came to be; a report that began as an order can be reset to one."""

    LAUNCH = "launch"
    ORDER = "order"
    UNLINK = "unlink"


class AddendumState(StrEnum):
    """Where an addendum stands; a signed one may still wait for its release."""

    DRAFT = "draft"
    SIGNED = "signed"


class ReleaseKind(StrEnum):
    """What goes downstream."""

    FINAL = "final"
    ADDENDUM = "addendum"
    RETRACTION = "retraction"  # a delivered addendum was recalled with its report


class FileKind(StrEnum):
    """What is attached to a report."""

    STRUCTURED_REPORT = "dicomSR"
    KEY_IMAGE = "keyImage"
    SET_ASIDE = "setAside"  # a DICOM SR of another patient, which the report does not show
