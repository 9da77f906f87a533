"""Definitions: list, read, draft, try, activate, roll back.

Stored messages are read here once, on record, for those who may read bodies; then they come back
from the page with every trial, as pasted ones do.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path, Request, Response

from bridge.console.context import (
    ActivationRequest,
    ComparisonRequest,
    ConsoleContext,
    DraftEdit,
    TrialMessage,
)
from bridge.console.http.guard import AuditedAction, ContextDep, UserDep, run_audited
from bridge.console.http.mapping_bodies import (
    NAME,
    ActivateBody,
    CompareBody,
    DraftBody,
    Material,
    ReadingBody,
    RollbackBody,
    StoredBody,
    TrialBody,
)
from bridge.console.http.route import AuthoringRoute
from bridge.console.permissions import Permission
from bridge.executors import Threads
from mappings.schema.document import text as schema_text

router = APIRouter(prefix="/api", route_class=AuthoringRoute)
Name = Annotated[str, Path(pattern=NAME)]
VersionName = Annotated[str, Path(pattern=r"^[0-9a-f]{4,16}$")]


@router.get("/mappings")
async def overview(user: UserDep, context: ContextDep) -> Mapping[str, Any]:
    """List definitions, and who reads and writes with them."""
    user.grant.require(Permission.AUTHOR)
    return await Threads.CONSOLE.run(context.drafts.overview)


@router.get("/mapping-schema")
async def schema(user: UserDep) -> Response:
    """Give the JSON Schema of the language."""
    user.grant.require(Permission.AUTHOR)
    return Response(schema_text(), media_type="application/schema+json")


@router.get("/mappings/{name}")
async def definition(name: Name, user: UserDep, context: ContextDep) -> Mapping[str, Any]:
    """Give a definition with its files, and one's own draft."""
    user.grant.require(Permission.AUTHOR)
    return await Threads.CONSOLE.run(context.drafts.definition, name, user.grant.email)


@router.put("/mappings/{name}/draft")
async def save(
    name: Name, body: DraftBody, request: Request, user: UserDep, context: ContextDep
) -> Mapping[str, Any]:
    """Keep one's draft, whatever is wrong with it, and name that; nothing comes into force."""
    may_code = Permission.CODE in user.grant.permissions
    writing = DraftEdit(
        name, user.grant.email, body.files, body.begun_on, body.revision, code=may_code
    )
    wanted = AuditedAction(
        (Permission.AUTHOR,),
        "save draft",
        f"mapping {name}",
        fresh=lambda: may_code and context.drafts.changes_hooks(writing),
    )
    async with context.gate.entered():
        return await run_audited(request, user, wanted, lambda: context.drafts.save(writing))


@router.delete("/mappings/{name}/draft")
async def discard(
    name: Name, request: Request, user: UserDep, context: ContextDep
) -> Mapping[str, Any]:
    """Throw one's draft away."""
    wanted = AuditedAction((Permission.AUTHOR,), "discard draft", f"mapping {name}")
    work = context.drafts.discard
    await run_audited(request, user, wanted, lambda: work(name, user.grant.email))
    return {}


@router.get("/mappings/{name}/history")
async def history(name: Name, user: UserDep, context: ContextDep) -> Mapping[str, Any]:
    """List what was in force: who put it there, when, and why."""
    user.grant.require(Permission.AUTHOR)
    return {"rows": await Threads.CONSOLE.run(context.drafts.history, name)}


@router.get("/mappings/{name}/versions/{version}")
async def version(
    name: Name, version: VersionName, user: UserDep, context: ContextDep
) -> Mapping[str, Any]:
    """Give the files of a version."""
    user.grant.require(Permission.AUTHOR)
    return await Threads.CONSOLE.run(context.drafts.version, name, version)


@router.post("/mappings/{name}/activate")
async def activate(
    name: Name, body: ActivateBody, request: Request, user: UserDep, context: ContextDep
) -> Mapping[str, Any]:
    """Put one's draft into force: checked once more, refused where it has a mistake."""
    subject = ", ".join([f"mapping {name}", *(f"listener {each[:64]}" for each in body.listeners)])
    decision = ActivationRequest(
        name,
        user.grant.email,
        body.reason,
        body.begun_on,
        body.revision,
        listeners=tuple(body.listeners),
        code=Permission.CODE in user.grant.permissions,
    )
    wanted = AuditedAction(
        (Permission.AUTHOR,),
        "activate",
        subject,
        reason=body.reason,
        fresh=lambda: context.drafts.changes_hooks(decision),
    )
    return await run_audited(request, user, wanted, lambda: context.drafts.activate(decision))


