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
from bridge.engine.launching.outcome import Launched, launch_status
from bridge.engine.launching.request import LaunchRequest
from bridge.engine.links import Purpose, handle_hash
from bridge.engine.rules.identity import Triple, link_target
from bridge.engine.rules.status import Origin, Status
from bridge.engine.service.caller import Caller
from bridge.engine.service.launch import links
from bridge.engine.service.launch.creation import NewReport, create_many
from bridge.engine.service.launch.first_text import first_text_of
from bridge.engine.service.launch.people import Launcher, People
from bridge.engine.service.launch.registration import register_current
from bridge.engine.service.launch.single_launch import (
    Ready,
    carry_out,
    launched,
    open_report,
    owner_to_be,
    registered,
    warnings_of,
)
from bridge.engine.service.launch.starting import known_names, order_input, refuse_other_name
from bridge.engine.service.live import sync_launch
from bridge.engine.service.report_lookup import follow_pointers, lock_patients, report_keys
from bridge.engine.service.report_status import reports_by_key
from bridge.engine.service.work import Work
from bridge.engine.settings import Lifetimes


class Kind(StrEnum):
    """What launches of a run have in common."""

    REGISTER = "register"
    LAZY = "lazy"
    EAGER = "eager"
    ALONE = "alone"  # changes other orders' names, or brings files


@dataclass(frozen=True, slots=True)
class _Admitted:
    """A launch that may go on: for whom, and under which identifier."""

    request: LaunchRequest
    launcher: Launcher
    triple: Triple
    group: str = ""


class OneByOne(Exception):  # noqa: N818  # named for what to do
    """These launches cannot go together."""


def carry_out_one(work: Work, people: People, request: LaunchRequest) -> Ready:
    """Carry out one launch, or raise its refusal, after which nothing may be kept."""
    _lock_patients(work, [request])
    if _kind(request)[0] is Kind.ALONE:
        return carry_out(work, people, request)
    try:
        ready = _together(work, people, [request])[0]
    except OneByOne:
        return carry_out(work, people, request)
    if isinstance(ready, EngineError):
        raise ready
    return ready


def carry_out_all(
    work: Work, people: People, requests: Sequence[LaunchRequest], *, at_once: bool = False
) -> list[Ready | EngineError]:
    """
    Carry out launches in their order; a refused one leaves nothing behind.

    With `at_once` no savepoint is set for those that nearly always go together; where they do not,
    OneByOne is raised, after which nothing may be kept.
    """
    _lock_patients(work, requests)
    ready: list[Ready | EngineError] = []
    for (kind, _), run in groupby(requests, key=_kind):
        members = list(run)
        if kind is Kind.ALONE:
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
        patients.setdefault(request.triple.site_id, []).append(request.triple.mrn)
    for site_id in sorted(patients):
        lock_patients(work, site_id, patients[site_id])


def _kind(request: LaunchRequest) -> tuple[Kind, str]:
    if request.force_name or request.attachments:
        return Kind.ALONE, ""
    if request.register_order:
        return Kind.REGISTER, request.triple.site_id
    return Kind.LAZY if request.lazy else Kind.EAGER, request.triple.site_id


def _attempt(work: Work, people: People, request: LaunchRequest) -> Ready | EngineError:
    try:
        with work.attempt():
            return carry_out(work, people, request)
    except EngineError as refusal:
        people.forget()  # whom it registered is not there any more
        return refusal


def _attempt_together(
    work: Work, people: People, requests: Sequence[LaunchRequest]
) -> list[Ready | EngineError]:
    try:
        with work.attempt():
            return _together(work, people, requests)
    except (EngineError, OneByOne):
        people.forget()
        return [_attempt(work, people, each) for each in requests]


def _at_once(
    work: Work, people: People, requests: Sequence[LaunchRequest]
) -> list[Ready | EngineError]:
    try:
        return _together(work, people, requests)
    except EngineError:
        raise OneByOne from None


def _together(
    work: Work, people: People, requests: Sequence[LaunchRequest]
) -> list[Ready | EngineError]:
    site_id = requests[0].triple.site_id
    met = people.met
    outcomes = _admit_all(work, people, site_id, requests)
    admitted = [each for each in outcomes if isinstance(each, _Admitted)]
    if len(admitted) < len(requests) and people.met > met:
        raise OneByOne  # whom a refused launch has registered must not stay
    ready = iter(_RUNS[_kind(requests[0])[0]](work, admitted) if admitted else [])
    return [each if isinstance(each, EngineError) else next(ready) for each in outcomes]


def _admit_all(
    work: Work, people: People, site_id: str, requests: Sequence[LaunchRequest]
) -> list[_Admitted | EngineError]:
    try:
        people.role(site_id)
    except EngineError as refusal:
        return [refusal] * len(requests)
    mrns = {each.triple.mrn for each in requests}
    pointers = follow_pointers(work.connection, site_id, mrns)
    names = known_names(work, site_id, {pointers.get(mrn, mrn) for mrn in mrns})
    outcomes: list[_Admitted | EngineError] = []
    for request in requests:
        mrn = pointers.get(request.triple.mrn, request.triple.mrn)
        triple = Triple(site_id, mrn, request.triple.accession)
        try:
            outcomes.append(_admit(people, names.setdefault(mrn, set()), request, triple))
        except EngineError as refusal:
            outcomes.append(refusal)
    return outcomes


