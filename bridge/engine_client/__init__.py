"""
Client of a report service: our own engine in this process, or any service over HTTP.

This file exports the values and errors; the client is `bridge.engine_client.client`.
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
