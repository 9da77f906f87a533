"""
Everything about one order: its messages, report, deliveries and linked orders, as one timeline.

`read_order` reads what the bridge has stored and blocks; `ask_engine` asks the report engine for
the state of the report now. `order_page` composes both. Times in ms, None if unknown.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from sqlalchemy import Connection, and_, or_, select

from bridge.admin.access.permissions import Permission
from bridge.admin.errors import NoSuchItem
from bridge.admin.lists.columns import shown_name
from bridge.admin.lists.definitions import DELIVERIES, MESSAGES
from bridge.admin.lists.deliveries import ListedDelivery
from bridge.admin.lists.listing import Access, ListRequest
from bridge.admin.messages.message_content import edits_of
from bridge.admin.messages.message_index import NumberKind, SubjectReader, origin_of, read_numbers
from bridge.admin.orders import order_tracking, steps
from bridge.admin.orders.sentence import (
    DeliveryFacts,
    MessageFacts,
    OrderFacts,
    ReportFacts,
    sentence,
)
from bridge.admin.orders.steps import Attempts, AttentionNote, Step
from bridge.contract import OrderKey
from bridge.contract.responses import (
    OutsideReportOfPatient,
    StatusRecordBody,
    StructuredReportOfOrder,
)
from bridge.engine_client.client import EngineClient
from bridge.engine_client.errors import EngineFailure
from bridge.queue import queries
from bridge.queue.errors import NoSuchRow
from bridge.queue.listing_rows import MessageRow
from bridge.queue.log_tables import pull_new
from bridge.queue.outbox import order_name
from bridge.store.database import Database
from bridge.store.records import patient_records, report_events, scheduled_steps
from bridge.store.records.exceptions import ExceptionSubject
from bridge.store.records.report_events import STATUS_SEEN, ReportEventRow
from bridge.store.records.scheduled_steps import ScheduledStep
from bridge.store.tables import EXCEPTIONS, KNOWN_REPORTS, ORDERS
from mappings.hl7.refusals import AckCode

MAX_MESSAGES: Final = 50
MAX_DELIVERIES: Final = 100
MAX_LINKED: Final = 100
_MAX_EVENTS: Final = 200
_ACK_CODES: Final = frozenset(AckCode)
_WORKLIST_PAGE: Final = 200
_ORDER, _KNOWN, _ITEM = ORDERS.c, KNOWN_REPORTS.c, EXCEPTIONS.c


@dataclass(frozen=True, slots=True)
class StoredReport:
    """The report of an order as the bridge has seen it last."""

    id: str
    status: str
    addenda: int
    changed_at: int | None


@dataclass(frozen=True, slots=True)
class StoredOrder:
    """What the bridge has stored of an order, as far as the user may see it."""

    key: OrderKey
    id: int
    numbers: Mapping[str, str]
    patient: Mapping[str, str] | None
    state: str
    first_at: int | None
    report: StoredReport | None
    linked: Sequence[Mapping[str, Any]]
    merged_from: Sequence[str]
    messages: Sequence[MessageRow]
    deliveries: Sequence[ListedDelivery]
    attempts: Attempts
    edits: Mapping[int, Sequence[Mapping[str, Any]]]
    events: Sequence[ReportEventRow]
    notes: Sequence[AttentionNote]
    scheduled: Sequence[ScheduledStep] = ()


@dataclass(frozen=True, slots=True)
class EngineState:
    """
    The report now, None if the report engine has none; and its place on the unread worklist.

    `place` counts from 1, None beyond the first page; `total` is None if there are more pages.
    `outside` are the reports of the order that were not made here, `structured` the DICOM SR, dose
    reports and key objects of its report.
    """

    record: StatusRecordBody | None
    place: int | None = None
    total: int | None = None
    outside: Sequence[OutsideReportOfPatient] = ()
    structured: Sequence[StructuredReportOfOrder] = ()


def read_order(
    database: Database, subjects_of: SubjectReader, order_id: int, access: Access
) -> StoredOrder:
    """
    Read an order. Requires FIND; numbers and names of patients require BODIES.

    Raises NoSuchItem, also for an order of a site that the user may not see.
    """
    access.require(Permission.FIND)
    reads = Permission.BODIES in access.permissions
    pull_new(database)
    with database.read() as connection:
        row = _row(connection, order_id, access)
        key = OrderKey(row["site"], row["mrn"], row["accession"])
        identifiers = {mrn for _, mrn in patient_records.identifiers(connection, {key.patient})}
        report = _report(connection, row, key)
        linked = [] if report is None else _linked(connection, report.id, row["id"], access)
        deliveries = _deliveries(connection, report, row["id"], access)
        events = [] if report is None else report_changes(connection, report.id)
        scheduled = scheduled_steps.steps_of(connection, [key])
    messages = _messages(database, subjects_of, row, identifiers, access)
    with database.read() as connection:
        notes = _notes(connection, row["id"], messages, deliveries)
    return StoredOrder(
        key=key,
        id=row["id"],
        numbers={name: _first_part(row[name]) for name in ("accession", "placer", "filler")},
        patient=_patient(row) if reads else None,
        state=row["state"],
        first_at=_first_at(row, messages, database),
        report=report,
        linked=linked,
        merged_from=sorted(identifiers - {key.mrn}) if reads else [],
        messages=messages,
        deliveries=deliveries,
        attempts=order_tracking.attempts_of(
            database, [listed.row for listed in deliveries], with_texts=reads
        ),
        edits={message.id: edits_of(database, message.id) for message in messages},
        events=events,
        notes=notes,
        scheduled=scheduled,
    )


def site_of_order(database: Database, order_id: int) -> list[str]:
    """Return the site of an order. Raises NoSuchItem."""
    with database.read() as connection:
        site = connection.scalar(select(_ORDER.site).where(_ORDER.id == order_id))
    if site is None:
        raise NoSuchItem
    return [site]


async def ask_engine(client: EngineClient, stored: StoredOrder) -> EngineState | None:
    """Return the state of the report now; None if the report engine does not answer."""
    try:
        records = await client.status([stored.key])
    except EngineFailure as failure:
        return EngineState(None) if failure.status == _NOT_FOUND else None
    record = next((item for item in records if stored.key in item.orders), None)
    if record is None:
        return EngineState(None)
    outside, structured = await _outside(client, stored), await _structured(client, stored)
    state = EngineState(record, outside=outside, structured=structured)
    if record.status != _UNREAD or record.user_email:
        return state
    try:
        page = await client.worklist(
            stored.key.site, status=_UNREAD, sort="created", limit=_WORKLIST_PAGE
        )
    except EngineFailure:
        return state
    places = [str(item.get("reportId", "")) for item in page.items]
    place = places.index(record.report_id) + 1 if record.report_id in places else None
    return replace(state, place=place, total=None if page.next else len(places))


async def _outside(client: EngineClient, stored: StoredOrder) -> list[OutsideReportOfPatient]:
    """
    Return the reports with a number of the order that were not made here.

    They are texts of patients; another service has none.
    """
    if stored.patient is None:
        return []
    try:
        found = await client.outside_reports(stored.key)
    except EngineFailure:
        return []
    return [report for report in found if report.accession in stored.numbers.values()]


async def _structured(client: EngineClient, stored: StoredOrder) -> list[StructuredReportOfOrder]:
    """Return the structured reports of the order's report; another service has none."""
    if stored.patient is None:
        return []
    try:
        return list(await client.structured_reports(stored.key))
    except EngineFailure:
        return []


