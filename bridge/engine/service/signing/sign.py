"""
Sign a report and recall it (interface reference, sign and unsign).

The server determines the time and the cooling period. A recall deletes the addenda, and the billing
codes and shares that were made after signing. The signed text stays in the history. The feed
announces the retraction of each addendum that was already released.

Signing reads and locks a report with one statement and writes it back with another, without an ORM
session, because that is faster.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple, TypedDict

from pydantic_core import to_json
from sqlalchemy import JSON, Connection, delete
from sqlalchemy.orm import class_mapper
from sqlmodel import col, select

from bridge.engine.errors import RuleBroken
from bridge.engine.records.reports import DETACHED
from bridge.engine.records.tables import Addendum, Billing, Report, Share, Signature, metadata
from bridge.engine.rules.lifecycle import (
    SIGNED,
    LifecycleEvent,
    Reason,
    ReleaseKind,
    ReportFact,
    ReportOrigin,
    Status,
)
from bridge.engine.rules.order import OrderId
from bridge.engine.rules.signing import cooling_end, fingerprint
from bridge.engine.rules.site_roles import ReportAction, SiteRole
from bridge.engine.service import change_feed
from bridge.engine.service.report_lookup import key_of, lock_report
from bridge.engine.service.report_status import (
    GroupOrder,
    ReportContext,
    ReportSummary,
    orders_statement,
    read_orders,
)
from bridge.engine.service.report_transitions import (
    addenda_of,
    apply_event,
    collect_facts,
    document_json,
    person_statement,
    prelim_reads,
    read_author,
    require_permitted,
)
from bridge.engine.service.signing import releases
from bridge.engine.service.signing.prelims import review
from bridge.engine.service.stored_texts import require_room_for_states
from bridge.engine.service.work import ChangeEvent, Work
from bridge.store.statements import (
    BoundStatement,
    DialectStatement,
    bind,
    bind_insert,
    dialect_statement,
    execute,
    execute_all,
    prepare_insert,
    stored_json,
)

_INSERT_SIGNATURE: Final = prepare_insert(
    metadata.tables[str(Signature.__tablename__)],
    (
        "report_pk",
        "signed_at",
        "signed_by",
        "acted_by_id",
        "document",
        "content_text",
        "content_hash",
        "cleared",
    ),
)


class _SigningContext(NamedTuple):
    """The data that a signing has read: report summary, orders, and the signer with their role."""

    summary: ReportSummary
    orders: Sequence[GroupOrder]
    signer: dict[str, Any]
    role: SiteRole | None


class _SignOptions(TypedDict):
    ignore_delay: bool
    time_zone: str | None


def sign(
    work: Work, identity: OrderId, *, ignore_delay: bool = False, time_zone: str | None = None
) -> Report:
    """
    Sign in the name of the report's owner, as the API does.

    The owner must also have the permission to sign in the application. The signature names the
    owner and the account that acted. Raise `AuthorNotPermitted`.
    """
    options: _SignOptions = {"ignore_delay": ignore_delay, "time_zone": time_zone}
    detached = lock_detached(work, identity)
    context = (
        None if detached is None else _read_context(work, detached.report, detached.report.owner_id)
    )
    if detached is None or context is None or identity not in map(_order_id, context.orders):
        report = lock_report(work, identity).report
        return sign_report(work, report, report.owner_id, **options)
    report = sign_report(work, detached.report, detached.report.owner_id, **options, read=context)
    work.final_statements += detached.update_statements(work.connection)
    return report


def sign_report(
    work: Work,
    report: Report,
    signer_id: int | None,
    *,
    ignore_delay: bool = False,
    time_zone: str | None = None,
    read: _SigningContext | None = None,
) -> Report:
    """
    Sign a locked report, or end the cooling period of one that is already signed.

    `read` is the context of this report and signer, read since the lock; None reads it here.
    """
    was_signed = report.status in SIGNED
    summary, orders, signer, role = read or _read_context(work, report, signer_id)
    facts = collect_facts(work, report, ignores_delay=ignore_delay, summary=summary)
    apply_event(work, report, LifecycleEvent.SIGN, facts=facts)
    if was_signed:
        releases.release_now(work, report)
        return report
    if signer_id is None:
        raise RuleBroken(Reason.NOT_OWNED)
    require_permitted(role, ReportAction.SIGN, owner=signer_id == report.owner_id)
    # The connection bypasses the ORM session, so that one statement writes the report's changes.
    context = ReportContext.by(work.connection, report, work.now, summary, orders)
    signature = _signature(work, report, signer_id, signer, orders, time_zone)
    if ReportFact.PRELIM_READ in facts:
        review(work, report, signer_id)
    ends = cooling_end(work.now, summary.sign_delay, ignore_delay=ignore_delay)
    report.cooling_until = ends
    change_feed.announce(work, report, ChangeEvent.REPORT_SIGNED, context=context)
    releases.schedule(
        work, report, ReleaseKind.FINAL, due_at=ends, context=context, before=[signature]
    )
    return report


def _read_context(work: Work, report: Report, signer_id: int | None) -> _SigningContext:
    connection = work.connection
    statements = [
        ReportSummary.statement(connection, report),
        orders_statement(connection, report),
        person_statement(work, report.site_id, signer_id),
    ]
    acts_for_other = work.actor.account_id not in (None, signer_id)
    if acts_for_other:
        statements.append(person_statement(work, report.site_id, work.actor.account_id))
    summary, orders, author, *acting = execute_all(connection, statements)
    signer, role = read_author(author)
    if acts_for_other:
        actor, _ = read_author(acting[0])
        signer["actedBy"] = {"name": actor["name"], "email": actor["email"]}
    return _SigningContext(ReportSummary.read(summary), read_orders(orders), signer, role)


def _order_id(order: GroupOrder) -> OrderId:
    return OrderId(order.site_id, order.mrn, order.accession)


def _signature(
    work: Work,
    report: Report,
    signer_id: int,
    signer: dict[str, Any],
    orders: Sequence[GroupOrder],
    time_zone: str | None,
) -> BoundStatement:
    """Set the signature on the report; return the statement that stores the signing."""
    content = document_json(report)
    identities = list(map(_order_id, orders))
    report.signed_at = work.now
    report.signed_by_id = signer_id
    report.signed_by = signer
    report.signed_zone = time_zone
    report.content_hash = fingerprint(
        report.report_id, identities, content, signer["email"], work.now
    )
    report.lease_holder = report.lease_until = None
    row = {
        "report_pk": key_of(report),
        "signed_at": work.now,
        "signed_by": signer,
        "acted_by_id": work.actor.account_id,
        "document": content,
        "content_text": report.content_text,
        "content_hash": report.content_hash,
        "cleared": [],
    }
    return bind_insert(work.connection, _INSERT_SIGNATURE, [row])


def unsign(work: Work, identity: OrderId) -> Report:
    return unsign_report(work, lock_report(work, identity).report)


def unsign_report(work: Work, report: Report) -> Report:
    """Recall a locked report: Preliminary if it has an active preliminary read, else Draft."""
    apply_event(work, report, LifecycleEvent.UNSIGN)
    require_room_for_states(work, report)
    signed_at = report.signed_at or 0
    releases.withdraw(work, report)
    addenda = addenda_of(work, report)
    _withdraw_signature(work, report, addenda)
    delivered = [each for each in addenda if each.released_at is not None]
    _clear_signature(report)
    if report.status is Status.PRELIMINARY:
        _restore_prelim(work, report, signed_at)
    _delete_made_after(work, report, signed_at)
    change_feed.announce(work, report, ChangeEvent.REPORT_UNSIGNED)
    for addendum in delivered:
        releases.schedule(work, report, ReleaseKind.RETRACTION, addendum=addendum)
    work.session.flush()
    for addendum in addenda:
        work.session.delete(addendum)
    return report


def _withdraw_signature(work: Work, report: Report, addenda: list[Addendum]) -> None:
    newest = work.session.exec(
        select(Signature)
        .where(Signature.report_pk == key_of(report), col(Signature.withdrawn_at).is_(None))
        .order_by(col(Signature.pk).desc())
    ).first()
    if newest is not None:
        newest.withdrawn_at = work.now
        newest.cleared = [_history_json(each) for each in addenda]
        work.session.add(newest)


def _history_json(addendum: Addendum) -> dict[str, Any]:
    return {
        "number": addendum.number,
        "state": addendum.state.value,
        "document": addendum.document,
        "content": addendum.content_text,
        "signedAt": addendum.signed_at,
        "signedBy": addendum.signed_by,
        "releasedAt": addendum.released_at,
    }


def _clear_signature(report: Report) -> None:
    report.signed_at = report.signed_by_id = report.cooling_until = None
    report.signed_by = report.signed_zone = report.content_hash = None


def _restore_prelim(work: Work, report: Report, signed_at: int) -> None:
    """Restore the newest active preliminary read, and undo the review by this signing."""
    reads = [read for read in prelim_reads(work, report) if read.withdrawn_at is None]
    report.document = reads[-1].document
    report.content_text = reads[-1].content_text
    for read in reads:
        if read.reviewed_at == signed_at:
            read.reviewed_at = read.reviewed_by = None
            work.session.add(read)


def _delete_made_after(work: Work, report: Report, signed_at: int) -> None:
    report_pk = key_of(report)
    for table in (Billing, Share):
        work.session.exec(
            delete(table).where(
                col(table.report_pk) == report_pk, col(table.created_at) >= signed_at
            )
        )


_TABLE: Final = metadata.tables[str(Report.__tablename__)]
_COLUMNS: Final = tuple(column.name for column in _TABLE.columns)
_JSON_COLUMNS: Final = frozenset(c.name for c in _TABLE.columns if isinstance(c.type, JSON))
_ENUMS: Final = {"status": Status, "origin": ReportOrigin}
_SELECT_REPORT: Final = f"""
    SELECT {", ".join(f"r.{name}" for name in _COLUMNS)}
    FROM engine_report AS r JOIN engine_report_order AS o ON o.report_pk = r.pk
    WHERE o.site_id = :site_id AND o.mrn = :mrn AND o.accession = :accession
        AND NOT EXISTS (
            SELECT 1 FROM engine_patient_pointer AS p
            WHERE p.site_id = :site_id AND p.prior_mrn = :mrn
        )
