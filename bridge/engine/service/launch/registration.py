"""
Registers orders and creates their reports.

Many orders need as few statements as there are tables. Registering a known order again changes the
tags of an unsigned report, and nothing of a signed one. A launched report then has a registered
order, which remains when its Draft is discarded.

A new report has one order, or the orders of one link group. The callers check whether a launch may
create it. Its initial text is key findings and SR texts, in the requested template; it is written
only into a report that has no text.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from pydantic_core import to_json as to_json_bytes
from sqlalchemy import Connection, insert
from sqlmodel import select

from bridge.contract import MAX_REPORT_ORDERS, SIGNED, OrderKey, ReportStatus
from bridge.contract.errors import ErrorCode
from bridge.contract.responses import StatusRecordBody
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import Report, ReportOrder, Template, metadata
from bridge.engine.rules.lifecycle import ReportOrigin
from bridge.engine.rules.order import merged_tags, search_text
from bridge.engine.rules.text.document import Document, from_text, restore, to_json, with_defaults
from bridge.engine.rules.text.key_findings import NO_GROUPS, Groups, apply_template
from bridge.engine.rules.text.plain_text import plain_text
from bridge.engine.service import change_feed
from bridge.engine.service.report_lookup import LockedOrder, lock_orders, mark_updated
from bridge.engine.service.report_transitions import mark_registered
from bridge.engine.service.work import ChangeEvent, Work

MAX_METADATA = 2**19
"""Bytes of an order's Metadata. Each launch may add keys, and each change in the feed has all."""

REPORTS = metadata.tables[str(Report.__tablename__)]
ORDERS = metadata.tables[str(ReportOrder.__tablename__)]
# Built once: building a statement costs more than executing it.
_INSERT_REPORTS: Final = insert(REPORTS).returning(REPORTS.c.report_id, REPORTS.c.pk)
_INSERT_ORDERS: Final = insert(ORDERS)
_CREATED: Final = {
    ReportStatus.ORDERED: ChangeEvent.ORDER_REGISTERED,
    ReportStatus.DRAFT: ChangeEvent.REPORT_CREATED,
}


