"""Issues, activations and drafts as the console's endpoints tell them. Pure."""

from typing import Any

from bridge.store.mapping_versions import Activation, Draft
from mappings.compiler import Compiled
from mappings.events import Issue
from mappings.inbound import InboundMapping
from mappings.orders import OrderPlan


def issue(found: Issue) -> dict[str, Any]:
    """Tell an issue with its place."""
    return {
        "file": found.file,
        "line": found.line,
        "column": found.column,
        "path": found.path,
        "severity": found.severity.value,
        "message": found.message,
        "code": found.code,
    }


def activation(found: Activation) -> dict[str, Any]:
    """Tell who put a version into force, when, why, and how."""
    return {
        "version": found.version,
        "at": found.at,
        "actor": found.actor,
        "reason": found.reason,
        "origin": found.origin.value,
    }


def draft(found: Draft) -> dict[str, Any]:
    """Tell of a draft without what it says."""
    return {
        "actor": found.actor,
        "saved_at": found.saved_at,
        "begun_on": found.begun_on,
        "revision": found.revision,
        "checked_version": found.checked_version,
    }


def kind(made: Compiled | None) -> str:
    """Say what a definition maps: orders, patients or results; empty where it has mistakes."""
    if made is None:
        return ""
    if not isinstance(made, InboundMapping):
        return "results"
    return "orders" if isinstance(made.plan, OrderPlan) else "patients"
