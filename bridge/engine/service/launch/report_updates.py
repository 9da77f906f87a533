"""
Applies launches to reports, and changes their owners (interface reference, States and transitions).

The reports are locked by the caller or have just been created. Eager launches and first openings of
links share these functions. The app asks the user before a transfer; the functions are called after
the user has confirmed.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import Select, bindparam
from sqlmodel import col, select

from bridge.contract import SIGNED, OrderKey, ReportStatus
from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.launch import LaunchInput
from bridge.engine.records.tables import Report, ReportOrder, Template, metadata
from bridge.engine.rules.lifecycle import FileKind, LifecycleEvent, ReportOrigin
from bridge.engine.rules.patients import names_conflict, unambiguous_date
from bridge.engine.service import change_feed
from bridge.engine.service.accounts.users import SiteUser
from bridge.engine.service.launch.registration import (
    NewReport,
    OrderInput,
    create_reports,
    first_text_of,
    join_texts,
    update_order,
    write_first_text,
)
from bridge.engine.service.report_lookup import bump_version, key_of, lock_report, orders_of
from bridge.engine.service.report_status import has_content
from bridge.engine.service.report_transitions import apply_event, clear
from bridge.engine.service.reports.files import (
    announce_files,
    attach,
    groups_in,
    initial_text,
    measurement_groups,
    refresh_findings,
    warnings_about,
)
from bridge.engine.service.signing.prelims import may_own
from bridge.engine.service.work import ChangeEvent, Work
from bridge.store.columns import one_of


def needs_transfer(report: Report, account_id: int) -> bool:
    """True if opening needs a confirmation: the Draft has another owner."""
    return report.status is ReportStatus.DRAFT and report.owner_id not in (None, account_id)


def open_for(work: Work, report: Report, account_id: int, *, untouched: bool = False) -> Report:
    """
    Open a locked report for a user, who becomes the owner if the report is unsigned.

    `untouched`: a page opens it, and an order returns to the worklist if nothing is written.

    An Ordered report becomes the user's Draft. A Preliminary report gets a new owner only if its
    reader or a reviewer opens it. A signed report does not change.
    """
    old_owner, old_status = report.owner_id, report.status
    if old_status in SIGNED:
        return report
    if not untouched:  # assigned on purpose
        report.untouched_since = None
        work.session.add(report)
    if old_status is not ReportStatus.ORDERED and old_owner == account_id:
        return report
    if not may_own(work, report, account_id):
        return report
    apply_event(work, report, LifecycleEvent.OPEN)
    report.owner_id = account_id
    report.lease_holder = report.lease_until = None
    if old_status is ReportStatus.ORDERED:
        report.untouched_since = work.now if untouched else None
        refresh_findings(work, report)
    transferred = old_status is ReportStatus.DRAFT and old_owner is not None
    event = ChangeEvent.REPORT_TRANSFERRED if transferred else ChangeEvent.REPORT_OPENED
    change_feed.announce(work, report, event)
    return report


def unassign(work: Work, identity: OrderKey) -> Report:
    """Return a Draft to the worklist; its content stays."""
    return unassign_report(work, lock_report(work, identity).report)


def unassign_report(work: Work, report: Report) -> Report:
    """Return a locked Draft to the worklist; its content stays."""
    clear(work, report, apply_event(work, report, LifecycleEvent.UNASSIGN))
    change_feed.announce(work, report, ChangeEvent.REPORT_UNASSIGNED)
    return report


ORDERS = metadata.tables[str(ReportOrder.__tablename__)]


def _values_of_patients(tag: str) -> Select[Any]:
    """Build the query for the values that a site has stored for a tag of some patients."""
    return (
        select(ORDERS.c.mrn, ORDERS.c.tags[tag].as_string())
        .distinct()
        .where(
            ORDERS.c.site_id == bindparam("site_id"),
            one_of(ORDERS.c.mrn, "mrns"),
        )
    )


_NAMES: Final = _values_of_patients("PatientName")
_BIRTH_DATES: Final = _values_of_patients("PatientBirthDate")


def order_input(request: LaunchInput, identity: OrderKey) -> OrderInput:
    """Return the order of a launch, under the current patient identifier."""
    return OrderInput(
        mrn=identity.mrn,
        accession=identity.accession,
        location=request.location,
        tags=dict(request.tags) | dict.fromkeys(request.cleared, ""),
        metadata=request.metadata or {},
        reporting=request.app.to_json(),
    )


def known_names(work: Work, site_id: str, mrns: Iterable[str]) -> dict[str, set[str]]:
    """Return the PatientNames that a site has stored for each of these identifiers."""
    found: dict[str, set[str]] = {}
    values = {"site_id": site_id, "mrns": set(mrns)}
    for mrn, name in work.connection.execute(_NAMES, values):
        if name:
            found.setdefault(mrn, set()).add(name)
    return found


def require_matching_name(names: Iterable[str], request: LaunchInput) -> None:
    """Raise `patient_name_mismatch` if the launch contradicts a stored name."""
    if request.force_name or not request.patient_name:
        return
    if any(names_conflict(known, request.patient_name) for known in names):
        raise EngineError(ErrorCode.PATIENT_NAME_MISMATCH, pointer="/clinicalInfo/PatientName")


def require_same_person(work: Work, request: LaunchInput, identity: OrderKey) -> None:
    """
    Raise `patient_name_mismatch` if a merged identifier is launched with another date of birth.

    `identity` is under the current identifier. The merge may have joined two people.
    """
    born = unambiguous_date(str(request.tags.get("PatientBirthDate", "")))
    if identity.mrn == request.identity.mrn or born is None:
        return
    values = {"site_id": identity.site, "mrns": [identity.mrn]}
    rows = work.connection.execute(_BIRTH_DATES, values)
    known = {day for _, text in rows if (day := unambiguous_date(text or ""))}
    if known and born not in known:
        raise EngineError(ErrorCode.PATIENT_NAME_MISMATCH, pointer="/clinicalInfo/PatientBirthDate")


def keep_newer_name(names: Collection[str], request: LaunchInput) -> LaunchInput:
    """
    Return a launch whose link is opened, with the stored name if that is newer.

    A launch that forces a name has renamed the patient already. Other names were stored later.
    """
    if not request.force_name or not names or request.patient_name in names:
        return request
    return replace(request, tags={**request.tags, "PatientName": min(names)})


@dataclass(frozen=True, slots=True)
class NewDraft:
    """A launch that creates the Draft of a user; `identity` is the current one of its order."""

    request: LaunchInput
    identity: OrderKey
    owner: SiteUser


def create_drafts(work: Work, drafts: Sequence[NewDraft]) -> list[Report]:
    """Create Drafts with the data of their launches."""
    ids = create_reports(work, [_new_report(work, draft) for draft in drafts])
    query = select(Report).where(col(Report.report_id).in_(ids))
    reports = {report.report_id: report for report in work.session.exec(query)} if ids else {}
    for draft, report_id in zip(drafts, ids, strict=True):
        if files := draft.request.attachments:
            report = reports[report_id]
            attach(work, report, files, orders_of(work.session, key_of(report))[0])
    return [reports[report_id] for report_id in ids]


def _new_report(work: Work, draft: NewDraft) -> NewReport:
    request, owner = draft.request, draft.owner
    order = order_input(request, draft.identity)
    details = [
        file.details for file in request.attachments if file.kind is FileKind.STRUCTURED_REPORT
    ]
    text = join_texts(request.key_findings, *(str(file.get("text", "")) for file in details))
    first = first_text_of(
        work.connection, draft.identity.site, order.reporting, text, groups_in(details)
    )
    return NewReport(
        draft.identity, order, ReportStatus.DRAFT, ReportOrigin.LAUNCH, owner.id, owner.email, first
    )


def merge_launch(work: Work, report: Report, order: ReportOrder, request: LaunchInput) -> None:
    """
    Merge a launch into a locked report.

    Non-empty values replace stored ones. A signed report does not change. Key findings are used
    only while the report has no content.
    """
    if report.status in SIGNED:
        return
    identity = OrderKey(order.site_id, order.mrn, order.accession)
    update_order(work, report, order, order_input(request, identity))
    options = {**report.reporting, **request.app.to_json()}
    if options != report.reporting:
        report.reporting = options
        bump_version(work, report)
    add_files(work, report, order, request)
    if report.status is not ReportStatus.ORDERED and fill_empty_report(work, report):
        bump_version(work, report)
        change_feed.announce(work, report, ChangeEvent.REPORT_CONTENT_UPDATED)


def add_files(work: Work, report: Report, order: ReportOrder, request: LaunchInput) -> None:
    """Add the files of a launch to a locked, unsigned report."""
    if request.attachments and attach(work, report, request.attachments, order):
        bump_version(work, report)
        announce_files(work, report, warnings_about(request.attachments))


def assign_report(work: Work, report: Report, owner_id: int, *, untouched: bool = False) -> Report:
    """Open a locked report for a user, with its initial text if it has none."""
    if report.status not in SIGNED and may_own(work, report, owner_id):
        fill_empty_report(work, report)
    return open_for(work, report, owner_id, untouched=untouched)


def fill_empty_report(work: Work, report: Report) -> bool:
    """Write key findings and SR texts into an empty report; return whether text was written."""
    if has_content(report):
        return False
    text, groups = initial_text(work, report), measurement_groups(work, key_of(report))
    return write_first_text(work, report, text, groups)


def has_template(work: Work, site_id: str, number: int) -> bool:
    query = select(Template.id).where(Template.site_id == site_id, Template.number == number)
    return work.session.exec(query).first() is not None