class Registration(StrEnum):
    """The outcome of registering an order."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    SIGNED = "signed"  # the report is signed: nothing was changed


@dataclass(frozen=True, slots=True)
class RegisteredOrder:
    """The outcome for one order, with the id and status of its report."""

    report_id: str
    status: ReportStatus
    outcome: Registration


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


@dataclass(frozen=True, slots=True)
class NewReport:
    """
    An order that gets a new report; `first` is the report's initial text, if any.

    New orders of one patient with the same `group` share one report; the first of them is its
    anchor.
    """

    identity: OrderKey
    order: OrderInput
    status: ReportStatus
    origin: ReportOrigin
    owner_id: int | None = None
    owner_email: str = ""
    first: FirstText | None = None
    group: str = ""


def register_orders(
    work: Work,
    identities: Sequence[OrderKey],
    orders: Sequence[OrderInput],
    groups: Sequence[str] | None = None,
) -> list[RegisteredOrder]:
    """
    Register orders under current identities (merged patient identifiers are already followed).

    New orders of one patient with the same name in `groups` share one report; an empty name means
    no group.
    """
    group_names = groups or [""] * len(orders)
    done: dict[int, RegisteredOrder] = {}
    for turn in _turns(identities):
        found = lock_orders(work, [identities[index] for index in turn], current=True)
        known = {index: order for index, order in zip(turn, found, strict=True) if order}
        done |= {index: _update(work, order, orders[index]) for index, order in known.items()}
        new = {
            index: NewReport(
                identities[index],
                orders[index],
                ReportStatus.ORDERED,
                ReportOrigin.ORDER,
                group=group_names[index],
            )
            for index in turn
            if index not in known
        }
        for index, report_id in zip(new, create_reports(work, [*new.values()]), strict=True):
            done[index] = RegisteredOrder(report_id, ReportStatus.ORDERED, Registration.CREATED)
    return [done[index] for index in range(len(orders))]


def _turns(identities: Sequence[OrderKey]) -> list[list[int]]:
    """Split into turns in which no order occurs twice; a repeated order is in the next turn."""
    turns: list[list[int]] = []
    seen: dict[OrderKey, int] = {}
    for index, identity in enumerate(identities):
        turn = seen.get(identity, 0)
        seen[identity] = turn + 1
        if turn == len(turns):
            turns.append([])
        turns[turn].append(index)
    return turns


def _update(work: Work, found: LockedOrder, order: OrderInput) -> RegisteredOrder:
    report = found.report
    mark_registered(report)
    if report.status in SIGNED:
        return RegisteredOrder(report.report_id, report.status, Registration.SIGNED)
    changed = update_order(work, report, found.order, order, clears=True)
    outcome = Registration.UPDATED if changed else Registration.UNCHANGED
    return RegisteredOrder(report.report_id, report.status, outcome)


def report_ids(count: int) -> list[str]:
    """
    Return ids for reports that are created together: 32 hexadecimal digits, the first eight common.

    96 bits of each are random, and nothing is derived from the report or the time. The common
    digits keep the ids adjacent in every index, where random ones would each change another page.
    """
    common = secrets.token_hex(4)
    return [common + secrets.token_hex(12) for _ in range(count)]


def create_reports(work: Work, new: Sequence[NewReport]) -> list[str]:
    """
    Create reports with one statement per table.

    Return the id of each order's report, in order.
    """
    if not new:
        return []
    groups = _by_report(new)
    ids = report_ids(len(groups))
    inserted = work.connection.execute(
        _INSERT_REPORTS,
        [_report_values(work, *pair) for pair in zip(ids, groups, strict=True)],
    )
    keys = {row.report_id: row.pk for row in inserted}
    rows = [
        [_order_values(work, order, keys[report_id], place) for place, order in enumerate(group)]
        for report_id, group in zip(ids, groups, strict=True)
    ]
    work.connection.execute(_INSERT_ORDERS, [row for group in rows for row in group])
    for report_id, group, stored in zip(ids, groups, rows, strict=True):
        _announce(work, report_id, group, stored)
    found = {
        id(order): report_id
        for report_id, group in zip(ids, groups, strict=True)
        for order in group
    }
    return [found[id(order)] for order in new]


def _by_report(new: Sequence[NewReport]) -> list[list[NewReport]]:
    """Group new orders by report: up to MAX_REPORT_ORDERS of a link group share one."""
    found: list[list[NewReport]] = []
    groups: dict[tuple[str, str, str], list[NewReport]] = {}
    for order in new:
        key = (order.identity.site, order.identity.mrn, order.group)
        if order.group and len(groups.get(key, ())) in range(1, MAX_REPORT_ORDERS):
            groups[key].append(order)
            continue
        found.append([order])
        if order.group:
            groups[key] = found[-1]
    return found


def _announce(
    work: Work, report_id: str, group: Sequence[NewReport], rows: Sequence[dict[str, Any]]
) -> None:
    """Announce a new report, and the linking of its orders if it has several."""
    first, body = group[0], _body(report_id, group, rows)
    work.announce(first.identity.site, report_id, _CREATED[first.status], body)
    if len(group) > 1:
        linked = body | {"removed": []}
        work.announce(first.identity.site, report_id, ChangeEvent.ORDERS_LINKED, linked)


def create_ordered(work: Work, site_id: str, origin: ReportOrigin) -> Report:
    """Create an empty, unassigned Ordered report without an order."""
    report = Report(
        report_id=report_ids(1)[0],
        site_id=site_id,
        status=ReportStatus.ORDERED,
        origin=origin,
        created_at=work.now,
        updated_at=work.now,
    )
    work.session.add(report)
    work.session.flush()
    return report


def _report_values(work: Work, report_id: str, group: Sequence[NewReport]) -> dict[str, Any]:
    new, first = group[0], group[0].first
    text = first.text if first else ""
    return {
        "report_id": report_id,
        "site_id": new.identity.site,
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
        "site_id": identity.site,
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
    keys = (order.identity for order in group)
    record = StatusRecordBody.model_construct(
        report_id=report_id,
        status=new.status,
        user_email=new.owner_email,
        unsign_until=None,
        orders=tuple(keys),
        has_content=has_content,
        addendum_unsign_until=None,
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
    return {"record": record.model_dump(mode="json"), "orders": orders, "release": None}


def update_order(
    work: Work, report: Report, row: ReportOrder, order: OrderInput, *, clears: bool = False
) -> bool:
    """
    Change the tags of a locked, unsigned report's order; return whether anything changed.

    New values replace old ones. An empty value is ignored, or removes the old one with `clears`.
    Metadata is extended by the given keys.
    """
    tags = merged_tags(row.tags, order.tags, clears=clears)
    extended = {**row.order_metadata, **order.metadata}
    if order.metadata and len(to_json_bytes(extended)) > MAX_METADATA:
        detail = f"Metadata with the earlier keys is larger than {MAX_METADATA} bytes"
        raise EngineError(ErrorCode.METADATA_TOO_LARGE, detail, pointer="/clinicalInfo/Metadata")
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
    """Write the initial text into a report that has none; return whether it was written."""
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
    return "\n\n".join(dict.fromkeys(part for text in texts if (part := text.strip())))


def _template(
    connection: Connection, site_id: str, options: Mapping[str, Any]
) -> tuple[Document | None, int | None]:
    number = options.get("template")
    if number is None:
        return None, None
    query = select(Template.document).where(Template.site_id == site_id, Template.number == number)
    stored = connection.execute(query).scalar_one_or_none()
    return (None, None) if stored is None else (restore(with_defaults(stored)), int(number))
