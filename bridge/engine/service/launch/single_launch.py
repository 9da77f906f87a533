"""
Executes one launch: what happens to its report, and the outcome.

It issues no link. Batches are in `batches`.
"""

from dataclasses import dataclass

from sqlmodel import select

from bridge.engine.errors import BadLaunch
from bridge.engine.launch import LaunchInput, LaunchOutcome, LaunchWarning, launch_status
from bridge.engine.records.tables import Report
from bridge.engine.rules.lifecycle import SIGNED, Status
from bridge.engine.rules.order import OrderId
from bridge.engine.service.accounts.users import SiteUser, find_user
from bridge.engine.service.launch.launch_users import LaunchGrant, LaunchUsers
from bridge.engine.service.launch.registration import (
    RegisteredOrder,
    Registration,
    register_current,
)
from bridge.engine.service.launch.report_updates import (
    add_files,
    assign_report,
    create_report,
    has_template,
    known_names,
    merge_launch,
    order_input,
    require_matching_name,
    require_same_person,
)
from bridge.engine.service.report_lookup import (
    current_identity,
    find_orders,
    key_of,
    lock_orders,
    lock_report,
)
from bridge.engine.service.report_status import reports_by_key
from bridge.engine.service.reports.file_screening import screen_launch, warnings_about
from bridge.engine.service.reports.files import has_new
from bridge.engine.service.reports.patients import update_patient
from bridge.engine.service.work import Work


@dataclass(frozen=True, slots=True)
class ExecutedLaunch:
    """An executed launch, before its link is issued; `creates`: the link may create the report."""

    outcome: LaunchOutcome
    grant: LaunchGrant
    request: LaunchInput
    creates: bool = False


def execute(work: Work, users: LaunchUsers, request: LaunchInput) -> ExecutedLaunch:
    """Execute one launch of any kind, or raise its error."""
    grant = users.grant(request)
    identity = current_identity(work.connection, request.identity)
    request = screen_launch(work, request, identity)
    names = known_names(work, identity.site_id, [identity.mrn])
    require_matching_name(names.get(identity.mrn, ()), request)
    require_same_person(work, request, identity)
    if request.force_name:
        changed = {"PatientName": request.patient_name}
        update_patient(work, identity.site_id, identity.mrn, changed)
    if request.register_order:
        done = register_current(work, [identity], [order_input(request, identity)])[0]
        if request.attachments and done.outcome is not Registration.SIGNED:
            found = lock_report(work, identity)
            add_files(work, found.report, found.order, request)
        return registration_result(work, request, grant, done)
    report = (
        _find_report(work, identity)
        if request.lazy
        else open_report(work, grant, request, identity)
    )
    return launch_result(work, request, grant, report)


def launch_result(
    work: Work, request: LaunchInput, grant: LaunchGrant, report: Report | None
) -> ExecutedLaunch:
    """Return the outcome of a launch; `report` is the one found or created, or None."""
    status = report.status if report else None
    outcome = LaunchOutcome(
        launch_status(status, lazy=request.lazy),
        status,
        report.report_id if report else None,
        _owner(work, report, grant) if report else None,
        warnings=warnings_of(work, request, grant) + file_warnings(work, request, report),
        file_warnings=warnings_about(request.attachments),
    )
    return ExecutedLaunch(outcome, grant, request, creates=request.lazy)


def registration_result(
    work: Work, request: LaunchInput, grant: LaunchGrant, done: RegisteredOrder
) -> ExecutedLaunch:
    signed = done.outcome is Registration.SIGNED
    warnings = warnings_of(work, request, grant) + (
        (LaunchWarning.REPORT_SIGNED,) if signed else ()
    )
    owner = report = None
    if done.status is not Status.ORDERED:
        query = select(Report).where(Report.report_id == done.report_id)
        report = work.session.exec(query).one()
        owner = _owner(work, report, grant)
    outcome = LaunchOutcome(
        launch_status(done.status, lazy=True),
        done.status,
        done.report_id,
        owner,
        warnings=warnings + file_warnings(work, request, report),
        file_warnings=warnings_about(request.attachments),
    )
    return ExecutedLaunch(outcome, grant, request)


def require_owner(grant: LaunchGrant) -> SiteUser:
    """Return the user of a launch; raise if neither the token nor UserEmail names one."""
    if grant.account is None:
        detail = "the token belongs to no user: UserEmail is required to name the report's user"
        raise BadLaunch("missing_user", detail, pointer="/userInfo/UserEmail")
    return grant.account


def warnings_of(work: Work, request: LaunchInput, grant: LaunchGrant) -> tuple[LaunchWarning, ...]:
    """Return the warnings of a launch: an unknown template, an ignored token."""
    number = request.app.template
    found = number is None or has_template(work, request.identity.site_id, number)
    template = () if found else (LaunchWarning.UNKNOWN_TEMPLATE,)
    return (*template, LaunchWarning.AUTH_IGNORED) if grant.auth_ignored else template


def file_warnings(
    work: Work, request: LaunchInput, report: Report | None
) -> tuple[LaunchWarning, ...]:
    files = request.attachments
    if not files:
        return ()
    found = dict.fromkeys(each.warning for each in warnings_about(files))
    if report is not None and report.status in SIGNED and has_new(work, key_of(report), files):
        found[LaunchWarning.FILES_NOT_ADDED] = None
    return tuple(found)


def _find_report(work: Work, identity: OrderId) -> Report | None:
    """Find the report of a lazy launch; nothing changes until its link is opened."""
    order = find_orders(work.session, [identity], current=True).get(identity)
    if order is None:
        return None
    return reports_by_key(work.session, [order.report_pk])[order.report_pk]


def open_report(work: Work, grant: LaunchGrant, request: LaunchInput, identity: OrderId) -> Report:
    """Create the report of an eager launch, or merge the launch into the existing report."""
    owner = require_owner(grant)
    found = lock_orders(work, [identity], current=True)[0]
    if found is None:
        return create_report(work, request, identity, owner)
    merge_launch(work, found.report, found.order, request)
    if found.report.status is Status.ORDERED:
        assign_report(work, found.report, owner.id)
    return found.report


def _owner(work: Work, report: Report, grant: LaunchGrant) -> tuple[str, str] | None:
    user = grant.account
    if user is not None and report.owner_id == user.id:
        return user.name, user.email
    if report.owner_id is None:
        return None
    owner = find_user(work.connection, report.site_id, report.owner_id)
    return None if owner is None else (owner.name, owner.email)
