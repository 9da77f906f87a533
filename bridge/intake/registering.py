"""The launches by which orders stand on the worklist. Pure; `launcher` sends them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from bridge.engine_client.models import Launch
from bridge.intake.planning import Task
from bridge.store.order_index import Key


def launch_of(task: Task, link_group: str = "") -> Launch:
    """
    Make the launch that registers an order, with everything that is known of it.

    `link_group` names the new orders of the message that share a report.
    """
    event = task.event
    location = {"SiteLocation": event.location} if event.location else {}
    tags = {**task.after.tags, **location}
    return registering(task.after.key, tags, event.reporting_app, link_group)


def registering(
    key: Key,
    tags: Mapping[str, Any],
    app: Mapping[str, Any] = MappingProxyType({}),
    link_group: str = "",
) -> Launch:
    """Make the launch that registers an order with these tags, and these of the report's app."""
    own = {"SiteID": key.site, "PatientMRN": key.mrn, "Accession": key.accession}
    return Launch({**tags, **own}, app, lazy=True, register_order=True, link_group=link_group)
