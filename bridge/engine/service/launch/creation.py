"""
Creates reports with their initial text, and changes the tags of their orders.

A new report has one order, or the orders of one link group. The callers check whether a launch may
create it. The initial text is key findings and SR texts, in the requested template; it is written
only into a report that has no text.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy
from pydantic_core import to_json as to_json_bytes
from sqlalchemy import Connection
from sqlmodel import select

from bridge.contract import MAX_REPORT_ORDERS
from bridge.engine.errors import BadLaunch
from bridge.engine.records.tables import Report, ReportOrder, metadata
from bridge.engine.rules.lifecycle import ReportOrigin, Status
from bridge.engine.rules.order import OrderId, merged_tags, search_text
from bridge.engine.rules.text.document import Document, from_text, restore, to_json, with_defaults
from bridge.engine.rules.text.key_findings import NO_GROUPS, Groups, apply_template
from bridge.engine.rules.text.plain_text import plain_text
from bridge.engine.service import change_feed
from bridge.engine.service.accounts.users import SiteUser
from bridge.engine.service.report_lookup import mark_updated
from bridge.engine.service.report_status import ReportStatusRecord
from bridge.engine.service.work import ChangeEvent, Work
from bridge.store.statements import execute_keys, insert_rows, key_statement, prepare_insert

MAX_METADATA = 2**19
"""Bytes of an order's Metadata. Each launch may add keys, and each change in the feed has all."""

TEMPLATES = metadata.tables["engine_template"]
REPORTS = metadata.tables[str(Report.__tablename__)]
ORDERS = metadata.tables[str(ReportOrder.__tablename__)]
_INSERT_REPORTS: Final = prepare_insert(
    REPORTS,
    (
        "report_id",
        "site_id",
        "status",
        "origin",
        "owner_id",
        "document",
        "content_text",
        "key_findings",
        "template_number",
        "reporting",
        "version",
        "created_at",
        "updated_at",
    ),
    returning="report_id, pk",
)
_INSERT_ORDERS: Final = prepare_insert(
    ORDERS,
    (
        "report_pk",
        "position",
        "site_id",
        "mrn",
        "accession",
        "location",
        "tags",
        "order_metadata",
        "search",
        "created_at",
        "updated_at",
    ),
)
_KEYS: Final = key_statement(
    "SELECT report_id, pk FROM engine_report WHERE report_id IN :ids", kind="text"
)
_CREATED: Final = {
    Status.ORDERED: ChangeEvent.ORDER_REGISTERED,
    Status.DRAFT: ChangeEvent.REPORT_CREATED,
}


@dataclass(frozen=True, slots=True)
class FirstText:
    """The initial text of a report, and the number of its template."""

    document: Mapping[str, Any] = field(repr=False)
    text: str = field(repr=False)
    template_number: int | None


@dataclass(frozen=True, slots=True)
class OrderInput:
    """An order of a launch or an order message; `tags` exclude identity and Metadata."""

    mrn: str = field(repr=False)
    accession: str = field(repr=False)
    location: str = ""
    tags: Mapping[str, Any] = field(default_factory=dict, repr=False)
    metadata: Mapping[str, Any] = field(default_factory=dict, repr=False)
    reporting: Mapping[str, Any] = field(default_factory=dict)

    def identity(self, site_id: str) -> OrderId:
        return OrderId(site_id, self.mrn, self.accession)


@dataclass(frozen=True, slots=True)
class NewReport:
    """
    An order that gets a new report; `first` is the report's initial text, if any.

    New orders of one patient with the same `group` share one report; the first of them is its
    anchor.
    """

    identity: OrderId
    order: OrderInput
    status: Status
    origin: ReportOrigin
    owner_id: int | None = None
    owner_email: str = ""
    first: FirstText | None = None
    group: str = ""


def report_ids(count: int) -> list[str]:
    """
    Return ids for reports that are created together: 32 hexadecimal digits, the first eight common.

    96 bits of each are random, and nothing is derived from the report or the time. The common
    digits keep the ids adjacent in every index, where random ones would each change another page.
    """
    common = secrets.token_hex(4)
    return [common + secrets.token_hex(12) for _ in range(count)]


