"""
Launches: create or find reports and issue links.

A single launch is a list of one. Consecutive launches of one kind and site share statements; the
result is that of executing them one after the other, and a refused launch has no effect. Links are
returned as handles; HTTP makes URLs and QR codes.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from sqlmodel import select

from bridge.audit.events import AuditEvent, Outcome
from bridge.contract import SIGNED, OrderKey, ReportStatus
from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.launch import LaunchInput, LaunchOutcome, LaunchWarning, launch_status
from bridge.engine.links import Purpose, handle_hash
from bridge.engine.records.tables import Report
from bridge.engine.rules.order import link_target
from bridge.engine.service.accounts.users import SiteUser, find_user
from bridge.engine.service.caller import Caller
from bridge.engine.service.launch import links
from bridge.engine.service.launch.launch_users import LaunchGrant, LaunchUsers
from bridge.engine.service.launch.registration import (
    RegisteredOrder,
    Registration,
    register_orders,
)
from bridge.engine.service.launch.report_updates import (
    NewDraft,
    add_files,
    assign_report,
    create_drafts,
    has_template,
    known_names,
    merge_launch,
    order_input,
    require_matching_name,
    require_same_person,
)
from bridge.engine.service.live import windows
from bridge.engine.service.report_lookup import (
    current_report_keys,
    follow_pointers,
    key_of,
    lock_orders,
    lock_patients,
    lock_report,
)
from bridge.engine.service.report_status import reports_by_key
from bridge.engine.service.reports.files import has_new, screen_launch, warnings_about
from bridge.engine.service.reports.patients import update_patient
from bridge.engine.service.work import Work
from bridge.engine.settings import AccessLifetimes


@dataclass(frozen=True, slots=True)
class LaunchContext:
    """The caller, the keys of links, and the lifetimes of links and sessions."""

    caller: Caller
    link_keys: links.LinkKeys
    lifetimes: AccessLifetimes


@dataclass(frozen=True, slots=True)
class _AdmittedLaunch:
    """A permitted launch, with its user and the current identity of its order."""

    request: LaunchInput
    grant: LaunchGrant
    identity: OrderKey
    group: str


@dataclass(frozen=True, slots=True)
class ExecutedLaunch:
    """An executed launch, before its link is issued; `creates`: the link may create the report."""

    outcome: LaunchOutcome
    grant: LaunchGrant
    request: LaunchInput
    creates: bool


def launch_all(
    work: Work, context: LaunchContext, requests: Sequence[LaunchInput]
) -> list[LaunchOutcome | EngineError]:
    """Execute launches in their order; return an outcome or an error for each."""
    users = LaunchUsers(work.connection, context.caller, work.now)
    executed = execute_all(work, users, requests)
    done = [launch for launch in executed if isinstance(launch, ExecutedLaunch)]
    new = [_link(work, context, users, launch) for launch in done]
    handles = iter(links.issue(work.connection, context.link_keys, new, work.now))
    linked = iter(zip(new, handles, strict=True))
    return [
        _with_link(work, launch, *next(linked)) if isinstance(launch, ExecutedLaunch) else launch
        for launch in executed
    ]


def audit_events_of(
    context: LaunchContext,
    requests: Sequence[LaunchInput],
    outcomes: Sequence[LaunchOutcome | EngineError],
    origin: Mapping[str, str],
) -> list[AuditEvent]:
    """Return the audit events of launches, with the reason of each refusal."""
    return [
        AuditEvent(
            "launch",
            request.identity.site,
            outcome.report_id if isinstance(outcome, LaunchOutcome) else None,
            context.caller.account_id,
            context.caller.token_id,
            Outcome.SUCCESS if isinstance(outcome, LaunchOutcome) else Outcome.REFUSED,
            {**_audit_details(request, outcome), **origin},
        )
        for request, outcome in zip(requests, outcomes, strict=True)
    ]


def _audit_details(request: LaunchInput, outcome: LaunchOutcome | EngineError) -> dict[str, Any]:
    kind: dict[str, Any] = {"lazy": request.lazy, "registers": request.register_order}
    if request.link_group:
        kind["linkGroup"] = request.link_group
    if not isinstance(outcome, LaunchOutcome):
        return {**kind, "code": outcome.code}
    files = [warning.audit_members() for warning in outcome.file_warnings]
    return {**kind, "warnings": files} if files else kind


def execute_all(
    work: Work, users: LaunchUsers, requests: Sequence[LaunchInput]
) -> list[ExecutedLaunch | EngineError]:
    """Execute launches in their order, without links; a refused one has no effect."""
    _lock_patients(work, requests)
    executed: list[ExecutedLaunch | EngineError] = []
    for _, run in groupby(requests, key=_kind):
        executed += _execute_run(work, users, list(run))
    return executed


def _lock_patients(work: Work, requests: Iterable[LaunchInput]) -> None:
    """Lock all patients of all runs at once, in one order, before anything is read."""
    patients: dict[str, list[str]] = {}
    for request in requests:
        patients.setdefault(request.identity.site, []).append(request.identity.mrn)
    for site_id in sorted(patients):
        lock_patients(work, site_id, patients[site_id])


def _kind(request: LaunchInput) -> Hashable:
    """Return what launches that share statements have in common."""
    if request.force_name or request.attachments:
        return id(request)  # renames a patient or has files: shares with none
    return request.identity.site, request.lazy, request.register_order


def _execute_run(
    work: Work, users: LaunchUsers, requests: Sequence[LaunchInput]
) -> list[ExecutedLaunch | EngineError]:
    """Execute launches of one kind together or, if that fails, one by one."""
    try:
        with work.savepoint():
            return _execute_together(work, users, requests)
    except EngineError as error:
        users.forget()  # the rollback removed users that the run had registered
        if len(requests) == 1:
            return [error]
    return [launch for request in requests for launch in _execute_run(work, users, [request])]


def _execute_together(
    work: Work, users: LaunchUsers, requests: Sequence[LaunchInput]
) -> list[ExecutedLaunch | EngineError]:
    known_users = users.user_count
    outcomes = _admit_all(work, users, requests)
    admitted = [launch for launch in outcomes if isinstance(launch, _AdmittedLaunch)]
    refusals = [error for error in outcomes if isinstance(error, EngineError)]
    if refusals and users.user_count > known_users:
        raise refusals[0]  # a refused launch must not register a user
    executed = iter(_apply(work, admitted) if admitted else [])
    return [error if isinstance(error, EngineError) else next(executed) for error in outcomes]


def _admit_all(
    work: Work, users: LaunchUsers, requests: Sequence[LaunchInput]
) -> list[_AdmittedLaunch | EngineError]:
    """Check launches of one site; nothing about a patient is read without permission."""
    site_id = requests[0].identity.site
    refused: dict[int, EngineError] = {}
    granted: dict[int, LaunchGrant] = {}
    for position, request in enumerate(requests):
        try:
            granted[position] = users.grant(request)
        except EngineError as error:
            refused[position] = error
    mrns = {requests[position].identity.mrn for position in granted}
    pointers = follow_pointers(work.connection, site_id, mrns)
    names = known_names(work, site_id, {pointers.get(mrn, mrn) for mrn in mrns})
    admitted: dict[int, _AdmittedLaunch] = {}
    for position, grant in granted.items():
        request = requests[position]
        mrn = pointers.get(request.identity.mrn, request.identity.mrn)
        identity = OrderKey(site_id, mrn, request.identity.accession)
        try:
            admitted[position] = _admit(
                work, users, names.setdefault(mrn, set()), grant, request, identity
            )
        except EngineError as error:
            refused[position] = error
    return [admitted.get(position) or refused[position] for position in range(len(requests))]


def _admit(
    work: Work,
    users: LaunchUsers,
    names: set[str],
    grant: LaunchGrant,
    request: LaunchInput,
    identity: OrderKey,
) -> _AdmittedLaunch:
    """Check a launch; `names` are those of its patient, in the database and in earlier launches."""
    request = screen_launch(work, request, identity)
    require_matching_name(names, request)
    require_same_person(work, request, identity)
    if not request.lazy:
        _require_owner(grant)
    if request.patient_name:
        names.add(request.patient_name)
    group = request.link_group if users.links_orders(identity.site) else ""
    return _AdmittedLaunch(request, grant, identity, group)


def _require_owner(grant: LaunchGrant) -> SiteUser:
    """Return the user of a launch; raise if neither the token nor UserEmail names one."""
    if grant.account is None:
        detail = "the token belongs to no user: UserEmail is required to name the report's user"
        raise EngineError(ErrorCode.MISSING_USER, detail, pointer="/userInfo/UserEmail")
    return grant.account


def _apply(work: Work, launches: Sequence[_AdmittedLaunch]) -> list[ExecutedLaunch]:
    for launch in launches:
        if launch.request.force_name:
            changed = {"PatientName": launch.request.patient_name}
            update_patient(work, launch.identity.site, launch.identity.mrn, changed)
    if launches[0].request.register_order:
        return _register(work, launches)
    return _find(work, launches) if launches[0].request.lazy else _open(work, launches)


def _register(work: Work, launches: Sequence[_AdmittedLaunch]) -> list[ExecutedLaunch]:
    orders = [order_input(launch.request, launch.identity) for launch in launches]
    identities = [launch.identity for launch in launches]
    registered = register_orders(work, identities, orders, [launch.group for launch in launches])
    return [
        _registered(work, launch, order) for launch, order in zip(launches, registered, strict=True)
    ]


def _registered(work: Work, launch: _AdmittedLaunch, order: RegisteredOrder) -> ExecutedLaunch:
    signed = order.outcome is Registration.SIGNED
    if launch.request.attachments and not signed:
        found = lock_report(work, launch.identity)
        add_files(work, found.report, found.order, launch.request)
    report = None
    if order.status is not ReportStatus.ORDERED:
        query = select(Report).where(Report.report_id == order.report_id)
        report = work.session.exec(query).one()
    warnings = (LaunchWarning.REPORT_SIGNED,) if signed else ()
    return _executed(work, launch, order.status, order.report_id, report, warnings)


def _find(work: Work, launches: Sequence[_AdmittedLaunch]) -> list[ExecutedLaunch]:
    """Find the reports of lazy launches; nothing changes until their links are opened."""
    keys = current_report_keys(work.connection, [launch.identity for launch in launches])
    reports = reports_by_key(work.session, sorted(set(keys.values()))) if keys else {}
    return [
        _of_report(work, launch, reports.get(keys.get(launch.identity, 0))) for launch in launches
    ]


def _open(work: Work, launches: Sequence[_AdmittedLaunch]) -> list[ExecutedLaunch]:
    """Create the Drafts of eager launches together, and merge launches of existing reports."""
    known = current_report_keys(work.connection, [launch.identity for launch in launches])
    first = {launch.identity: launch for launch in reversed(launches)}
    new = [
        launch
        for launch in launches
        if launch.identity not in known and first[launch.identity] is launch
    ]
    drafts = [
        NewDraft(launch.request, launch.identity, _require_owner(launch.grant)) for launch in new
    ]
    created = iter(create_drafts(work, drafts))
    is_new = {id(launch) for launch in new}
    return [
        _of_report(work, launch, next(created) if id(launch) in is_new else _merge(work, launch))
        for launch in launches
    ]


def _merge(work: Work, launch: _AdmittedLaunch) -> Report:
    """Merge an eager launch into the existing report; an order becomes the user's Draft."""
    found = lock_orders(work, [launch.identity], current=True)[0]
    if found is None:
        raise EngineError(ErrorCode.CHANGED)
    merge_launch(work, found.report, found.order, launch.request)
    if found.report.status is ReportStatus.ORDERED:
        assign_report(work, found.report, _require_owner(launch.grant).id)
    return found.report


