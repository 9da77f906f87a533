"""
Every table of the engine under one roof, and the catalogue that the migrations are checked by.

Import rows from here: `from bridge.engine.records.tables import Report, ReportOrder`.
"""

from bridge.engine.records.columns import metadata
from bridge.engine.records.edge import (
    AnonymousRefusals,
    AuditEvent,
    BrowserSession,
    Idempotency,
    IndexKey,
    Link,
)
from bridge.engine.records.feed import Change, Release
from bridge.engine.records.live import SyncTarget, Window
from bridge.engine.records.reports import (
    Addendum,
    Billing,
    JournalKey,
    PatientPointer,
    PrelimRead,
    Report,
    ReportFile,
    ReportOrder,
    Share,
    Signature,
    Tombstone,
)
from bridge.engine.records.sites import (
    AccessToken,
    Account,
    CodeMap,
    Enrolment,
    Macro,
    Membership,
    PrelimGroup,
    SignInBucket,
    Site,
    Template,
)

__all__ = [
    "AccessToken",
    "Account",
    "Addendum",
    "AnonymousRefusals",
    "AuditEvent",
    "Billing",
    "BrowserSession",
    "Change",
    "CodeMap",
    "Enrolment",
    "Idempotency",
    "IndexKey",
    "JournalKey",
    "Link",
    "Macro",
    "Membership",
    "PatientPointer",
    "PrelimGroup",
    "PrelimRead",
    "Release",
    "Report",
    "ReportFile",
    "ReportOrder",
    "Share",
    "SignInBucket",
    "Signature",
    "Site",
    "SyncTarget",
    "Template",
    "Tombstone",
    "Window",
    "metadata",
]