"""  # noqa: S608  # a table's own names
# Looks up and locks in one statement. The caller checks that the order is still the report's.
_LOCK_REPORT: Final = DialectStatement(
    _SELECT_REPORT, dialect_statement(f"{_SELECT_REPORT} FOR UPDATE OF r").postgres
)


@dataclass(frozen=True, slots=True)
class DetachedReport:
    report: Report
    before: Mapping[str, Any]

    def update_statements(self, connection: Connection) -> list[BoundStatement]:
        """Return the statement that writes all changed values; empty without changes."""
        current = vars(self.report)
        changed = tuple(name for name in _COLUMNS if current[name] != self.before[name])
        if not changed:
            return []
        values = {name: _to_column(name, current[name]) for name in changed}
        return [bind(connection, _update(changed), pk=self.report.pk, **values)]


def lock_detached(work: Work, identity: OrderId) -> DetachedReport | None:
    """
    Find and lock a report by one of its orders; None if there is none or its patient was merged.

    The order may have moved to another report before the lock was granted. The caller, who reads
    the report's orders next, must check that.
    """
    parameters = {"site_id": identity.site_id, "mrn": identity.mrn, "accession": identity.accession}
    row = execute(work.connection, _LOCK_REPORT, **parameters).first()
    if row is None:
        return None
    values = {name: _from_column(name, value) for name, value in zip(_COLUMNS, row, strict=True)}
    report: Report = class_mapper(Report).class_manager.new_instance()  # as the ORM makes them
    vars(report).update(values, **{DETACHED: True})
    return DetachedReport(report, values)


def _from_column(name: str, value: Any) -> Any:
    if name in _JSON_COLUMNS:
        return stored_json(value)
    return _ENUMS[name](value) if name in _ENUMS else value


def _to_column(name: str, value: Any) -> Any:
    if name in _JSON_COLUMNS and value is not None:
        return to_json(value).decode()
    return value.value if name in _ENUMS else value


@cache
def _update(names: tuple[str, ...]) -> DialectStatement:
    """Build the update of some columns; cached because the same few combinations recur."""
    sets = ", ".join(f"{name} = :{name}" for name in names)
    return dialect_statement(f"UPDATE engine_report SET {sets} WHERE pk = :pk")  # noqa: S608  # a table's own names