def _of_report(work: Work, launch: _AdmittedLaunch, report: Report | None) -> ExecutedLaunch:
    if report is None:
        return _executed(work, launch, None, None, None)
    return _executed(work, launch, report.status, report.report_id, report)


def _executed(
    work: Work,
    launch: _AdmittedLaunch,
    status: ReportStatus | None,
    report_id: str | None,
    report: Report | None,
    warnings: tuple[LaunchWarning, ...] = (),
) -> ExecutedLaunch:
    request, grant = launch.request, launch.grant
    outcome = LaunchOutcome(
        launch_status(status, lazy=request.lazy),
        status,
        report_id,
        _owner(work, report, grant) if report else None,
        warnings=(
            *_request_warnings(work, request, grant),
            *warnings,
            *_file_warnings(work, request, report),
        ),
        file_warnings=warnings_about(request.attachments),
    )
    return ExecutedLaunch(outcome, grant, request, request.lazy and not request.register_order)


def _request_warnings(
    work: Work, request: LaunchInput, grant: LaunchGrant
) -> Iterable[LaunchWarning]:
    number = request.app.template
    if number is not None and not has_template(work, request.identity.site, number):
        yield LaunchWarning.UNKNOWN_TEMPLATE
    if grant.auth_ignored:
        yield LaunchWarning.AUTH_IGNORED