_NOT_FOUND: Final = 404
_UNREAD: Final = "Ordered"


def order_page(stored: StoredOrder, engine: EngineState | None, now: int) -> dict[str, Any]:
    """Compose the page of an order; `engine` is None if the report engine does not answer."""
    record = None if engine is None else engine.record
    report = stored.report
    facts = OrderFacts(
        state=stored.state,
        first_at=stored.first_at,
        report=_report_facts(report, record),
        messages=[_message_facts(row) for row in stored.messages],
        deliveries=[_delivery_facts(listed, stored.attempts) for listed in stored.deliveries],
        notes=[
            note.code
            for note in stored.notes
            if note.seen_at is None and note.subject is ExceptionSubject.ORDER
        ],
    )
    return {
        "now": now,
        "is_current": engine is not None,
        "order": {
            "id": stored.id,
            "site": stored.key.site,
            "state": stored.state,
            "first_at": stored.first_at,
            **stored.numbers,
            **({} if stored.patient is None else stored.patient),
            "merged_from": list(stored.merged_from),
        },
        "sentence": asdict(sentence(facts, now)),
        "spans": [asdict(span) for span in _spans(stored)],
        "steps": [asdict(step) for step in _steps(stored)],
        "report": _report_json(report, record),
        "linked": list(stored.linked),
        "worklist": _worklist_json(engine),
        "outside": [_outside_json(report) for report in (engine.outside if engine else ())],
        "structured": [
            {"title": report.title, "text": report.text, "set_aside": report.set_aside}
            for report in (engine.structured if engine else ())
        ],
        "messages": [_message_json(row) for row in stored.messages],
        "deliveries": [_delivery_json(listed) for listed in stored.deliveries],
    }


