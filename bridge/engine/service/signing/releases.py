"""
Releases: signed reports and addenda that are due for delivery, from signing until their release.

A release is written in the transaction that causes it, and deleted by unsigning before it is due.
`release_due` runs on any node: each release happens once. Addenda are released in their order: a
later addendum, released early, ends the cooling periods of earlier ones. They could not be unsigned
any more, and receivers of results count the released addenda.
"""

from collections.abc import Callable, Sequence
from typing import Final

from sqlalchemy import BigInteger, Connection, bindparam, func, insert
from sqlalchemy import select as select_columns
from sqlmodel import col, select

from bridge.audit.events import AuditEvent
from bridge.engine.records.tables import Addendum, Report, ReportRelease, metadata
from bridge.engine.rules.lifecycle import ReleaseKind
from bridge.engine.service import change_feed
from bridge.engine.service.report_lookup import key_of, mark_updated
from bridge.engine.service.report_status import ReportContext
from bridge.engine.service.report_transitions import addenda_of, signed_addenda
from bridge.engine.service.work import ActorRef, ChangeEvent, Work, transaction
from bridge.store.database import Database
from bridge.store.errors import StoreUnavailable

RELEASES = metadata.tables[str(ReportRelease.__tablename__)]

_NEXT_SEQUENCE: Final = (
    select_columns(func.coalesce(func.max(RELEASES.c.sequence), 0) + 1)
    .where(RELEASES.c.report_pk == bindparam("report"), RELEASES.c.kind == bindparam("of_kind"))
    .scalar_subquery()
)
_INSERT: Final = (
    insert(RELEASES)
    .values(sequence=func.coalesce(bindparam("number", type_=BigInteger), _NEXT_SEQUENCE))
    .returning(RELEASES.c.sequence)
)
_NEXT_DUE = select_columns(func.min(RELEASES.c.due_at)).where(RELEASES.c.released_at.is_(None))

_EVENTS = {
    ReleaseKind.FINAL: ChangeEvent.REPORT_FINALIZED,
    ReleaseKind.ADDENDUM: ChangeEvent.ADDENDUM_FINALIZED,
    ReleaseKind.RETRACTION: ChangeEvent.ADDENDUM_RETRACTED,
}


def schedule(
    work: Work,
    report: Report,
    kind: ReleaseKind,
    *,
    due_at: int | None = None,
    addendum: Addendum | None = None,
    context: ReportContext | None = None,
) -> None:
    """
    Schedule a release at a moment, or release at once (`due_at` None).

    The sequence of an addendum's release is the number of the addendum. `context` must be from this
    transaction.
    """
    report_pk = key_of(report)
    values = {
        "report_pk": report_pk,
        "addendum_pk": addendum.pk if addendum else None,
        "kind": kind,
        "due_at": work.now if due_at is None else due_at,
        "released_at": work.now if due_at is None else None,
        "number": addendum.number if addendum else None,
        "report": report_pk,
        "of_kind": kind,
    }
    sequence = work.connection.execute(_INSERT, values).scalar_one()
    if due_at is None:
        _announce(work, report, kind, sequence, addendum, context)


def _release(work: Work, report: Report, release: ReportRelease) -> None:
    addendum = release.addendum_pk and work.session.get(Addendum, release.addendum_pk)
    release.released_at = work.now
    work.session.add(release)
    _announce(work, report, release.kind, release.sequence, addendum or None)


def _announce(
    work: Work,
    report: Report,
    kind: ReleaseKind,
    sequence: int,
    addendum: Addendum | None,
    context: ReportContext | None = None,
) -> None:
    """Announce a release, and end the cooling period."""
    more: dict[str, int] = {}
    if addendum is not None:
        signed = [row.pk for row in signed_addenda(addenda_of(work, report))]
        more["addenda"] = signed.index(addendum.pk) + 1  # its position in the export
    if kind is ReleaseKind.FINAL:
        report.cooling_until = None
    if kind is ReleaseKind.ADDENDUM and addendum is not None:
        addendum.cooling_until = None
        addendum.released_at = work.now
        work.session.add(addendum)
    mark_updated(work, report)
    release = {"kind": kind.value, "sequence": sequence}
    work.audit(
        AuditEvent(
            "release",
            report.site_id,
            report.report_id,
            work.actor.account_id,
            work.actor.token_id,
            details=release,
        )
    )
    change_feed.announce(work, report, _EVENTS[kind], release=release, context=context, **more)


def pending(work: Work, report: Report, addendum: Addendum | None = None) -> list[ReportRelease]:
    query = select(ReportRelease).where(
        ReportRelease.report_pk == key_of(report), col(ReportRelease.released_at).is_(None)
    )
    if addendum is not None:
        query = query.where(ReportRelease.addendum_pk == addendum.pk)
    return list(work.session.exec(query.order_by(col(ReportRelease.pk))))


def release_now(work: Work, report: Report, kind: ReleaseKind = ReleaseKind.FINAL) -> None:
    """Release the report, or all its signed addenda, before they are due."""
    for release in pending(work, report):
        if release.kind is kind:
            _release(work, report, release)


def delete_pending(work: Work, report: Report, addendum: Addendum | None = None) -> None:
    """Delete the pending releases of the whole report, or of one addendum."""
    for release in pending(work, report, addendum):
        work.session.delete(release)
    work.session.flush()


def next_due(connection: Connection) -> int | None:
    """Return when the next release is due, in milliseconds; None if none is pending."""
    found: int | None = connection.execute(_NEXT_DUE).scalar_one()
    return found


def _fail(error: Exception) -> None:
    raise error


def release_due(
    database: Database,
    now: int,
    limit: int = 100,
    on_error: Callable[[Exception], object] = _fail,
) -> int:
    """
    Release the due reports and addenda of at most `limit` reports; return the number of releases.

    Each report has its own transaction. A report that another transaction has locked is left for
    the next run, and so is one that fails with an error that `on_error` accepts.
    """
    with database.read() as connection:
        query = (
            select_columns(RELEASES.c.report_pk, func.min(RELEASES.c.due_at).label("due"))
            .where(RELEASES.c.released_at.is_(None), RELEASES.c.due_at <= now)
            .group_by(RELEASES.c.report_pk)
            .order_by("due")
            .limit(limit)
        )
        keys = [row.report_pk for row in connection.execute(query)]
    released = 0
    for key in keys:
        try:
            released += _release_report(database, key, now)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  # the other reports must be released
            on_error(error)
    return released


def _release_report(database: Database, report_pk: int, now: int) -> int:
    with transaction(database, ActorRef(), now) as work:
        report = work.session.exec(
            select(Report).where(Report.pk == report_pk).with_for_update(skip_locked=True)
        ).first()
        if report is None:
            return 0
        due = _due(pending(work, report), now)
        for release in due:
            _release(work, report, release)
        return len(due)


def _due(waiting: Sequence[ReportRelease], now: int) -> list[ReportRelease]:
    newest = max(
        (
            release.sequence
            for release in waiting
            if _is_addendum(release) and release.due_at <= now
        ),
        default=0,
    )
    return [
        release
        for release in waiting
        if release.due_at <= now or (_is_addendum(release) and release.sequence < newest)
    ]


def _is_addendum(release: ReportRelease) -> bool:
    return release.kind is ReleaseKind.ADDENDUM
