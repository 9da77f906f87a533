"""
Launch: create or retrieve a report, and give out its link (interface document, launch).

Takes many launches in one transaction and answers each on its own: a refused one
leaves nothing behind. Links are returned as handles; addresses and QR codes are HTTP's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from sqlmodel import select

from bridge.engine.errors import EngineError, RuleBroken
from bridge.engine.launching.errors import BadLaunch
from bridge.engine.launching.outcome import Caution, Launched, launch_status
from bridge.engine.launching.request import LaunchRequest
from bridge.engine.links import Purpose, handle_hash
from bridge.engine.records.tables import Account, Report
from bridge.engine.rules.identity import Triple, link_target
from bridge.engine.rules.status import Status
from bridge.engine.service import following, links
from bridge.engine.service.audit import Deed, Outcome
from bridge.engine.service.caller import Caller
from bridge.engine.service.finding import current_triple, find_orders, lock_orders
from bridge.engine.service.ordering import Registered, Registration, register_many
from bridge.engine.service.patients import update_patient
from bridge.engine.service.people import Launcher, People
from bridge.engine.service.reading import reports_by_key
from bridge.engine.service.starting import (
    begin,
    bring,
    give,
    has_template,
    known_names,
    order_input,
    refuse_other_name,
)
from bridge.engine.service.work import Work
from bridge.engine.settings import Lifetimes


@dataclass(frozen=True, slots=True)
class Desk:
    """What launches need besides the transaction: who asks, keys, and how long links live."""

    caller: Caller
    vault: links.Vault
    lifetimes: Lifetimes


@dataclass(frozen=True, slots=True)
class _Ready:
    """A launch that was carried out, before its link was issued."""

    outcome: Launched
    launcher: Launcher
    request: LaunchRequest
    creates: bool


def launch_all(
    work: Work, desk: Desk, requests: Sequence[LaunchRequest]
) -> list[Launched | EngineError]:
    """Carry out launches in their order; return an outcome or a refusal for each."""
    people = People(work.connection, desk.caller, work.now)
    ready: list[_Ready | EngineError] = []
    for (bulk, _), run in groupby(requests, key=_kind):
        members = list(run)
        ready += _register_run(work, people, members) if bulk else _each(work, people, members)
    done = [each for each in ready if isinstance(each, _Ready)]
    new = [_link(work, desk, people, each) for each in done]
    handles = iter(links.issue(work.connection, desk.vault, new, work.now))
    linked = iter(zip(new, handles, strict=True))
    return [
        _given_out(work, each, *next(linked)) if isinstance(each, _Ready) else each
        for each in ready
    ]


def launch_one(work: Work, desk: Desk, request: LaunchRequest) -> Launched:
    """Carry out one launch, or raise its refusal."""
    people = People(work.connection, desk.caller, work.now)
    bulk, _ = _kind(request)
    ready = _register_run(work, people, [request])[0] if bulk else _carry_out(work, people, request)
    if isinstance(ready, EngineError):
        raise ready
    new = _link(work, desk, people, ready)
    handle = links.issue(work.connection, desk.vault, [new], work.now)[0]
    return _given_out(work, ready, new, handle)


def deeds_of(
    desk: Desk,
    requests: Sequence[LaunchRequest],
    outcomes: Sequence[Launched | EngineError],
    origin: Mapping[str, str],
) -> list[Deed]:
    """Return what the audit trail says about launches: who launched, and what was refused why."""
    return [
        Deed(
            "launch",
            request.triple.site_id,
            outcome.report_id if isinstance(outcome, Launched) else None,
            desk.caller.account_id,
            desk.caller.token_id,
            Outcome.SUCCESS if isinstance(outcome, Launched) else Outcome.REFUSED,
            {**_kind_of(request, outcome), **origin},
        )
        for request, outcome in zip(requests, outcomes, strict=True)
    ]


def _kind_of(request: LaunchRequest, outcome: Launched | EngineError) -> dict[str, Any]:
    kind = {"lazy": request.lazy, "registers": request.register_order}
    return kind if isinstance(outcome, Launched) else {**kind, "code": outcome.code}


def _kind(request: LaunchRequest) -> tuple[bool, str]:
    """Tell registrations of one site, which go together, from launches that go one by one."""
    bulk = request.register_order and not request.force_name and not request.attachments
    return (bulk, request.triple.site_id if bulk else "")


def _each(
    work: Work, people: People, requests: Sequence[LaunchRequest]
) -> list[_Ready | EngineError]:
    return [_attempt(work, people, request) for request in requests]


def _attempt(work: Work, people: People, request: LaunchRequest) -> _Ready | EngineError:
    announced = len(work.announced)
    try:
        with work.session.begin_nested():
            return _carry_out(work, people, request)
    except EngineError as refusal:
        del work.announced[announced:]
        people.forget()  # whom it registered is not there any more
        work.session.expire_all()
        return refusal


def _register_run(
    work: Work, people: People, requests: Sequence[LaunchRequest]
) -> list[_Ready | EngineError]:
    """Register many orders of one site with few statements; one by one where a rule forbids it."""
    try:
        site_id = requests[0].triple.site_id
        names = known_names(work, site_id, (each.triple.mrn for each in requests))
        admitted = [_admit(people, names, request) for request in requests]
        accepted = [each for each in admitted if isinstance(each, tuple)]
        inputs = [order_input(request, request.triple) for request, _ in accepted]
        registered = iter(register_many(work, site_id, inputs) if inputs else [])
    except RuleBroken:
        return _each(work, people, requests)
    return [
        _registered(work, *each, next(registered)) if isinstance(each, tuple) else each
        for each in admitted
    ]


def _admit(
    people: People, names: dict[str, set[str]], request: LaunchRequest
) -> tuple[LaunchRequest, Launcher] | EngineError:
    try:
        launcher = people.launcher(request)
        known = names.setdefault(request.triple.mrn, set())
        refuse_other_name(known, request)
    except EngineError as refusal:
        return refusal
    if request.patient_name:
        known.add(request.patient_name)
    return request, launcher


def _registered(
    work: Work, request: LaunchRequest, launcher: Launcher, registered: Registered
) -> _Ready:
    signed = registered.outcome is Registration.SIGNED
    warnings = _template_warnings(work, request) + ((Caution.REPORT_SIGNED,) if signed else ())
    owner = None
    if registered.status is not Status.ORDERED:
        query = select(Report).where(Report.report_id == registered.report_id)
        report = work.session.exec(query).one()
        owner = _owner(work, report, launcher)
    outcome = Launched(
        launch_status(registered.status, lazy=True),
        registered.status,
        registered.report_id,
        owner,
        warnings=warnings,
    )
    return _Ready(outcome, launcher, request, creates=False)


def _carry_out(work: Work, people: People, request: LaunchRequest) -> _Ready:
    launcher = people.launcher(request)
    triple = current_triple(work.connection, request.triple)
    names = known_names(work, triple.site_id, [triple.mrn])
    refuse_other_name(names.get(triple.mrn, ()), request)
    if request.force_name:
        changed = {"PatientName": request.patient_name}
        update_patient(work, triple.site_id, triple.mrn, changed)
    if request.register_order:
        done = register_many(work, triple.site_id, [order_input(request, triple)])[0]
        return _registered(work, request, launcher, done)
    report = _peek(work, triple) if request.lazy else _open(work, launcher, request, triple)
    status = report.status if report else None
    outcome = Launched(
        launch_status(status, lazy=request.lazy),
        status,
        report.report_id if report else None,
        _owner(work, report, launcher) if report else None,
        warnings=_template_warnings(work, request),
    )
    return _Ready(outcome, launcher, request, creates=request.lazy)


def _peek(work: Work, triple: Triple) -> Report | None:
    """Find the report of a lazy launch; nothing changes until its link is opened."""
    order = find_orders(work.session, [triple], current=True).get(triple)
    if order is None:
        return None
    return reports_by_key(work.session, [order.report_pk])[order.report_pk]


def _open(work: Work, launcher: Launcher, request: LaunchRequest, triple: Triple) -> Report:
    if launcher.account is None:
        detail = "the token belongs to no user: UserEmail says whose report it is"
        raise BadLaunch("missing_user", detail, pointer="/userInfo/UserEmail")
    found = lock_orders(work, [triple], current=True)[0]
    if found is None:
        return begin(work, request, triple, launcher.account)
    bring(work, found.report, found.order, request)
    if found.report.status is Status.ORDERED:
        give(work, found.report, launcher.account.id)
    return found.report


def _owner(work: Work, report: Report, launcher: Launcher) -> tuple[str, str] | None:
    mine = launcher.account
    if mine is not None and report.owner_id == mine.id:
        return mine.name, mine.email
    account = None if report.owner_id is None else work.session.get(Account, report.owner_id)
    return None if account is None else (account.name, account.email)


def _template_warnings(work: Work, request: LaunchRequest) -> tuple[Caution, ...]:
    number = request.app.template
    if number is None or has_template(work, request.triple.site_id, number):
        return ()
    return (Caution.UNKNOWN_TEMPLATE,)


def _link(work: Work, desk: Desk, people: People, ready: _Ready) -> links.NewLink:
    """Describe the link: a lazy launch is kept in it whole, any other only points to its report."""
    launcher, request = ready.launcher, ready.request
    acting, others = people.lifetimes(request.triple.site_id, desk.lifetimes)
    seconds = acting if launcher.authenticated else others
    content = request if ready.creates else request.pointer()
    payload = {
        "launch": content.to_json(),
        "creates": ready.creates,
        "authenticated": launcher.authenticated,
    }
    if request.app.sync_launch and launcher.account and not request.register_order:
        site_id, account_id = request.triple.site_id, launcher.account.id
        payload["sync_sequence"] = following.reserve(work.connection, site_id, account_id, work.now)
    return links.NewLink(
        Purpose.LAUNCH,
        request.triple.site_id,
        work.now + seconds * 1000,
        payload,
        target=link_target(request.triple),
        account_id=launcher.account.id if launcher.account else None,
        token_id=desk.caller.token_id,
        framed=launcher.framed,
    )


def _given_out(work: Work, ready: _Ready, link: links.NewLink, handle: str) -> Launched:
    """Return the outcome with its link; the user's persistent window is to follow it."""
    sequence = int(link.payload.get("sync_sequence", 0))
    if not sequence or link.account_id is None:
        return replace(ready.outcome, handle=handle)
    target = following.NewTarget(
        link.site_id,
        link.account_id,
        sequence,
        handle_hash(handle),
        ready.outcome.report_id,
        ready.request.triple.accession,
    )
    awaited = following.aim(work.connection, target, work.now)
    return replace(ready.outcome, handle=handle, awaited=awaited)
