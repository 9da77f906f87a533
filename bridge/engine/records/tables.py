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
)
from bridge.engine.records.columns import metadata
from bridge.engine.records.feed import FeedChange, ReportRelease
from bridge.engine.records.reports import (
    Addendum,
    Billing,
    DeletedReport,
    DraftKey,
    PatientPointer,
    PrelimRead,
    Report,
    ReportFile,
    ReportOrder,
    Share,
    Signature,
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
from bridge.engine.records.windows import SyncTarget, Window

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
    "Membership",
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
    "SyncTarget",
    "Template",
    "Window",
    "metadata",
]
