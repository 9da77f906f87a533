"""Launches: create or retrieve reports and give out links, with few statements for many launches.

Comes to what each launch one after the other would come to. Where a rule makes one of them
differ, the run is undone and they go one by one.

Takes many launches in one transaction and answers each on its own: a refused one
leaves nothing behind. Links are returned as handles; addresses and QR codes are HTTP's.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import Any, Final

from bridge.audit.events import AuditEvent, Outcome
from bridge.engine.errors import EngineError
from bridge.engine.launch.outcome import LaunchOutcome, launch_status
from bridge.engine.launch.request import LaunchRequest
from bridge.engine.links import Purpose, handle_hash
from bridge.engine.rules.identity import OrderId, link_target
from bridge.engine.rules.status import ReportOrigin, Status
from bridge.engine.service.caller import Caller
from bridge.engine.service.launch import links
from bridge.engine.service.launch.creation import NewReport, create_many
from bridge.engine.service.launch.first_text import first_text_of
from bridge.engine.service.launch.launch_users import LaunchGrant, LaunchUsers
from bridge.engine.service.launch.registration import register_current
from bridge.engine.service.launch.report_updates import (
    known_names,
    order_input,
    require_matching_name,
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
from bridge.engine.service.live import sync_launch
from bridge.engine.service.report_lookup import current_report_keys, follow_pointers, lock_patients
from bridge.engine.service.report_status import reports_by_key
from bridge.engine.service.work import Work
from bridge.engine.settings import Lifetimes


class LaunchKind(StrEnum):
    """What launches of a run have in common."""

    REGISTER = "register"
    LAZY = "lazy"
    EAGER = "eager"
    DETACHED = "alone"  # changes other orders' names, or brings files


@dataclass(frozen=True, slots=True)
class _Admitted:
    """A launch that may go on: for whom, and under which identifier."""

    request: LaunchRequest
    launcher: LaunchGrant
    identity: OrderId
    group: str = ""


class BatchRefused(Exception):  # noqa: N818  # named for what to do
    """These launches cannot go together."""


def execute_one(work: Work, people: LaunchUsers, request: LaunchRequest) -> ExecutedLaunch:
    """Carry out one launch, or raise its refusal, after which nothing may be kept."""
    _lock_patients(work, [request])
    if _kind(request)[0] is LaunchKind.DETACHED:
        return execute(work, people, request)
    try:
        ready = _together(work, people, [request])[0]
    except BatchRefused:
        return execute(work, people, request)
    if isinstance(ready, EngineError):
        raise ready
    return ready


def execute_all(
    work: Work, people: LaunchUsers, requests: Sequence[LaunchRequest], *, at_once: bool = False
) -> list[ExecutedLaunch | EngineError]:
    """
    Carry out launches in their order; a refused one leaves nothing behind.

    With `at_once` no savepoint is set for those that nearly always go together; where they do not,
    OneByOne is raised, after which nothing may be kept.
    """
    _lock_patients(work, requests)
    ready: list[ExecutedLaunch | EngineError] = []
    for (kind, _), run in groupby(requests, key=_kind):
        members = list(run)
        if kind is LaunchKind.DETACHED:
            ready += [_attempt(work, people, each) for each in members]
        elif at_once:
            ready += _at_once(work, people, members)
        else:
            ready += _attempt_together(work, people, members)
    return ready


def _lock_patients(work: Work, requests: Iterable[LaunchRequest]) -> None:
    """Lock all patients of all runs at once, in one order, before anything is read of them."""
    patients: dict[str, list[str]] = {}
    for request in requests:
        patients.setdefault(request.identity.site_id, []).append(request.identity.mrn)
    for site_id in sorted(patients):
        lock_patients(work, site_id, patients[site_id])


def _kind(request: LaunchRequest) -> tuple[LaunchKind, str]:
    if request.force_name or request.attachments:
        return LaunchKind.DETACHED, ""
    if request.register_order:
        return LaunchKind.REGISTER, request.identity.site_id
    return LaunchKind.LAZY if request.lazy else LaunchKind.EAGER, request.identity.site_id


def _attempt(
    work: Work, people: LaunchUsers, request: LaunchRequest
) -> ExecutedLaunch | EngineError:
    try:
        with work.savepoint():
            return execute(work, people, request)
    except EngineError as refusal:
        people.forget()  # whom it registered is not there any more
        return refusal


def _attempt_together(
    work: Work, people: LaunchUsers, requests: Sequence[LaunchRequest]
) -> list[ExecutedLaunch | EngineError]:
    try:
        with work.savepoint():
            return _together(work, people, requests)
    except (EngineError, BatchRefused):
        people.forget()
        return [_attempt(work, people, each) for each in requests]


def _at_once(
    work: Work, people: LaunchUsers, requests: Sequence[LaunchRequest]
) -> list[ExecutedLaunch | EngineError]:
    try:
        return _together(work, people, requests)
    except EngineError:
        raise BatchRefused from None


def _together(
    work: Work, people: LaunchUsers, requests: Sequence[LaunchRequest]
) -> list[ExecutedLaunch | EngineError]:
    site_id = requests[0].identity.site_id
    met = people.met
    outcomes = _admit_all(work, people, site_id, requests)
    admitted = [each for each in outcomes if isinstance(each, _Admitted)]
    if len(admitted) < len(requests) and people.met > met:
        raise BatchRefused  # whom a refused launch has registered must not stay
    ready = iter(_RUNS[_kind(requests[0])[0]](work, admitted) if admitted else [])
    return [each if isinstance(each, EngineError) else next(ready) for each in outcomes]


def _admit_all(
    work: Work, people: LaunchUsers, site_id: str, requests: Sequence[LaunchRequest]
) -> list[_Admitted | EngineError]:
    try:
        people.role(site_id)
    except EngineError as refusal:
        return [refusal] * len(requests)
    mrns = {each.identity.mrn for each in requests}
    pointers = follow_pointers(work.connection, site_id, mrns)
    names = known_names(work, site_id, {pointers.get(mrn, mrn) for mrn in mrns})
    outcomes: list[_Admitted | EngineError] = []
    for request in requests:
        mrn = pointers.get(request.identity.mrn, request.identity.mrn)
        identity = OrderId(site_id, mrn, request.identity.accession)
        try:
            outcomes.append(_admit(people, names.setdefault(mrn, set()), request, identity))
        except EngineError as refusal:
            outcomes.append(refusal)
    return outcomes


def _admit(
    people: LaunchUsers, names: set[str], request: LaunchRequest, identity: OrderId
) -> _Admitted:
    launcher = people.launcher(request)
    require_matching_name(names, request)
    if not request.lazy:
        require_owner(launcher)
    if request.patient_name:
        names.add(request.patient_name)
    group = request.link_group if people.links_orders(identity.site_id) else ""
    return _Admitted(request, launcher, identity, group)


def _register(work: Work, run: Sequence[_Admitted]) -> list[ExecutedLaunch]:
    inputs = [order_input(each.request, each.identity) for each in run]
    done = register_current(work, _triples(run), inputs, [each.group for each in run])
    return [
        registration_result(work, each.request, each.launcher, one)
        for each, one in zip(run, done, strict=True)
    ]


def _look(work: Work, run: Sequence[_Admitted]) -> list[ExecutedLaunch]:
    """Find the reports of lazy launches; nothing changes until their links are opened."""
    keys = current_report_keys(work.connection, _triples(run))
    reports = reports_by_key(work.session, sorted(set(keys.values()))) if keys else {}
    return [
        launch_result(work, each.request, each.launcher, reports.get(keys.get(each.identity, 0)))
        for each in run
    ]


def _open_all(work: Work, run: Sequence[_Admitted]) -> list[ExecutedLaunch]:
    """Create the Drafts of eager launches together, and open what there is already."""
    keys = current_report_keys(work.connection, _triples(run))
    first = {each.identity: each for each in reversed(run) if each.identity not in keys}
    fresh = [each for each in run if first.get(each.identity) is each]
    ids = iter(create_many(work, [_draft(work, each) for each in fresh]))
    new = {id(each) for each in fresh}
    return [
        _drafted(work, each, next(ids)) if id(each) in new else _opened(work, each) for each in run
    ]


def _opened(work: Work, each: _Admitted) -> ExecutedLaunch:
    report = open_report(work, each.launcher, each.request, each.identity)
    return launch_result(work, each.request, each.launcher, report)


def _draft(work: Work, each: _Admitted) -> NewReport:
    owner = require_owner(each.launcher)
    order = order_input(each.request, each.identity)
    text = each.request.key_findings.strip()
    first = first_text_of(work.connection, each.identity.site_id, order.reporting, text)
    return NewReport(
        each.identity, order, Status.DRAFT, ReportOrigin.LAUNCH, owner.id, owner.email, first
    )


def _drafted(work: Work, each: _Admitted, report_id: str) -> ExecutedLaunch:
    owner = require_owner(each.launcher)
    outcome = LaunchOutcome(
        launch_status(Status.DRAFT, lazy=False),
        Status.DRAFT,
        report_id,
        (owner.name, owner.email),
        warnings=warnings_of(work, each.request, each.launcher),
    )
    return ExecutedLaunch(outcome, each.launcher, each.request)


def _triples(run: Iterable[_Admitted]) -> list[OrderId]:
    return [each.identity for each in run]


_RUNS: Final[dict[LaunchKind, Callable[[Work, Sequence[_Admitted]], list[ExecutedLaunch]]]] = {
    LaunchKind.REGISTER: _register,
    LaunchKind.LAZY: _look,
    LaunchKind.EAGER: _open_all,
}


@dataclass(frozen=True, slots=True)
class LaunchContext:
    """What launches need besides the transaction: who asks, keys, and how long links live."""

    caller: Caller
    vault: links.LinkKeys
    lifetimes: Lifetimes


def launch_all(
    work: Work, desk: LaunchContext, requests: Sequence[LaunchRequest], *, at_once: bool = False
) -> list[LaunchOutcome | EngineError]:
    """
    Carry out launches in their order; return an outcome or a refusal for each.

    `at_once` is as for `carry_out_all`: it may raise OneByOne.
    """
    people = LaunchUsers(work.connection, desk.caller, work.now)
    ready = execute_all(work, people, requests, at_once=at_once)
    done = [each for each in ready if isinstance(each, ExecutedLaunch)]
    new = [_link(work, desk, people, each) for each in done]
    handles = iter(links.issue(work.connection, desk.vault, new, work.now))
    linked = iter(zip(new, handles, strict=True))
    return [
        _given_out(work, each, *next(linked)) if isinstance(each, ExecutedLaunch) else each
        for each in ready
    ]


def launch_one(work: Work, desk: LaunchContext, request: LaunchRequest) -> LaunchOutcome:
    """Carry out one launch, or raise its refusal."""
    people = LaunchUsers(work.connection, desk.caller, work.now)
    ready = execute_one(work, people, request)
    new = _link(work, desk, people, ready)
    handle = links.issue(work.connection, desk.vault, [new], work.now)[0]
    return _given_out(work, ready, new, handle)


def audit_events_of(
    desk: LaunchContext,
    requests: Sequence[LaunchRequest],
    outcomes: Sequence[LaunchOutcome | EngineError],
    origin: Mapping[str, str],
) -> list[AuditEvent]:
    """Return what the audit trail says about launches: who launched, and what was refused why."""
    return [
        AuditEvent(
            "launch",
            request.identity.site_id,
            outcome.report_id if isinstance(outcome, LaunchOutcome) else None,
            desk.caller.account_id,
            desk.caller.token_id,
            Outcome.SUCCESS if isinstance(outcome, LaunchOutcome) else Outcome.REFUSED,
            {**_kind_of(request, outcome), **origin},
        )
        for request, outcome in zip(requests, outcomes, strict=True)
    ]


def _kind_of(request: LaunchRequest, outcome: LaunchOutcome | EngineError) -> dict[str, Any]:
    kind: dict[str, Any] = {"lazy": request.lazy, "registers": request.register_order}
    if request.link_group:
        kind["linkGroup"] = request.link_group
    return kind if isinstance(outcome, LaunchOutcome) else {**kind, "code": outcome.code}


def _link(
    work: Work, desk: LaunchContext, people: LaunchUsers, ready: ExecutedLaunch
) -> links.NewLink:
    """Describe the link: a lazy launch is kept in it whole, any other only points to its report."""
    launcher, request = ready.launcher, ready.request
    acting, others = people.lifetimes(request.identity.site_id, desk.lifetimes)
    seconds = acting if launcher.authenticated else others
    content = request if ready.creates else request.pointer()
    payload = {
        "launch": content.to_json(),
        "creates": ready.creates,
        "authenticated": launcher.authenticated,
    }
    if request.app.sync_launch and launcher.account and not request.register_order:
        site_id, account_id = request.identity.site_id, launcher.account.id
        payload["sync_sequence"] = sync_launch.reserve(
            work.connection, site_id, account_id, work.now
        )
    return links.NewLink(
        Purpose.LAUNCH,
        request.identity.site_id,
        work.now + seconds * 1000,
        payload,
        target=link_target(request.identity),
        account_id=launcher.account.id if launcher.account else None,
        token_id=desk.caller.token_id,
        framed=launcher.framed,
    )


def _given_out(
    work: Work, ready: ExecutedLaunch, link: links.NewLink, handle: str
) -> LaunchOutcome:
    """Return the outcome with its link; the user's persistent window is to follow it."""
    sequence = int(link.payload.get("sync_sequence", 0))
    if not sequence or link.account_id is None:
        return replace(ready.outcome, handle=handle)
    target = sync_launch.NewTarget(
        link.site_id,
        link.account_id,
        sequence,
        handle_hash(handle),
        ready.outcome.report_id,
        ready.request.identity.accession,
    )
    awaited = sync_launch.set_target(work.connection, target, work.now)
    return replace(ready.outcome, handle=handle, awaited=awaited)
