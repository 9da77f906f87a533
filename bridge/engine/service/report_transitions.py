"""
Applies the state table to a locked report: collect the facts, decide, set the status.

The rule itself is `bridge.engine.rules.lifecycle`. The use cases of the endpoints are in the other
modules of this package.
"""

from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import bindparam, delete
from sqlalchemy import select as select_columns
from sqlmodel import col, select

from bridge.contract import ReportStatus
from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import (
    Account,
    Addendum,
    Billing,
    PrelimRead,
    Report,
    ReportFile,
    Share,
    SiteMembership,
)
from bridge.engine.rules.lifecycle import (
    AddendumState,
    ClearedPart,
    LifecycleEvent,
    ReportFact,
    ReportOrigin,
    Transition,
    decide,
)
from bridge.engine.rules.signing import is_cooling
from bridge.engine.rules.site_roles import ReportAction, SiteRole, permits
from bridge.engine.rules.text.document import from_text, to_json
from bridge.engine.service.report_lookup import bump_version, key_of
from bridge.engine.service.report_status import ReportContext, has_content
from bridge.engine.service.work import Work

# Built once: building a statement costs more than executing it.
_ADDENDA = (
    select(Addendum)
    .where(col(Addendum.report_pk) == bindparam("report"))
    .order_by(col(Addendum.number))
    .with_for_update()
    .execution_options(populate_existing=True)
)
_PERSON: Final = (
    select_columns(
        col(SiteMembership.name),
        col(SiteMembership.signature),
        col(SiteMembership.settings),
        col(SiteMembership.role),
        col(SiteMembership.left_at),
        col(Account.email),
        col(Account.disabled_at),
    )
    .join(Account, col(Account.id) == col(SiteMembership.account_id))
    .where(
        col(SiteMembership.site_id) == bindparam("site"),
        col(SiteMembership.account_id) == bindparam("account"),
    )
)
_PRELIM_READS = (
    select(PrelimRead)
    .where(col(PrelimRead.report_pk) == bindparam("report"))
    .order_by(col(PrelimRead.read_at), col(PrelimRead.pk))
)


def describe_person(work: Work, site_id: str, account_id: int | None) -> dict[str, Any]:
    """Return a person as a signature stores it: {name, email, signature[, text]}; '' if unknown."""
    return find_author(work, site_id, account_id)[0]


def find_author(
    work: Work, site_id: str, account_id: int | None
) -> tuple[dict[str, Any], SiteRole | None]:
    """Return a person with their role: None for a former member or a disabled account."""
    values = {"site": site_id, "account": account_id}
    found = work.connection.execute(_PERSON, values).first()
    if found is None:
        return {"name": "", "email": "", "signature": None}, None
    person = {"name": found.name, "email": found.email, "signature": found.signature}
    if text := str(found.settings.get("signatureText", "")):
        person["text"] = text
    is_active = found.left_at is None and found.disabled_at is None
    return person, SiteRole(found.role) if is_active else None


def require_author(
    work: Work, report: Report, account_id: int | None, action: ReportAction
) -> tuple[dict[str, Any], SiteRole]:
    """
    Return the person in whose name a report is signed or read, with the role.

    Raise `EngineError`.
    """
    person, role = find_author(work, report.site_id, account_id)
    if role is None or not permits(role, action, owner=account_id == report.owner_id):
        raise EngineError(ErrorCode(f"author_may_not_{action.value}"))
    return person, role


def document_json(row: Report | Addendum) -> dict[str, Any]:
    """Return the document as JSON; a report without a document gets one made of its plain text."""
    return row.document if row.document is not None else to_json(from_text(row.content_text))


def addenda_of(work: Work, report: Report) -> list[Addendum]:
    """Return a report's addenda, oldest first."""
    return list(work.session.exec(_ADDENDA, params={"report": key_of(report)}))


def signed_addenda(addenda: list[Addendum]) -> list[Addendum]:
    signed = [addendum for addendum in addenda if addendum.state is AddendumState.SIGNED]
    return sorted(signed, key=lambda addendum: (addendum.signed_at or 0, addendum.number))


