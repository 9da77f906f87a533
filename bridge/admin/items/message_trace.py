"""
The trace of a stored message, with the definition that read it.

The trace contains patient data: show it to users who may read content only, and do not log it.
"""

from collections.abc import Mapping
from typing import Any

from bridge import active_settings
from bridge.active_settings import active_sources
from bridge.admin.definitions.drafts import check_cached
from bridge.admin.definitions.trace_json import NO_TRACE, trace_payload
from bridge.admin.definitions.trials import stored_sample
from bridge.queue.listing_rows import MessageDetail
from bridge.store.database import Database
from config import Settings
from mappings.inbound.definition import InboundMapping


def trace_message(
    settings: Settings,
    database: Database,
    mapping: InboundMapping | None,
    detail: MessageDetail,
    *,
    first: int = 0,
) -> Mapping[str, Any]:
    """
    Trace a stored message with the definition that read it, from the n-th group on.

    The settings of its listener are the present ones. `note` says why a message has no trace.
    """
    if mapping is None:
        return {**NO_TRACE, "note": "no definition took the message"}
    known = active_settings.current(settings, database).listener
    listener = next((entry for entry in known if entry.name == detail.row.listener), None)
    if listener is None:
        return {**NO_TRACE, "note": "its listener was removed"}
    sample = stored_sample(listener, detail.row, detail.payload)
    found = trace_payload(mapping, sample.payload, sample.defaults, sample.charset, first=first)
    active = check_cached(active_sources(settings, database)(mapping.name), mapping.name)
    return {**found, "active": active.version == mapping.version}