def create_many(work: Work, new: Sequence[NewReport]) -> list[str]:
    """
    Create reports with one statement per table.

    Return the id of each order's report, in order.
    """
    if not new:
        return []
    shared = _by_report(new)
    ids = report_ids(len(shared))
    pairs = list(zip(ids, shared, strict=True))
    keys = _insert_reports(
        work.connection, [_report_values(work, i, group[0]) for i, group in pairs]
    )
    rows = [
        [
            _order_values(work, each, keys[report_id], position)
            for position, each in enumerate(group)
        ]
        for report_id, group in pairs
    ]
    insert_rows(work.connection, _INSERT_ORDERS, [row for group in rows for row in group])
    for (report_id, group), stored in zip(pairs, rows, strict=True):
        _announce(work, report_id, group, stored)
    found = {id(each): report_id for report_id, group in pairs for each in group}
    return [found[id(each)] for each in new]


def _by_report(new: Sequence[NewReport]) -> list[list[NewReport]]:
    """Group new orders by report: up to MAX_REPORT_ORDERS of a link group share one."""
    found: list[list[NewReport]] = []
    groups: dict[tuple[str, str, str], list[NewReport]] = {}
    for each in new:
        key = (each.identity.site_id, each.identity.mrn, each.group)
        if each.group and len(groups.get(key, ())) in range(1, MAX_REPORT_ORDERS):
            groups[key].append(each)
            continue
        found.append([each])
        if each.group:
            groups[key] = found[-1]
    return found


def _announce(
    work: Work, report_id: str, group: Sequence[NewReport], rows: Sequence[dict[str, Any]]
) -> None:
    """Announce a new report, and the linking of its orders if it has several."""
    first, body = group[0], _body(report_id, group, rows)
    work.announce(first.identity.site_id, report_id, _CREATED[first.status], body)
    if len(group) > 1:
        linked = body | {"removed": []}
        work.announce(first.identity.site_id, report_id, ChangeEvent.ORDERS_LINKED, linked)