@router.post("/mappings/{name}/rollback")
async def rollback(
    name: Name, body: RollbackBody, request: Request, user: UserDep, context: ContextDep
) -> Mapping[str, Any]:
    """Put the version before, or the one that is named, into force again."""
    decision = ActivationRequest(
        name,
        user.grant.email,
        body.reason,
        body.begun_on,
        version=body.version,
        code=Permission.CODE in user.grant.permissions,
    )
    wanted = AuditedAction(
        (Permission.AUTHOR,),
        "roll back",
        f"mapping {name}",
        reason=body.reason,
        fresh=lambda: context.drafts.changes_hooks(decision),
    )
    return await run_audited(request, user, wanted, lambda: context.drafts.rollback(decision))


@router.put("/reading/{listener}", name="read_with")
async def set_listener_definitions(
    listener: str, body: ReadingBody, request: Request, user: UserDep, context: ContextDep
) -> Mapping[str, Any]:
    """Let a listener read with these definitions from now on."""
    subject = f"definitions of listener {listener[:64]}"
    wanted = AuditedAction((Permission.AUTHOR,), "activate", subject, reason=body.reason)
    decision = ActivationRequest(listener, user.grant.email, body.reason, body.begun_on)
    names = tuple(body.mappings)
    work = context.drafts.set_listener_definitions
    return await run_audited(request, user, wanted, lambda: work(decision, names))


T = TypeVar("T")


@router.post("/mappings/{name}/stored")
async def stored(
    name: Name, body: StoredBody, request: Request, user: UserDep, context: ContextDep
) -> Mapping[str, Any]:
    """Give stored messages to try a definition on; recorded."""
    what = "by control id" if body.control else f"last {body.last}"
    wanted = AuditedAction((Permission.AUTHOR, Permission.BODIES), "read", f"messages, {what}")
    find = context.trials.stored_messages
    rows = await run_audited(request, user, wanted, lambda: find(name, body.last, body.control))
    return {"messages": rows}


@router.post("/mapping-material")
async def material(body: Material, user: UserDep, context: ContextDep) -> Mapping[str, Any]:
    """Find the messages in what somebody pasted or uploaded."""
    user.grant.require(Permission.AUTHOR)
    found = await _bounded(context, lambda: _messages(context, body))
    payloads = [base64.b64encode(each).decode() for each in found]
    return {"messages": [{"label": "", "listener": "", "payload": each} for each in payloads]}


@router.post("/mappings/{name}/try")
async def try_out(
    name: Name, body: TrialBody, user: UserDep, context: ContextDep
) -> Mapping[str, Any]:
    """Give what a version makes of messages that the page has."""
    user.grant.require(Permission.AUTHOR)
    specimens = [
        TrialMessage(each.data, each.listener, each.mapping, each.version) for each in body.messages
    ]
    email, code = user.grant.email, Permission.CODE in user.grant.permissions
    work = context.trials.try_out
    return await _bounded(context, lambda: work(name, email, body.word, specimens, code=code))


@router.post("/mappings/{name}/compare")
async def compare(
    name: Name, body: CompareBody, request: Request, user: UserDep, context: ContextDep
) -> Mapping[str, Any]:
    """Say which stored messages two versions map differently; values for who may read bodies."""
    values = Permission.BODIES in user.grant.permissions
    code = Permission.CODE in user.grant.permissions
    question = ComparisonRequest(
        name, user.grant.email, body.before, body.after, body.last, values, code
    )
    subject = f"mapping {name}, last {body.last} messages"
    wanted = AuditedAction((Permission.AUTHOR,), "compare", subject)
    async with context.gate.entered():
        return await run_audited(request, user, wanted, lambda: context.trials.compare(question))


@router.post("/mapping-learn")
async def learn(body: Material, user: UserDep, context: ContextDep) -> Mapping[str, Any]:
    """Propose a definition from messages of a new sender, with its evidence."""
    user.grant.require(Permission.AUTHOR)
    return await _bounded(context, lambda: context.trials.learn(_messages(context, body)))


def _messages(context: ConsoleContext, body: Material) -> Sequence[bytes]:
    files = [each for data in body.data for each in context.trials.messages_in_file(data)]
    return [*context.trials.messages_in_text(body.text), *files]


async def _bounded(context: ConsoleContext, work: Callable[[], T]) -> T:
    """Work on a thread, few at a time: people type faster than definitions compile."""
    async with context.gate.entered():
        return await Threads.CONSOLE.run(work)
