"""
Launches: create or find reports and issue links.

Links are returned as handles; HTTP makes URLs and QR codes. Batches are executed in `batches`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bridge.audit.events import AuditEvent, Outcome
from bridge.engine.errors import EngineError
from bridge.engine.launch import LaunchInput, LaunchOutcome
from bridge.engine.links import Purpose, handle_hash
from bridge.engine.rules.order import link_target
from bridge.engine.service.caller import Caller
from bridge.engine.service.launch import links
from bridge.engine.service.launch.batches import execute_all, execute_one
from bridge.engine.service.launch.launch_users import LaunchUsers
from bridge.engine.service.launch.single_launch import ExecutedLaunch
from bridge.engine.service.live import sync_launch
from bridge.engine.service.work import Work
from bridge.engine.settings import AccessLifetimes


@dataclass(frozen=True, slots=True)
class LaunchContext:
    """The caller, the keys of links, and the lifetimes of links and sessions."""

    caller: Caller
    link_keys: links.LinkKeys
    lifetimes: AccessLifetimes


def launch_all(
    work: Work,
    context: LaunchContext,
    requests: Sequence[LaunchInput],
    *,
    without_savepoint: bool = False,
) -> list[LaunchOutcome | EngineError]:
    """
    Execute launches in their order; return an outcome or an error for each.

    `without_savepoint` is as for `execute_all`: it may raise BatchRefused.
    """
    users = LaunchUsers(work.connection, context.caller, work.now)
    executed = execute_all(work, users, requests, without_savepoint=without_savepoint)
    done = [each for each in executed if isinstance(each, ExecutedLaunch)]
    new = [_link(work, context, users, each) for each in done]
    handles = iter(links.issue(work.connection, context.link_keys, new, work.now))
    linked = iter(zip(new, handles, strict=True))
    return [
        _with_link(work, each, *next(linked)) if isinstance(each, ExecutedLaunch) else each
        for each in executed
    ]


def launch_one(work: Work, context: LaunchContext, request: LaunchInput) -> LaunchOutcome:
    """Execute one launch, or raise its error."""
    users = LaunchUsers(work.connection, context.caller, work.now)
    executed = execute_one(work, users, request)
    new = _link(work, context, users, executed)
    handle = links.issue(work.connection, context.link_keys, [new], work.now)[0]
    return _with_link(work, executed, new, handle)


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
            request.identity.site_id,
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
    files = [each.audit_members() for each in outcome.file_warnings]
    return {**kind, "warnings": files} if files else kind


def _link(
    work: Work, context: LaunchContext, users: LaunchUsers, executed: ExecutedLaunch
) -> links.NewLink:
    grant, request = executed.grant, executed.request
    acting, others = users.lifetimes(request.identity.site_id, context.lifetimes)
    seconds = acting if grant.authenticated else others
    content = request if executed.creates else request.without_content()
    payload = {
        "launch": content.to_json(),
        "creates": executed.creates,
        "authenticated": grant.authenticated,
    }
    if request.app.sync_launch and grant.account and not request.register_order:
        site_id, account_id = request.identity.site_id, grant.account.id
        payload["sync_sequence"] = sync_launch.reserve(
            work.connection, site_id, account_id, work.now
        )
    return links.NewLink(
        Purpose.LAUNCH,
        request.identity.site_id,
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
    target = sync_launch.NewTarget(
        link.site_id,
        link.account_id,
        sequence,
        handle_hash(handle),
        executed.outcome.report_id,
        executed.request.identity.accession,
    )
    awaited = sync_launch.set_target(work.connection, target, work.now)
    return replace(executed.outcome, handle=handle, awaited=awaited)