def _insert_reports(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Insert reports; return their keys by their ids."""
    stored = insert_rows(connection, _INSERT_REPORTS, rows)
    if stored is None or not stored.returns_rows:
        stored = execute_keys(connection, _KEYS, [row["report_id"] for row in rows])
    return {row.report_id: row.pk for row in stored}


def create_draft(
    work: Work,
    site_id: str,
    order: OrderInput,
    owner: SiteUser,
    key_findings: str = "",
    groups: Groups = NO_GROUPS,
) -> Report:
    """Create a Draft for a user, as a launch does; key findings become its initial text."""
    first = first_text_of(work.connection, site_id, order.reporting, key_findings, groups)
    identity = order.identity(site_id)
    new = NewReport(
        identity, order, Status.DRAFT, ReportOrigin.LAUNCH, owner.id, owner.email, first
    )
    query = select(Report).where(Report.report_id == create_many(work, [new])[0])
    return work.session.exec(query).one()


def create_ordered(work: Work, site_id: str, origin: ReportOrigin) -> Report:
    """Create an empty, unassigned Ordered report without an order."""
    report = Report(
        report_id=report_ids(1)[0],
        site_id=site_id,
        status=Status.ORDERED,
        origin=origin,
        created_at=work.now,
        updated_at=work.now,
    )
    work.session.add(report)
    work.session.flush()
    return report


def _report_values(work: Work, report_id: str, new: NewReport) -> dict[str, Any]:
    first = new.first
    text = first.text if first else ""
    return {
        "report_id": report_id,
        "site_id": new.identity.site_id,
        "status": new.status,
        "origin": new.origin,
        "owner_id": new.owner_id,
        "document": dict(first.document) if first else None,
        "content_text": text,
        "key_findings": text,
        "template_number": first.template_number if first else None,
        "reporting": dict(new.order.reporting),
        "version": 1,
        "created_at": work.now,
        "updated_at": work.now,
    }


def _order_values(work: Work, new: NewReport, report_pk: int, position: int) -> dict[str, Any]:
    identity, order = new.identity, new.order
    tags = merged_tags({}, order.tags, clears=True)
    return {
        "report_pk": report_pk,
        "position": position,
        "site_id": identity.site_id,
        "mrn": identity.mrn,
        "accession": identity.accession,
        "location": order.location,
        "tags": tags,
        "order_metadata": dict(order.metadata),
        "search": search_text(identity.mrn, identity.accession, tags),
        "created_at": work.now,
        "updated_at": work.now,
    }


def _body(
    report_id: str, group: Sequence[NewReport], rows: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Return the body that `change_feed.describe` returns, without reading the database."""
    new = group[0]
    has_content = new.first is not None and (
        bool(new.first.text.strip()) or new.first.template_number is not None
    )
    record = ReportStatusRecord(
        report_id,
        new.status,
        new.owner_email,
        None,
        tuple(each.identity for each in group),
        has_content,
        None,
    )
    orders = [
        {
            **row["tags"],
            "SiteID": row["site_id"],
            "SiteLocation": row["location"],
            "PatientMRN": row["mrn"],
            "Accession": row["accession"],
            "Metadata": row["order_metadata"],
        }
        for row in rows
    ]
    return {"record": record.as_json(), "orders": orders, "release": None}


def update_order(
    work: Work, report: Report, row: ReportOrder, order: OrderInput, *, clears: bool = False
) -> bool:
    """
    Change the tags of a locked, unsigned report's order; tell whether anything changed.

    New values replace old ones. An empty value is ignored, or removes the old one with `clears`.
    Metadata is extended by the given keys.
    """
    tags = merged_tags(row.tags, order.tags, clears=clears)
    extended = {**row.order_metadata, **order.metadata}
    if order.metadata and len(to_json_bytes(extended)) > MAX_METADATA:
        detail = f"Metadata with the earlier keys is larger than {MAX_METADATA} bytes"
        raise BadLaunch("metadata_too_large", detail, pointer="/clinicalInfo/Metadata")
    location = order.location or row.location
    if (tags, extended, location) == (row.tags, row.order_metadata, row.location):
        return False
    row.tags, row.order_metadata, row.location = tags, extended, location
    row.search = search_text(row.mrn, row.accession, tags)
    row.updated_at = work.now
    work.session.add(row)
    mark_updated(work, report)
    change_feed.announce_order_update(work, report)
    return True


def first_text_of(
    connection: Connection,
    site_id: str,
    options: Mapping[str, Any],
    text: str,
    groups: Groups = NO_GROUPS,
) -> FirstText | None:
    """
    Return the initial text of a report; None if there is nothing to write.

    With a template (ApplyTemplate) the text is mapped into the template's sections. Without one the
    text is used as it is. `groups` are the measurement groups in the text.
    """
    template, number = _template(connection, site_id, options)
    if template is None and not text.strip():
        return None
    document = (
        from_text(text) if template is None else apply_template(template, text, groups=groups)
    )
    return FirstText(to_json(document), plain_text(document), number)


def write_first_text(work: Work, report: Report, text: str, groups: Groups = NO_GROUPS) -> bool:
    """Write the initial text into a report that has none; tell whether it was written."""
    if report.content_text.strip() or report.template_number is not None:
        return False
    first = first_text_of(work.connection, report.site_id, report.reporting, text, groups)
    if first is None:
        return False
    report.template_number = first.template_number
    report.document = dict(first.document)
    # A text that still equals the key findings has not been edited.
    report.content_text = report.key_findings = first.text
    return True


def rewrite(work: Work, report: Report, text: str, groups: Groups) -> None:
    """Replace an unedited initial text, with the template that was applied."""
    report.document = report.template_number = None
    report.content_text = report.key_findings = ""
    write_first_text(work, report, text, groups)


def join_texts(*texts: str) -> str:
    """Return the distinct texts, separated by blank lines: key findings, then SR files."""
    return "\n\n".join(dict.fromkeys(part for each in texts if (part := each.strip())))


def _template(
    connection: Connection, site_id: str, options: Mapping[str, Any]
) -> tuple[Document | None, int | None]:
    number = options.get("template")
    if number is None:
        return None, None
    query = sqlalchemy.select(TEMPLATES.c.document).where(
        TEMPLATES.c.site_id == site_id, TEMPLATES.c.number == number
    )
    stored = connection.execute(query).scalar_one_or_none()
    return (None, None) if stored is None else (restore(with_defaults(stored)), int(number))