def _outside_json(report: OutsideReportOfPatient) -> dict[str, Any]:
    versions = [
        {
            **{name: getattr(version, name) for name in ("at", "author", "text", "pdfs")},
            "status": version.status.value,
            "omitted": list(version.omitted),
        }
        for version in report.versions
    ]
    return {"sender": report.sender, "title": report.study, "versions": versions}


@dataclass(frozen=True, slots=True)
class Span:
    """A milestone of an order, and the time after the one before; `to` names a destination."""

    kind: str
    at: int
    after: int | None
    to: str = ""
    tone: str = ""


_MILESTONES: Final = {
    "received": "received",
    "applied": "applied",
    "report_opened": "opened",
    "report_prelimed": "preliminary read",
    "report_signed": "signed",
    "report_finalized": "released",
}


def _spans(stored: StoredOrder) -> list[Span]:
    """Return the milestones until the release, then the last result of each destination."""
    first: dict[str, Step] = {}
    for step in _steps(stored):
        if step.kind in _MILESTONES:
            first.setdefault(step.kind, step)
    if "report_finalized" in first and "report_signed" in first:
        signed = [step for step in _steps(stored) if step.kind == "report_signed"]
        before = [step for step in signed if step.at <= first["report_finalized"].at]
        first["report_signed"] = before[-1] if before else first["report_signed"]
    spans: list[Span] = []
    for step in sorted(first.values(), key=lambda item: item.at):
        after = step.at - spans[-1].at if spans else None
        spans.append(Span(_MILESTONES[step.kind], step.at, after))
    last = {listed.row.destination: listed.row for listed in stored.deliveries}
    for name, row in last.items():
        if row.acknowledged_at is not None:
            begun = row.sent_at or row.created_at
            taken = max(0, row.acknowledged_at - begun)
            spans.append(Span("accepted", row.acknowledged_at, taken, name, "ok"))
        elif row.state in {"queued", "claimed", "parked"}:
            at = row.sent_at or row.created_at
            tone = "red" if row.code else "info"
            spans.append(Span("not accepted" if row.code else "waits", at, None, name, tone))
    return spans


def _steps(stored: StoredOrder) -> list[Step]:
    return steps.in_order(
        [
            *steps.message_steps(stored.messages, stored.edits),
            *steps.report_steps(stored.events or _last_state(stored)),
            *steps.delivery_steps((listed.row for listed in stored.deliveries), stored.attempts),
            *steps.attention_steps(stored.notes),
            *steps.scheduled_steps(stored.scheduled),
        ]
    )


def _last_state(stored: StoredOrder) -> list[ReportEventRow]:
    """Return the last known state of a report whose changes were not stored."""
    report = stored.report
    if report is None or not report.status or report.changed_at is None:
        return []
    site = stored.key.site
    return [ReportEventRow(site, report.id, report.changed_at, STATUS_SEEN, report.status)]


def _row(connection: Connection, order_id: int, access: Access) -> Mapping[Any, Any]:
    found = connection.execute(select(ORDERS).where(_ORDER.id == order_id)).mappings().first()
    if found is None or (access.sites is not None and found["site"] not in access.sites):
        raise NoSuchItem
    return found


def _report(connection: Connection, row: Mapping[Any, Any], key: OrderKey) -> StoredReport | None:
    """Return the report of an order; one that is linked has the state of the report's anchor."""
    own = and_(_KNOWN.site == key.site, _KNOWN.accession == key.accession, _KNOWN.mrn == key.mrn)
    known = connection.execute(select(KNOWN_REPORTS).where(own)).first()
    report_id = (known.report_id if known is not None else "") or row["report_id"]
    if not report_id:
        return None
    if known is None or not known.status:
        other = select(KNOWN_REPORTS).where(_KNOWN.report_id == report_id, _KNOWN.status != "")
        known = connection.execute(other.order_by(_KNOWN.changed_at.desc()).limit(1)).first()
    if known is None:
        return StoredReport(report_id, "", 0, None)
    return StoredReport(report_id, known.status, known.addenda, known.changed_at or None)