def _admit(people: People, names: set[str], request: LaunchRequest, triple: Triple) -> _Admitted:
    launcher = people.launcher(request)
    refuse_other_name(names, request)
    if not request.lazy:
        owner_to_be(launcher)
    if request.patient_name:
        names.add(request.patient_name)
    group = request.link_group if people.links_orders(triple.site_id) else ""
    return _Admitted(request, launcher, triple, group)


def _register(work: Work, run: Sequence[_Admitted]) -> list[Ready]:
    inputs = [order_input(each.request, each.triple) for each in run]
    done = register_current(work, _triples(run), inputs, [each.group for each in run])
    return [
        registered(work, each.request, each.launcher, one)
        for each, one in zip(run, done, strict=True)
    ]


def _look(work: Work, run: Sequence[_Admitted]) -> list[Ready]:
    """Find the reports of lazy launches; nothing changes until their links are opened."""
    keys = report_keys(work.connection, _triples(run))
    reports = reports_by_key(work.session, sorted(set(keys.values()))) if keys else {}
    return [
        launched(work, each.request, each.launcher, reports.get(keys.get(each.triple, 0)))
        for each in run
    ]


def _open_all(work: Work, run: Sequence[_Admitted]) -> list[Ready]:
    """Create the Drafts of eager launches together, and open what there is already."""
    keys = report_keys(work.connection, _triples(run))
    first = {each.triple: each for each in reversed(run) if each.triple not in keys}
    fresh = [each for each in run if first.get(each.triple) is each]
    ids = iter(create_many(work, [_draft(work, each) for each in fresh]))
    new = {id(each) for each in fresh}
    return [
        _drafted(work, each, next(ids)) if id(each) in new else _opened(work, each) for each in run
    ]


def _opened(work: Work, each: _Admitted) -> Ready:
    report = open_report(work, each.launcher, each.request, each.triple)
    return launched(work, each.request, each.launcher, report)


def _draft(work: Work, each: _Admitted) -> NewReport:
    owner = owner_to_be(each.launcher)
    order = order_input(each.request, each.triple)
    text = each.request.key_findings.strip()
    first = first_text_of(work.connection, each.triple.site_id, order.reporting, text)
    return NewReport(each.triple, order, Status.DRAFT, Origin.LAUNCH, owner.id, owner.email, first)


def _drafted(work: Work, each: _Admitted, report_id: str) -> Ready:
    owner = owner_to_be(each.launcher)
    outcome = Launched(
        launch_status(Status.DRAFT, lazy=False),
        Status.DRAFT,
        report_id,
        (owner.name, owner.email),
        warnings=warnings_of(work, each.request, each.launcher),
    )
    return Ready(outcome, each.launcher, each.request)


def _triples(run: Iterable[_Admitted]) -> list[Triple]:
    return [each.triple for each in run]


_RUNS: Final[dict[Kind, Callable[[Work, Sequence[_Admitted]], list[Ready]]]] = {
    Kind.REGISTER: _register,
    Kind.LAZY: _look,
    Kind.EAGER: _open_all,
}


@dataclass(frozen=True, slots=True)
class Desk:
    """What launches need besides the transaction: who asks, keys, and how long links live."""

    caller: Caller
    vault: links.Vault
    lifetimes: Lifetimes


def launch_all(
    work: Work, desk: Desk, requests: Sequence[LaunchRequest], *, at_once: bool = False
) -> list[Launched | EngineError]:
    """
    Carry out launches in their order; return an outcome or a refusal for each.

    `at_once` is as for `carry_out_all`: it may raise OneByOne.
    """
    people = People(work.connection, desk.caller, work.now)
    ready = carry_out_all(work, people, requests, at_once=at_once)
    done = [each for each in ready if isinstance(each, Ready)]
    new = [_link(work, desk, people, each) for each in done]
    handles = iter(links.issue(work.connection, desk.vault, new, work.now))
    linked = iter(zip(new, handles, strict=True))
    return [
        _given_out(work, each, *next(linked)) if isinstance(each, Ready) else each for each in ready
    ]


def launch_one(work: Work, desk: Desk, request: LaunchRequest) -> Launched:
    """Carry out one launch, or raise its refusal."""
    people = People(work.connection, desk.caller, work.now)
    ready = carry_out_one(work, people, request)
    new = _link(work, desk, people, ready)
    handle = links.issue(work.connection, desk.vault, [new], work.now)[0]
    return _given_out(work, ready, new, handle)


def deeds_of(
    desk: Desk,
    requests: Sequence[LaunchRequest],
    outcomes: Sequence[Launched | EngineError],
    origin: Mapping[str, str],
) -> list[AuditEvent]:
    """Return what the audit trail says about launches: who launched, and what was refused why."""
    return [
        AuditEvent(
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
    kind: dict[str, Any] = {"lazy": request.lazy, "registers": request.register_order}
    if request.link_group:
        kind["linkGroup"] = request.link_group
    return kind if isinstance(outcome, Launched) else {**kind, "code": outcome.code}


def _link(work: Work, desk: Desk, people: People, ready: Ready) -> links.NewLink:
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
        payload["sync_sequence"] = sync_launch.reserve(
            work.connection, site_id, account_id, work.now
        )
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


def _given_out(work: Work, ready: Ready, link: links.NewLink, handle: str) -> Launched:
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
        ready.request.triple.accession,
    )
    awaited = sync_launch.aim(work.connection, target, work.now)
    return replace(ready.outcome, handle=handle, awaited=awaited)