def open_addendum(addenda: list[Addendum]) -> Addendum | None:
    """Return the newest addendum that is still a draft."""
    drafts = [addendum for addendum in addenda if addendum.state is AddendumState.DRAFT]
    return drafts[-1] if drafts else None


def prelim_reads(work: Work, report: Report) -> list[PrelimRead]:
    """Return a report's preliminary reads, oldest first."""
    return list(work.session.exec(_PRELIM_READS, params={"report": key_of(report)}))


def collect_facts(
    work: Work, report: Report, context: ReportContext, *, ignores_delay: bool = False
) -> frozenset[ReportFact]:
    """Return the facts that the state table needs; `context` must be from this transaction."""
    return frozenset(_facts(work, report, context, ignores_delay=ignores_delay))


def _facts(
    work: Work, report: Report, context: ReportContext, *, ignores_delay: bool
) -> Iterator[ReportFact]:
    if ignores_delay:
        yield ReportFact.IGNORES_DELAY
    if context.sign_delay > 0:
        yield ReportFact.SITE_HAS_DELAY
    if is_cooling(report.cooling_until, work.now):
        yield ReportFact.COOLING
    if report.origin is not ReportOrigin.LAUNCH:
        yield ReportFact.FROM_ORDER
    if has_content(report):
        yield ReportFact.CONTENT
    reads = prelim_reads(work, report) if context.has_prelims else []
    active = sum(read.withdrawn_at is None for read in reads)
    if active:
        yield ReportFact.PRELIM_READ
    if active > 1:
        yield ReportFact.OTHER_PRELIM_READ
    if context.has_addenda:
        yield from _addendum_facts(work, report)


def mark_registered(report: Report) -> None:
    """Note that a locked report has a registered order: a discarded Draft then stays an order."""
    if report.origin is ReportOrigin.LAUNCH:
        report.origin = ReportOrigin.ORDER


def keep_registration(report: Report, removed: Report) -> None:
    """Note that a locked report gets the orders of another one, which is then removed."""
    if removed.origin is not ReportOrigin.LAUNCH:
        mark_registered(report)


def _addendum_facts(work: Work, report: Report) -> Iterator[ReportFact]:
    addenda = addenda_of(work, report)
    if open_addendum(addenda):
        yield ReportFact.OPEN_ADDENDUM
    signed = signed_addenda(addenda)
    if not signed:
        return
    yield ReportFact.SIGNED_ADDENDUM
    if len(signed) > 1:
        yield ReportFact.OTHER_SIGNED_ADDENDUM
    if is_cooling(signed[-1].cooling_until, work.now):
        yield ReportFact.ADDENDUM_COOLING


def apply_event(
    work: Work, report: Report, event: LifecycleEvent, *, facts: frozenset[ReportFact] | None = None
) -> Transition:
    """
    Set the report's status by the state table; raise EngineError.

    `facts` are collected if they are not given. The caller applies the transition's `clears`, and
    deletes the report if its `to` is None.
    """
    if facts is None:
        facts = collect_facts(work, report, ReportContext.of(work.session, report, work.now))
    outcome = decide(report.status, event, facts)
    if isinstance(outcome, ErrorCode):
        raise EngineError(outcome)
    if outcome.to is not None:
        report.status = outcome.to
        if event is LifecycleEvent.SAVE or outcome.to is not ReportStatus.DRAFT:
            report.untouched_since = None
        bump_version(work, report)
    return outcome


def clear(work: Work, report: Report, transition: Transition) -> None:
    """Clear the owner and the content if the transition requires it."""
    if ClearedPart.OWNER in transition.clears:
        report.owner_id = None
        report.lease_holder = report.lease_until = None
    if ClearedPart.CONTENT in transition.clears:
        _clear_content(work, report)
    work.session.add(report)


def _clear_content(work: Work, report: Report) -> None:
    report.document = None
    report.content_text = report.key_findings = ""
    report.template_number = None
    report_pk = key_of(report)
    for read in prelim_reads(work, report):
        read.withdrawn_at = read.withdrawn_at or work.now
        work.session.add(read)
    for table in (ReportFile, Billing, Share):
        work.session.exec(delete(table).where(col(table.report_pk) == report_pk))