def _linked(
    connection: Connection, report_id: str, order_id: int, access: Access
) -> list[dict[str, Any]]:
    """Return the other orders of a report, on visible sites."""
    anchor = and_(
        _KNOWN.site == _ORDER.site, _KNOWN.accession == _ORDER.accession, _KNOWN.mrn == _ORDER.mrn
    )
    own = select(ORDERS).where(_ORDER.report_id == report_id, _ORDER.report_id != "")
    known = (
        select(ORDERS).join_from(KNOWN_REPORTS, ORDERS, anchor).where(_KNOWN.report_id == report_id)
    )
    found = {
        row["id"]: row
        for statement in (own, known)
        for row in connection.execute(statement.limit(MAX_LINKED)).mappings()
    }
    reads = Permission.BODIES in access.permissions
    return [
        {
            "id": number,
            "accession": _first_part(row["accession"]),
            "state": row["state"],
            **({"study": _tags(row).get("StudyDescription", "")} if reads else {}),
        }
        for number, row in sorted(found.items())
        if number != order_id and (access.sites is None or row["site"] in access.sites)
    ]


def _deliveries(
    connection: Connection, report: StoredReport | None, order_id: int, access: Access
) -> list[ListedDelivery]:
    """Return the newest deliveries of a report and of its order, oldest first."""
    reports = [order_name(order_id), *([] if report is None else [report.id])]
    request = ListRequest({"report": reports}, limit=MAX_DELIVERIES)
    return list(reversed(DELIVERIES.page(connection, request, access).rows))


def report_changes(connection: Connection, report_id: str) -> list[ReportEventRow]:
    """Return the newest changes of a report, oldest first."""
    return [
        ReportEventRow(row.site, row.report_id, row.at, row.event, row.status, row.actor)
        for row in report_events.of_report(connection, report_id, _MAX_EVENTS)
    ]


def _messages(
    database: Database,
    subjects_of: SubjectReader,
    row: Mapping[Any, Any],
    identifiers: set[str],
    access: Access,
) -> list[MessageRow]:
    """
    Return the newest messages about an order, oldest first.

    They have one of its numbers, and its patient or none; and its first and last message.
    """
    numbers = {_first_part(row[name]) for name in ("accession", "placer", "filler")} - {""}
    found: dict[int, MessageRow] = {}
    with database.read() as connection:
        for number in sorted(numbers):
            filters = {"number": number, "kind": NumberKind.ORDER.value}
            page = MESSAGES.page(connection, ListRequest(filters, limit=MAX_MESSAGES), access)
            found.update((message.id, message) for message in page.rows)
        own = [row["first_message"], row["last_message"]]
        found.update((message.id, message) for message in MESSAGES.rows(connection, own, access))
    certain = set(own)
    kept = [
        found[number]
        for number in sorted(found, reverse=True)[:MAX_MESSAGES]
        if number in certain or _is_about(database, subjects_of, number, row, identifiers)
    ]
    return list(reversed(kept))


def _is_about(
    database: Database,
    subjects_of: SubjectReader,
    message_id: int,
    row: Mapping[Any, Any],
    identifiers: set[str],
) -> bool:
    """True if a message with a number of the order is about its site and patient."""
    try:
        detail = queries.message(database, message_id)
    except NoSuchRow:  # retention has removed it
        return False
    subjects = subjects_of(origin_of(detail))
    patients = read_numbers(detail.payload).with_subjects(subjects).patient
    return row["site"] in subjects.sites and (not patients or bool(patients & identifiers))


def _notes(
    connection: Connection,
    order_id: int,
    messages: Sequence[MessageRow],
    deliveries: Sequence[ListedDelivery],
) -> list[AttentionNote]:
    own = {
        ExceptionSubject.ORDER: [order_id],
        ExceptionSubject.MESSAGE: [message.id for message in messages],
        ExceptionSubject.DELIVERY: [listed.id for listed in deliveries],
    }
    about = [
        and_(_ITEM.kind == kind.value, _ITEM.row_id.in_(ids)) for kind, ids in own.items() if ids
    ]
    rows = connection.execute(select(EXCEPTIONS).where(or_(*about)))
    return [
        AttentionNote(
            ExceptionSubject(row.kind), row.row_id, row.code, row.noted_at, row.seen_at, row.seen_by
        )
        for row in rows
    ]