def _file_warnings(
    work: Work, request: LaunchInput, report: Report | None
) -> Iterable[LaunchWarning]:
    files = request.attachments
    yield from dict.fromkeys(file.warning for file in warnings_about(files))
    if files and report and report.status in SIGNED and has_new(work, key_of(report), files):
        yield LaunchWarning.FILES_NOT_ADDED


def _owner(work: Work, report: Report, grant: LaunchGrant) -> tuple[str, str] | None:
    user = grant.account
    if user is not None and report.owner_id == user.id:
        return user.name, user.email
    if report.owner_id is None:
        return None
    owner = find_user(work.connection, report.site_id, report.owner_id)
    return None if owner is None else (owner.name, owner.email)


def _link(
    work: Work, context: LaunchContext, users: LaunchUsers, executed: ExecutedLaunch
) -> links.NewLink:
    grant, request = executed.grant, executed.request
    acting, others = users.lifetimes(request.identity.site, context.lifetimes)
    seconds = acting if grant.authenticated else others
    content = request if executed.creates else request.without_content()
    payload = {
        "launch": content.to_json(),
        "creates": executed.creates,
        "authenticated": grant.authenticated,
    }
    if request.app.sync_launch and grant.account and not request.register_order:
        site_id, account_id = request.identity.site, grant.account.id
        payload["sync_sequence"] = windows.reserve_sequence(
            work.connection, site_id, account_id, work.now
        )
    return links.NewLink(
        Purpose.LAUNCH,
        request.identity.site,
        work.now + seconds * 1000,
        payload,
        target=link_target(request.identity),
        account_id=grant.account.id if grant.account else None,
        token_id=context.caller.token_id,
        framed=grant.framed,
        authority_token_id=grant.authority,
    )


def _with_link(
    work: Work, executed: ExecutedLaunch, link: links.NewLink, handle: str
) -> LaunchOutcome:
    sequence = int(link.payload.get("sync_sequence", 0))
    if not sequence or link.account_id is None:
        return replace(executed.outcome, handle=handle)
    target = windows.NewTarget(
        link.site_id,
        link.account_id,
        sequence,
        handle_hash(handle),
        executed.outcome.report_id,
        executed.request.identity.accession,
    )
    awaited = windows.set_target(work.connection, target, work.now)
    return replace(executed.outcome, handle=handle, awaited=awaited)
