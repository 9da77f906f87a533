"""
The report service, as its callers see it: values in, values or classified failures out.

This file exports the pure part; the client itself is `bridge.engine_client.client`.
"""

from bridge.contract import ReportStatus
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import (
    ChangePage,
    FeedRelease,
    LaunchRequest,
    LaunchResult,
    OrderKey,
    PatientUpdate,
    ReportChange,
    ReportExport,
    StatusRecord,
)

__all__ = [
    "ChangePage",
    "EngineFailure",
    "FeedRelease",
    "LaunchRequest",
    "LaunchResult",
    "OrderKey",
    "PatientUpdate",
    "ReportChange",
    "ReportExport",
    "ReportStatus",
    "StatusRecord",
]