def _first_at(
    row: Mapping[Any, Any], messages: Sequence[MessageRow], database: Database
) -> int | None:
    """Return when the first message of an order arrived, None if retention has removed it."""
    known = {message.id: message.received_at for message in messages}
    if row["first_message"] in known:
        return known[row["first_message"]]
    try:
        return queries.message(database, row["first_message"]).row.received_at
    except NoSuchRow:
        return min(known.values(), default=None)


_PATIENT_TAGS: Final = {
    "name": "PatientName",
    "birth_date": "PatientBirthDate",
    "sex": "PatientSex",
    "study": "StudyDescription",
    "modality": "Modality",
    "study_uid": "StudyInstanceUID",
}


def _patient(row: Mapping[Any, Any]) -> dict[str, str]:
    tags = _tags(row)
    found = {name: str(tags.get(tag, "")) for name, tag in _PATIENT_TAGS.items()}
    return {**found, "name": shown_name(found["name"]), "mrn": str(row["mrn"])}


def _tags(row: Mapping[Any, Any]) -> Mapping[str, Any]:
    tags: Mapping[str, Any] = json.loads(row["tags"] or "{}")
    return tags


def _first_part(number: str) -> str:
    return number.partition("^")[0]


def _report_facts(
    report: StoredReport | None, record: StatusRecordBody | None
) -> ReportFacts | None:
    if record is not None:
        ends = [end for end in (record.unsign_until, record.addendum_unsign_until) if end]
        changed_at = None if report is None else report.changed_at
        return ReportFacts(record.status, record.user_email, changed_at, max(ends, default=None))
    return None if report is None else ReportFacts(report.status, "", report.changed_at)


def _message_facts(row: MessageRow) -> MessageFacts:
    code = row.code or row.error_code
    return MessageFacts(row.id, row.state, code, row.error_place, row.detail, row.not_before)


def _delivery_facts(listed: ListedDelivery, attempts: Attempts) -> DeliveryFacts:
    row, stored = listed.row, attempts.get(listed.id, ())
    is_reply = row.code in _ACK_CODES  # else the cause says more than what came
    errors: Sequence[Any] = stored[-1]["errors"] if stored and is_reply else ()
    error = " ".join(
        filter(None, (row.code, errors[0]["code"], errors[0]["description"])) if errors else ()
    )
    if error and errors[0]["place"]:
        error += f" at {errors[0]['place']}"
    names = ("id", "destination", "event", "state", "code", "detail", "attempts")
    times = ("created_at", "not_before")
    values = {name: getattr(row, name) for name in (*names, *times)}
    return DeliveryFacts(**values, waits_for=listed.waits_for, error=error)


def _report_json(
    report: StoredReport | None, record: StatusRecordBody | None
) -> dict[str, Any] | None:
    if report is None and record is None:
        return None
    return {
        "id": record.report_id if record is not None else report.id if report else "",
        "status": record.status.value if record is not None else report.status if report else "",
        "reader": "" if record is None else record.user_email,
        "addenda": 0 if report is None else report.addenda,
        "changed_at": None if report is None else report.changed_at,
        "released_at": None if record is None else record.unsign_until,
    }


def _worklist_json(engine: EngineState | None) -> dict[str, Any] | None:
    """Return the place on the unread worklist; None if the report is not on it or unknown."""
    if engine is None or engine.record is None or engine.record.status != _UNREAD:
        return None
    if engine.place is None and engine.total is not None:
        return None
    return {"place": engine.place, "total": engine.total}


def _message_json(row: MessageRow) -> dict[str, Any]:
    names = ("id", "received_at", "listener", "message_type", "state", "ack_code", "attempts")
    return {name: getattr(row, name) for name in names}


def _delivery_json(listed: ListedDelivery) -> dict[str, Any]:
    names = ("id", "created_at", "destination", "event", "state", "attempts", "sent_at")
    row = {name: getattr(listed.row, name) for name in names}
    accepted = {"acknowledged_at": listed.row.acknowledged_at, "latency": listed.latency}
    return {**row, **accepted, "waits_for": listed.waits_for}
