"""Carry out one launch: what becomes of its report, and what its answer says of it.

Gives out no link, and takes launches one by one; those that go together are in `service.runs`.
"""

from dataclasses import dataclass

from sqlmodel import select

from bridge.engine.launching.errors import BadLaunch
from bridge.engine.launching.outcome import Caution, Launched, launch_status
from bridge.engine.launching.request import LaunchRequest
from bridge.engine.records.tables import Report
from bridge.engine.rules.identity import Triple
from bridge.engine.rules.status import SIGNED, FileKind, Status
from bridge.engine.service.accounts.users import Person, find_person
from bridge.engine.service.launch.people import Launcher, People
from bridge.engine.service.launch.registration import Registered, Registration, register_current
from bridge.engine.service.launch.starting import (
    begin,
    bring,
    bring_files,
    give,
    has_template,
    known_names,
    order_input,
    refuse_other_name,
)
from bridge.engine.service.report_lookup import (
    current_triple,
    find_orders,
    key_of,
    lock_orders,
    lock_report,
)
from bridge.engine.service.report_status import reports_by_key
from bridge.engine.service.reports.files import has_new, separate, set_aside
from bridge.engine.service.reports.patients import update_patient
from bridge.engine.service.work import Work


@dataclass(frozen=True, slots=True)
class Ready:
    """A launch that was carried out, before its link is issued."""

    outcome: Launched
    launcher: Launcher
    request: LaunchRequest
    creates: bool = False


def carry_out(work: Work, people: People, request: LaunchRequest) -> Ready:
    """Carry out one launch of any kind, or raise its refusal."""
    launcher = people.launcher(request)
    triple = current_triple(work.connection, request.triple)
    request = separate(work, request, triple)
    names = known_names(work, triple.site_id, [triple.mrn])
    refuse_other_name(names.get(triple.mrn, ()), request)
    if request.force_name:
        changed = {"PatientName": request.patient_name}
        update_patient(work, triple.site_id, triple.mrn, changed)
    if request.register_order:
        done = register_current(work, [triple], [order_input(request, triple)])[0]
        if request.attachments and done.outcome is not Registration.SIGNED:
            found = lock_report(work, triple)
            bring_files(work, found.report, found.order, request)
        return registered(work, request, launcher, done)
    report = _peek(work, triple) if request.lazy else open_report(work, launcher, request, triple)
    return launched(work, request, launcher, report)


def launched(
    work: Work, request: LaunchRequest, launcher: Launcher, report: Report | None
) -> Ready:
    """Return what a launch says of the report that it found or made; None is none yet."""
    status = report.status if report else None
    outcome = Launched(
        launch_status(status, lazy=request.lazy),
        status,
        report.report_id if report else None,
        _owner(work, report, launcher) if report else None,
        warnings=warnings_of(work, request, launcher) + file_warnings(work, request, report),
        set_aside=set_aside(request.attachments),
    )
    return Ready(outcome, launcher, request, creates=request.lazy)


def registered(work: Work, request: LaunchRequest, launcher: Launcher, done: Registered) -> Ready:
    """Return what a launch says of the order that it registered."""
    signed = done.outcome is Registration.SIGNED
    warnings = warnings_of(work, request, launcher) + ((Caution.REPORT_SIGNED,) if signed else ())
    owner = report = None
    if done.status is not Status.ORDERED:
        query = select(Report).where(Report.report_id == done.report_id)
        report = work.session.exec(query).one()
        owner = _owner(work, report, launcher)
    outcome = Launched(
        launch_status(done.status, lazy=True),
        done.status,
        done.report_id,
        owner,
        warnings=warnings + file_warnings(work, request, report),
        set_aside=set_aside(request.attachments),
    )
    return Ready(outcome, launcher, request)


def owner_to_be(launcher: Launcher) -> Person:
    """Return whose report a launch opens; raise where the token is nobody's and names nobody."""
    if launcher.account is None:
        detail = "the token belongs to no user: UserEmail says whose report it is"
        raise BadLaunch("missing_user", detail, pointer="/userInfo/UserEmail")
    return launcher.account


def warnings_of(work: Work, request: LaunchRequest, launcher: Launcher) -> tuple[Caution, ...]:
    """Return what a launch asks for or brings in vain: a missing template, a useless token."""
    number = request.app.template
    found = number is None or has_template(work, request.triple.site_id, number)
    template = () if found else (Caution.UNKNOWN_TEMPLATE,)
    return (*template, Caution.AUTH_IGNORED) if launcher.auth_ignored else template


def file_warnings(work: Work, request: LaunchRequest, report: Report | None) -> tuple[Caution, ...]:
    """Return the cautions about the files of a launch that its report does not show."""
    files = request.attachments
    if not files:
        return ()
    aside = any(each.kind is FileKind.SET_ASIDE for each in files)
    missing = (
        report is not None and report.status in SIGNED and has_new(work, key_of(report), files)
    )
    cautions = ((aside, Caution.SR_OTHER_PATIENT), (missing, Caution.FILES_NOT_ADDED))
    return tuple(caution for applies, caution in cautions if applies)


def _peek(work: Work, triple: Triple) -> Report | None:
    """Find the report of a lazy launch; nothing changes until its link is opened."""
    order = find_orders(work.session, [triple], current=True).get(triple)
    if order is None:
        return None
    return reports_by_key(work.session, [order.report_pk])[order.report_pk]


def open_report(work: Work, launcher: Launcher, request: LaunchRequest, triple: Triple) -> Report:
    """Create the report of an eager launch, or bring the launch into the one there is."""
    owner = owner_to_be(launcher)
    found = lock_orders(work, [triple], current=True)[0]
    if found is None:
        return begin(work, request, triple, owner)
    bring(work, found.report, found.order, request)
    if found.report.status is Status.ORDERED:
        give(work, found.report, owner.id)
    return found.report


def _owner(work: Work, report: Report, launcher: Launcher) -> tuple[str, str] | None:
    mine = launcher.account
    if mine is not None and report.owner_id == mine.id:
        return mine.name, mine.email
    if report.owner_id is None:
        return None
    owner = find_person(work.connection, report.site_id, report.owner_id)
    return None if owner is None else (owner.name, owner.email)
