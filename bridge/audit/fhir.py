"""
Audit events as FHIR R4 AuditEvent resources, by the profiles of IHE BALP.

Refused actions, actions without a request and sign-ins claim no profile, because BALP describes
successful REST actions. Patients are named only if the caller passes them.
"""

import base64
import ipaddress
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

BALP = "https://profiles.ihe.net/ITI/BALP"
_TERMINOLOGY = "http://terminology.hl7.org/CodeSystem"
_DICOM = "http://dicom.nema.org/resources/ontology/DCM"
_PARTICIPATION = f"{_TERMINOLOGY}/v3-ParticipationType"


class Interaction(StrEnum):
    """The kind of an action; the value is the name of its BALP profile, if there is one."""

    CREATE = "Create"
    READ = "Read"
    UPDATE = "Update"
    DELETE = "Delete"
    QUERY = "Query"
    AUTHENTICATION = "authentication"
    EXPORT = "export"


_RESTFUL = {
    Interaction.CREATE: ("create", "C"),
    Interaction.READ: ("read", "R"),
    Interaction.UPDATE: ("update", "U"),
    Interaction.DELETE: ("delete", "D"),
    Interaction.QUERY: ("search-type", "E"),
}
_DICOM_EVENTS = {
    Interaction.AUTHENTICATION: (("110114", "User Authentication"), ("110122", "Login"), "E"),
    Interaction.EXPORT: (("110106", "Export"), ("110106", "Export"), "R"),
}
_ACTIONS = {
    **dict.fromkeys(("content", "export", "open", "view", "share-open"), Interaction.READ),
    **dict.fromkeys(("status", "worklist", "dicom-query", "prelims", "changes"), Interaction.QUERY),
    **dict.fromkeys(
        ("launch", "init", "share-create", "addendum-create", "dicom-received"), Interaction.CREATE
    ),
    **dict.fromkeys(("delete", "discard", "addendum-cancel"), Interaction.DELETE),
    **dict.fromkeys(
        ("login", "token", "session", "permission", "warm"), Interaction.AUTHENTICATION
    ),
    **dict.fromkeys(("release", "sent"), Interaction.EXPORT),
}
_SUFFIXES = {
    "-read": Interaction.READ,
    "-export": Interaction.READ,
    "-create": Interaction.CREATE,
    "-delete": Interaction.DELETE,
    "-revoke": Interaction.DELETE,
}

_SOURCE = (_DICOM, "110153", "Source Role ID")
_DESTINATION = (_DICOM, "110152", "Destination Role ID")
_APPLICATION = (_DICOM, "110150", "Application")
_CUSTODIAN = (f"{_TERMINOLOGY}/provenance-participant-type", "custodian", "Custodian")
_PARTICIPANTS = {
    Interaction.READ: (_DESTINATION, _SOURCE),
    Interaction.EXPORT: (_DESTINATION, _SOURCE),
    Interaction.DELETE: (_APPLICATION, _CUSTODIAN),
}
"""Agent types of client and server; by default the client is the source."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One recorded action; `at` in milliseconds, `user` is an e-mail address or empty."""

    id: str
    at: int
    action: str
    success: bool = True
    site_id: str = ""
    user: str = ""
    token_id: int | None = None
    reports: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    target: tuple[str, str] = ("", "")
    """Type and id of the target."""
    changes: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    """Administrative members of the target `before` and `after` the action."""


@dataclass(frozen=True, slots=True)
class AuditedPatient:
    site_id: str = field(repr=False)
    mrn: str = field(repr=False)


def interaction_of(action: str) -> Interaction:
    """Return the kind of an action; unknown actions are updates."""
    ending = next((kind for suffix, kind in _SUFFIXES.items() if action.endswith(suffix)), None)
    return _ACTIONS.get(action) or ending or Interaction.UPDATE


def audit_events(
    entry: AuditEntry, server: str, patients: Sequence[AuditedPatient] = ()
) -> Iterator[dict[str, Any]]:
    """Yield the resources of an entry: one for each patient, or one if no patient is named."""
    for number, patient in enumerate(patients):
        yield _resource(entry, server, patient, f"{entry.id}-{number + 1}")
    if not patients:
        yield _resource(entry, server, None, entry.id)


