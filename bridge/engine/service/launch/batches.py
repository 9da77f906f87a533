"""
Batches of launches: executed with shared statements.

The result is that of executing the launches one after the other. If a rule makes one of them
differ, the batch is rolled back and executed one by one. Each launch has its own outcome: a refused
one has no effect.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Final

from bridge.engine.errors import EngineError
from bridge.engine.launch import LaunchInput, LaunchOutcome, launch_status
from bridge.engine.rules.lifecycle import ReportOrigin, Status
from bridge.engine.rules.order import OrderId
from bridge.engine.service.launch.creation import NewReport, create_many, first_text_of
from bridge.engine.service.launch.launch_users import LaunchGrant, LaunchUsers
from bridge.engine.service.launch.registration import register_current
from bridge.engine.service.launch.report_updates import (
    known_names,
    order_input,
    require_matching_name,
    require_same_person,
)
from bridge.engine.service.launch.single_launch import (
    ExecutedLaunch,
    execute,
    launch_result,
    open_report,
    registration_result,
    require_owner,
    warnings_of,
)
from bridge.engine.service.report_lookup import current_report_keys, follow_pointers, lock_patients
from bridge.engine.service.report_status import reports_by_key
from bridge.engine.service.work import Work


class LaunchKind(StrEnum):
    """The kind of launches that a run executes together."""

    REGISTER = "register"
    LAZY = "lazy"
    EAGER = "eager"
    ALONE = "alone"  # launches that rename a patient or have files run alone


@dataclass(frozen=True, slots=True)
class _AdmittedLaunch:
    """A permitted launch, with its user and the current identity of its order."""

    request: LaunchInput
    grant: LaunchGrant
    identity: OrderId
    group: str = ""


class BatchRefused(Exception):
    """These launches cannot share statements: execute them one by one."""


def execute_one(work: Work, users: LaunchUsers, request: LaunchInput) -> ExecutedLaunch:
    """Execute one launch, or raise its error, after which the caller must roll back."""
    _lock_patients(work, [request])
    if _kind(request)[0] is LaunchKind.ALONE:
        return execute(work, users, request)
    try:
        executed = _execute_together(work, users, [request])[0]
    except BatchRefused:
        return execute(work, users, request)
    if isinstance(executed, EngineError):
        raise executed
    return executed


def execute_all(
    work: Work,
    users: LaunchUsers,
    requests: Sequence[LaunchInput],
    *,
    without_savepoint: bool = False,
) -> list[ExecutedLaunch | EngineError]:
    """
    Execute launches in their order; a refused one has no effect.

    With `without_savepoint` no savepoint is set for launches that nearly always succeed together.
    If they do not, BatchRefused is raised, and the caller must roll back.
    """
    _lock_patients(work, requests)
    executed: list[ExecutedLaunch | EngineError] = []
    for (kind, _), run in groupby(requests, key=_kind):
        members = list(run)
        if kind is LaunchKind.ALONE:
            executed += [_attempt_one(work, users, each) for each in members]
        elif without_savepoint:
            executed += _without_savepoint(work, users, members)
        else:
            executed += _attempt_together(work, users, members)
    return executed


def _lock_patients(work: Work, requests: Iterable[LaunchInput]) -> None:
    """Lock all patients of all runs at once, in one order, before anything is read."""
    patients: dict[str, list[str]] = {}
    for request in requests:
        patients.setdefault(request.identity.site_id, []).append(request.identity.mrn)
    for site_id in sorted(patients):
        lock_patients(work, site_id, patients[site_id])


def _kind(request: LaunchInput) -> tuple[LaunchKind, str]:
    if request.force_name or request.attachments:
        return LaunchKind.ALONE, ""
    if request.register_order:
        return LaunchKind.REGISTER, request.identity.site_id
    return LaunchKind.LAZY if request.lazy else LaunchKind.EAGER, request.identity.site_id


def _attempt_one(
    work: Work, users: LaunchUsers, request: LaunchInput
) -> ExecutedLaunch | EngineError:
    try:
        with work.savepoint():
            return execute(work, users, request)
    except EngineError as error:
        users.forget()  # the rollback removed users that the run had registered
        return error


def _attempt_together(
    work: Work, users: LaunchUsers, requests: Sequence[LaunchInput]
) -> list[ExecutedLaunch | EngineError]:
    try:
        with work.savepoint():
            return _execute_together(work, users, requests)
    except (EngineError, BatchRefused):
        users.forget()
        return [_attempt_one(work, users, each) for each in requests]


def _without_savepoint(
    work: Work, users: LaunchUsers, requests: Sequence[LaunchInput]
) -> list[ExecutedLaunch | EngineError]:
    try:
        return _execute_together(work, users, requests)
    except EngineError:
        raise BatchRefused from None


def _execute_together(
    work: Work, users: LaunchUsers, requests: Sequence[LaunchInput]
) -> list[ExecutedLaunch | EngineError]:
    site_id = requests[0].identity.site_id
    known_users = users.user_count
    outcomes = _admit_all(work, users, site_id, requests)
    admitted = [each for each in outcomes if isinstance(each, _AdmittedLaunch)]
    if len(admitted) < len(requests) and users.user_count > known_users:
        raise BatchRefused  # a refused launch must not register a user
    executed = iter(_RUNS[_kind(requests[0])[0]](work, admitted) if admitted else [])
    return [each if isinstance(each, EngineError) else next(executed) for each in outcomes]


def _admit_all(
    work: Work, users: LaunchUsers, site_id: str, requests: Sequence[LaunchInput]
) -> list[_AdmittedLaunch | EngineError]:
    try:
        users.role(site_id)
    except EngineError as error:
        return [error] * len(requests)
    mrns = {each.identity.mrn for each in requests}
    pointers = follow_pointers(work.connection, site_id, mrns)
    names = known_names(work, site_id, {pointers.get(mrn, mrn) for mrn in mrns})
    outcomes: list[_AdmittedLaunch | EngineError] = []
    for request in requests:
        mrn = pointers.get(request.identity.mrn, request.identity.mrn)
        identity = OrderId(site_id, mrn, request.identity.accession)
        try:
            require_same_person(work, request, identity)
            outcomes.append(_admit(users, names.setdefault(mrn, set()), request, identity))
        except EngineError as error:
            outcomes.append(error)
    return outcomes


def _admit(
    users: LaunchUsers, names: set[str], request: LaunchInput, identity: OrderId
) -> _AdmittedLaunch:
    grant = users.grant(request)
    require_matching_name(names, request)
    if not request.lazy:
        require_owner(grant)
    if request.patient_name:
        names.add(request.patient_name)
    group = request.link_group if users.links_orders(identity.site_id) else ""
    return _AdmittedLaunch(request, grant, identity, group)


def _register(work: Work, run: Sequence[_AdmittedLaunch]) -> list[ExecutedLaunch]:
    inputs = [order_input(each.request, each.identity) for each in run]
    done = register_current(work, _order_ids(run), inputs, [each.group for each in run])
    return [
        registration_result(work, each.request, each.grant, one)
        for each, one in zip(run, done, strict=True)
    ]


def _find_reports(work: Work, run: Sequence[_AdmittedLaunch]) -> list[ExecutedLaunch]:
    """Find the reports of lazy launches; nothing changes until their links are opened."""
    keys = current_report_keys(work.connection, _order_ids(run))
    reports = reports_by_key(work.session, sorted(set(keys.values()))) if keys else {}
    return [
        launch_result(work, each.request, each.grant, reports.get(keys.get(each.identity, 0)))
        for each in run
    ]


def _open_all(work: Work, run: Sequence[_AdmittedLaunch]) -> list[ExecutedLaunch]:
    """Create the Drafts of eager launches together, and open existing reports."""
    keys = current_report_keys(work.connection, _order_ids(run))
    first = {each.identity: each for each in reversed(run) if each.identity not in keys}
    first_launches = [each for each in run if first.get(each.identity) is each]
    ids = iter(create_many(work, [_draft(work, each) for each in first_launches]))
    new = {id(each) for each in first_launches}
    return [
        _draft_result(work, each, next(ids)) if id(each) in new else _open_existing(work, each)
        for each in run
    ]


def _open_existing(work: Work, each: _AdmittedLaunch) -> ExecutedLaunch:
    report = open_report(work, each.grant, each.request, each.identity)
    return launch_result(work, each.request, each.grant, report)


def _draft(work: Work, each: _AdmittedLaunch) -> NewReport:
    owner = require_owner(each.grant)
    order = order_input(each.request, each.identity)
    text = each.request.key_findings.strip()
    first = first_text_of(work.connection, each.identity.site_id, order.reporting, text)
    return NewReport(
        each.identity, order, Status.DRAFT, ReportOrigin.LAUNCH, owner.id, owner.email, first
    )


def _draft_result(work: Work, each: _AdmittedLaunch, report_id: str) -> ExecutedLaunch:
    owner = require_owner(each.grant)
    outcome = LaunchOutcome(
        launch_status(Status.DRAFT, lazy=False),
        Status.DRAFT,
        report_id,
        (owner.name, owner.email),
        warnings=warnings_of(work, each.request, each.grant),
    )
    return ExecutedLaunch(outcome, each.grant, each.request)


def _order_ids(run: Iterable[_AdmittedLaunch]) -> list[OrderId]:
    return [each.identity for each in run]


_RUNS: Final[
    dict[LaunchKind, Callable[[Work, Sequence[_AdmittedLaunch]], list[ExecutedLaunch]]]
] = {LaunchKind.REGISTER: _register, LaunchKind.LAZY: _find_reports, LaunchKind.EAGER: _open_all}
