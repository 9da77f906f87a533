"""
Launch: create or retrieve a report, and give out its link (interface document, launch).

Takes many launches in one transaction and answers each on its own: a refused one
leaves nothing behind. Links are returned as handles; addresses and QR codes are HTTP's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bridge.audit.events import AuditEvent, Outcome
from bridge.engine.errors import EngineError
from bridge.engine.launching.outcome import Launched
from bridge.engine.launching.request import LaunchRequest
from bridge.engine.links import Purpose, handle_hash
from bridge.engine.rules.identity import link_target
from bridge.engine.service import following, links
from bridge.engine.service.caller import Caller
from bridge.engine.service.carrying import Ready
from bridge.engine.service.people import People
from bridge.engine.service.runs import carry_out_all, carry_out_one
from bridge.engine.service.work import Work
from bridge.engine.settings import Lifetimes


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


def _given_out(work: Work, ready: Ready, link: links.NewLink, handle: str) -> Launched:
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