def _resource(
    entry: AuditEntry, server: str, patient: AuditedPatient | None, resource_id: str
) -> dict[str, Any]:
    kind = interaction_of(entry.action)
    event_type, subtype, action = _codes(kind)
    resource: dict[str, Any] = {
        "resourceType": "AuditEvent",
        "id": resource_id,
        "type": event_type,
        "subtype": [subtype, _coding("urn:report-bridge:audit-action", entry.action)],
        "action": action,
        "recorded": datetime.fromtimestamp(entry.at / 1000, UTC).isoformat(timespec="milliseconds"),
        "outcome": "0" if entry.success else "4",
        "agent": list(_agents(entry, kind, server)),
        "source": {
            "observer": {"display": server},
            "type": [_coding(f"{_TERMINOLOGY}/security-source-type", "4", "Application Server")],
        },
        "entity": list(_entities(entry, kind, patient)),
    }
    if entry.success and kind in _RESTFUL:
        name = f"{'Patient' if patient else ''}{kind.value}"
        resource["meta"] = {"profile": [f"{BALP}/StructureDefinition/IHE.BasicAudit.{name}"]}
    if not entry.success:
        resource["outcomeDesc"] = str(entry.details.get("code", "refused"))
    return resource


def _codes(kind: Interaction) -> tuple[dict[str, str], dict[str, str], str]:
    if kind in _RESTFUL:
        code, action = _RESTFUL[kind]
        rest = _coding(f"{_TERMINOLOGY}/audit-event-type", "rest", "Restful Operation")
        return rest, _coding("http://hl7.org/fhir/restful-interaction", code, code), action
    event, subtype, action = _DICOM_EVENTS[kind]
    return _coding(_DICOM, *event), _coding(_DICOM, *subtype), action


def _agents(entry: AuditEntry, kind: Interaction, server: str) -> Iterator[dict[str, Any]]:
    client, service = _PARTICIPANTS.get(kind, (_SOURCE, _DESTINATION))
    address = entry.source or str(entry.details.get("client", ""))
    token = f"token {entry.token_id}" if entry.token_id else "browser or command"
    yield {
        "type": _concept(client),
        "who": {"display": str(entry.details.get("destination", "")) or token},
        "requestor": not entry.user,
        "network": {"address": address or "localhost", "type": _address_type(address)},
    }
    yield {
        "type": _concept(service),
        "who": {"display": server},
        "requestor": False,
        "network": {"address": server, "type": "5"},
    }
    if entry.user:
        reads = kind in (Interaction.READ, Interaction.QUERY)
        role = ("IRCP", "information recipient") if reads else ("AUT", "author (originator)")
        yield {
            "type": _concept((_PARTICIPATION, *role)),
            "who": {"identifier": {"value": entry.user}},
            "requestor": True,
        }


def _address_type(address: str) -> str:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return "1"
    return "2"


def _entities(
    entry: AuditEntry, kind: Interaction, patient: AuditedPatient | None
) -> Iterator[dict[str, Any]]:
    if request := str(entry.details.get("request", "")):
        yield {
            "what": {"identifier": {"value": request}},
            "type": _coding(f"{BALP}/CodeSystem/BasicAuditEntityType", "XrequestId"),
        }
    if patient is not None:
        system = f"urn:report-bridge:site:{patient.site_id}"
        yield {
            "what": {"identifier": {"system": system, "value": patient.mrn}},
            "type": _coding(f"{_TERMINOLOGY}/audit-entity-type", "1", "Person"),
            "role": _coding(f"{_TERMINOLOGY}/object-role", "1", "Patient"),
        }
    yield _query(entry) if kind is Interaction.QUERY else _data(entry)


def _data(entry: AuditEntry) -> dict[str, Any]:
    system, value = "urn:report-bridge:site", entry.site_id
    kind, identity = entry.target
    if entry.reports:
        system, value = "urn:report-bridge:report", entry.reports[0]
    elif kind and identity:
        system, value = f"urn:report-bridge:{kind}", identity
    details = [
        {"type": name, "valueString": json.dumps(members, sort_keys=True)}
        for name, members in sorted(entry.changes.items())
        if members
    ]
    return {
        **({"detail": details} if details else {}),
        "what": {"identifier": {"system": system, "value": value or "service"}},
        "type": _coding(f"{_TERMINOLOGY}/audit-entity-type", "2", "System Object"),
        "role": _coding(f"{_TERMINOLOGY}/object-role", "3" if entry.reports else "4"),
    }


def _query(entry: AuditEntry) -> dict[str, Any]:
    """Return the entity of a query and the reports found; parameters are not recorded."""
    query = f"{entry.action}?site={entry.site_id}"
    return {
        "type": _coding(f"{_TERMINOLOGY}/audit-entity-type", "2", "System Object"),
        "role": _coding(f"{_TERMINOLOGY}/object-role", "24", "Query"),
        "query": base64.b64encode(query.encode()).decode("ascii"),
        "description": f"{len(entry.reports)} reports: {' '.join(entry.reports)}".strip(": "),
    }


def _concept(code: tuple[str, str, str]) -> dict[str, Any]:
    return {"coding": [_coding(*code)]}


def _coding(system: str, code: str, display: str = "") -> dict[str, str]:
    coding = {"system": system, "code": code}
    return {**coding, "display": display} if display else coding
