"""
All tables of the engine, and the metadata that the migrations are compared with.

Import rows from here: `from bridge.engine.records.tables import Report, ReportOrder`.
"""

from bridge.engine.records.access import (
    AnonymousRefusals,
    AuditEventRow,
    BrowserSessionRow,
    Idempotency,
    IndexKey,
    IssuedLink,
    SyncTarget,
    Window,
)
from bridge.engine.records.columns import metadata
from bridge.engine.records.reports import (
    Addendum,
    Billing,
    DeletedReport,
    DraftKey,
    FeedChange,
    PatientPointer,
    PrelimRead,
    Report,
    ReportFile,
    ReportOrder,
    ReportRelease,
    Share,
    Signature,
)
from bridge.engine.records.sites import (
    AccessToken,
    Account,
    CodeMap,
    Enrolment,
    Macro,
    PrelimGroup,
    SignInBucket,
    Site,
    SiteMembership,
    Template,
)

__all__ = [
    "AccessToken",
    "Account",
    "Addendum",
    "AnonymousRefusals",
    "AuditEventRow",
    "Billing",
    "BrowserSessionRow",
    "CodeMap",
    "DeletedReport",
    "DraftKey",
    "Enrolment",
    "FeedChange",
    "Idempotency",
    "IndexKey",
    "IssuedLink",
    "Macro",
    "PatientPointer",
    "PrelimGroup",
    "PrelimRead",
    "Report",
    "ReportFile",
    "ReportOrder",
    "ReportRelease",
    "Share",
    "SignInBucket",
    "Signature",
    "Site",
    "SiteMembership",
    "SyncTarget",
    "Template",
    "Window",
    "metadata",
]
