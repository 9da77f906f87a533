"""
Definitions: list, read, draft, try, compare, activate, roll back; codes without an entry.

Stored messages are read once, with an audit event, by users who may read message content. Then the
page sends them with every trial, like pasted messages.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path, Query, Response

from bridge.admin.access.permissions import Permission
from bridge.admin.definitions.editor import ActivationRequest, CodeEntry, DraftEdit, overview
from bridge.admin.definitions.rule_forms import RuleChange
from bridge.admin.definitions.trials import ComparisonRequest, TrialMessage
from bridge.console.context import ConsoleContext
from bridge.console.http.guard import (
    AuditedAction,
    AuthoringRoute,
    CallDep,
    ConsoleRoute,
    await_audited,
    run_audited,
)
from bridge.console.http.models.bodies import (
    NAME,
    TABLE,
    ActivateBody,
    CodeBody,
    CompareBody,
    DraftBody,
    IgnoredCodeBody,
    ListenerDefinitionsBody,
    ReleasesBody,
    RollbackBody,
    RuleEditBody,
    SampleMessagesBody,
    StoredBody,
    TrialBody,
)
from bridge.console.http.models.rules import Outline, RuleEdit
from bridge.executors import CONSOLE_THREADS
from mappings.hl7.batch import messages_in, messages_in_text
from mappings.schema import text as schema_text

router = APIRouter(prefix="/api", route_class=AuthoringRoute)
code_router = APIRouter(prefix="/api", route_class=ConsoleRoute)
Name = Annotated[str, Path(pattern=NAME)]
Table = Annotated[str, Path(pattern=TABLE)]
VersionName = Annotated[str, Path(pattern=r"^[0-9a-f]{4,16}$")]
VersionWord = Annotated[str, Query(pattern=r"^(active|draft|files|previous|[0-9a-f]{4,16})$")]
T = TypeVar("T")


@router.get("/mappings")
async def definitions(call: CallDep) -> Mapping[str, Any]:
    """List definitions, and the listeners and destinations that use them."""
    call.user.grant.require(Permission.AUTHOR)
    context = call.context
    return await CONSOLE_THREADS.run(overview, context.settings, context.database, context.clock())


@router.get("/mapping-schema")
async def schema(call: CallDep) -> Response:
    """Return the JSON Schema of the mapping language."""
    call.user.grant.require(Permission.AUTHOR)
    return Response(schema_text(), media_type="application/schema+json")


@router.get("/mappings/{name}")
async def definition(name: Name, call: CallDep) -> Mapping[str, Any]:
    """Return a definition with its files, and the user's draft."""
    call.user.grant.require(Permission.AUTHOR)
    return await CONSOLE_THREADS.run(
        call.context.definitions.definition, name, call.user.grant.email
    )


@router.put("/mappings/{name}/draft")
async def save(name: Name, body: DraftBody, call: CallDep) -> Mapping[str, Any]:
    """Store the user's draft, also with errors, and return the errors; activate nothing."""
    code = Permission.CODE in call.user.grant.permissions
    edit = DraftEdit(
        name, call.user.grant.email, body.files, body.begun_on, body.revision, code=code
    )
    action = AuditedAction(
        (Permission.AUTHOR,),
        "save draft",
        f"mapping {name}",
        fresh=lambda: code and call.context.definitions.changes_hooks(edit),
    )
    async with call.context.gate.entered():
        return await run_audited(call, action, lambda: call.context.definitions.save(edit))


@router.get("/mappings/{name}/outline", response_model=Outline)
async def outline(name: Name, call: CallDep, version: VersionWord = "draft") -> Mapping[str, Any]:
    """Return the rules of a version by target, with their places in the files."""
    call.user.grant.require(Permission.AUTHOR)
    work, email = call.context.rule_forms.outline, call.user.grant.email
    return await _limited(call.context, lambda: work(name, email, version))


@router.post("/mappings/{name}/edits", response_model=RuleEdit)
async def edit_rule(name: Name, body: RuleEditBody, call: CallDep) -> Mapping[str, Any]:
    """Return the edits of the author's text that change one rule; store nothing."""
    call.user.grant.require(Permission.AUTHOR)
    code = Permission.CODE in call.user.grant.permissions
    change = RuleChange(name, body.files, body.target, body.change.value, code)
    return await _limited(call.context, lambda: call.context.rule_forms.edit(change))


@router.delete("/mappings/{name}/draft")
async def discard(name: Name, call: CallDep) -> Mapping[str, Any]:
    """Delete the user's draft."""
    action = AuditedAction((Permission.AUTHOR,), "discard draft", f"mapping {name}")
    email = call.user.grant.email
    await run_audited(call, action, lambda: call.context.definitions.discard(name, email))
    return {}


@router.get("/mappings/{name}/history")
async def history(name: Name, call: CallDep) -> Mapping[str, Any]:
    """List the activations of a definition: version, user, time and reason."""
    call.user.grant.require(Permission.AUTHOR)
    return {"rows": await CONSOLE_THREADS.run(call.context.definitions.history, name)}


@router.get("/mappings/{name}/versions/{version}")
async def version(name: Name, version: VersionName, call: CallDep) -> Mapping[str, Any]:
    """Return the files of a version."""
    call.user.grant.require(Permission.AUTHOR)
    return await CONSOLE_THREADS.run(call.context.definitions.version, name, version)


@router.post("/mappings/{name}/activate")
async def activate(name: Name, body: ActivateBody, call: CallDep) -> Mapping[str, Any]:
    """Check the user's draft again, and activate it if it has no errors."""
    subject = ", ".join(
        [f"mapping {name}", *(f"listener {listener[:64]}" for listener in body.listeners)]
    )
    activation = ActivationRequest(
        name,
        call.user.grant.email,
        body.reason,
        body.begun_on,
        body.revision,
        listeners=tuple(body.listeners),
        code=Permission.CODE in call.user.grant.permissions,
        shadow_job=body.shadow_job,
    )
    action = AuditedAction(
        (Permission.AUTHOR,),
        "activate",
        subject,
        reason=body.reason,
        fresh=lambda: call.context.definitions.changes_hooks(activation),
    )
    return await run_audited(call, action, lambda: call.context.definitions.activate(activation))


@router.post("/mappings/{name}/rollback")
async def rollback(name: Name, body: RollbackBody, call: CallDep) -> Mapping[str, Any]:
    """Activate the named older version, or the previous one."""
    activation = ActivationRequest(
        name,
        call.user.grant.email,
        body.reason,
        body.begun_on,
        version=body.version,
        code=Permission.CODE in call.user.grant.permissions,
    )
    action = AuditedAction(
        (Permission.AUTHOR,),
        "roll back",
        f"mapping {name}",
        reason=body.reason,
        fresh=lambda: call.context.definitions.changes_hooks(activation),
    )
    return await run_audited(call, action, lambda: call.context.definitions.rollback(activation))


@router.put("/reading/{listener}")
async def set_listener_definitions(
    listener: str, body: ListenerDefinitionsBody, call: CallDep
) -> Mapping[str, Any]:
    """Set the definitions of a listener."""
    subject = f"definitions of listener {listener[:64]}"
    action = AuditedAction((Permission.AUTHOR,), "activate", subject, reason=body.reason)
    activation = ActivationRequest(listener, call.user.grant.email, body.reason, body.begun_on)
    names = tuple(body.mappings)
    work = call.context.definitions.set_listener_definitions
    return await run_audited(call, action, lambda: work(activation, names))


@router.post("/mappings/{name}/stored")
async def stored(name: Name, body: StoredBody, call: CallDep) -> Mapping[str, Any]:
    """Return stored messages as samples for trials."""
    what = "by control id" if body.control else f"last {body.last}"
    permissions = (Permission.AUTHOR, Permission.BODIES)
    action = AuditedAction(permissions, "read", f"messages, {what}")
    work = call.context.trials.stored_messages
    rows = await run_audited(call, action, lambda: work(name, body.last, body.control))
    return {"messages": rows}


@router.post("/mapping-material")
async def sample_messages(body: SampleMessagesBody, call: CallDep) -> Mapping[str, Any]:
    """Return the messages in pasted text and uploaded files."""
    call.user.grant.require(Permission.AUTHOR)
    found = await _limited(call.context, lambda: _messages(body))
    payloads = [base64.b64encode(message).decode() for message in found]
    return {"messages": [{"label": "", "listener": "", "payload": payload} for payload in payloads]}


@router.post("/mappings/{name}/try")
async def try_out(name: Name, body: TrialBody, call: CallDep) -> Mapping[str, Any]:
    """Map messages of the page with a version, and return the results."""
    call.user.grant.require(Permission.AUTHOR)
    messages = [
        TrialMessage(message.data, message.listener, message.mapping, message.version)
        for message in body.messages
    ]
    email, code = call.user.grant.email, Permission.CODE in call.user.grant.permissions
    work, traced = call.context.trials.try_out, body.traced
    return await _limited(
        call.context, lambda: work(name, email, body.word, messages, code=code, traced=traced)
    )


@router.post("/mappings/{name}/releases")
async def compose_releases(name: Name, body: ReleasesBody, call: CallDep) -> Mapping[str, Any]:
    """Compose the last releases of a destination with a version, as they would be sent now."""
    email, code = call.user.grant.email, Permission.CODE in call.user.grant.permissions
    permissions = (Permission.AUTHOR, Permission.BODIES)
    what = f"last {body.last} releases of {body.destination or f'mapping {name}'}"
    action = AuditedAction(permissions, "read", f"messages, {what}")
    work = call.context.trials.compose_releases
    arguments = (name, email, body.word, body.destination, body.last)
    async with call.context.gate.entered():
        return await await_audited(call, action, lambda: work(*arguments, code=code))


@router.post("/mappings/{name}/compare")
async def compare(name: Name, body: CompareBody, call: CallDep) -> Mapping[str, Any]:
    """Compare two versions on stored messages; with values if the user may read content."""
    values = call.user.reads_content
    code = Permission.CODE in call.user.grant.permissions
    comparison = ComparisonRequest(
        name, call.user.grant.email, body.before, body.after, body.last, values, code
    )
    subject = f"mapping {name}, last {body.last} messages"
    action = AuditedAction((Permission.AUTHOR,), "compare", subject)
    async with call.context.gate.entered():
        return await run_audited(call, action, lambda: call.context.trials.compare(comparison))


@router.post("/mapping-learn")
async def learn(body: SampleMessagesBody, call: CallDep) -> Mapping[str, Any]:
    """Infer a definition from messages of a new sender, with the evidence."""
    call.user.grant.require(Permission.AUTHOR)
    return await _limited(call.context, lambda: call.context.trials.infer(_messages(body)))


def _messages(body: SampleMessagesBody) -> Sequence[bytes]:
    files = [message for data in body.data for message in messages_in(data)]
    return [*messages_in_text(body.text), *files]


async def _limited(context: ConsoleContext, work: Callable[[], T]) -> T:
    """Run on a thread, few at a time: the page may send trials faster than definitions compile."""
    async with context.gate.entered():
        return await CONSOLE_THREADS.run(work)


@code_router.get("/unknown-codes")
async def unmapped_codes(call: CallDep) -> Mapping[str, Any]:
    """List codes without an entry; codes that may identify a patient are left out."""
    call.user.grant.require(Permission.AUTHOR)
    email = call.user.grant.email
    return {"rows": await CONSOLE_THREADS.run(call.context.definitions.unmapped_codes, email)}


@code_router.post("/unknown-codes/leave")
async def ignore_code(body: IgnoredCodeBody, call: CallDep) -> Mapping[str, Any]:
    """Record that a code stays without an entry; its notifications end."""
    subject = f"code table {body.code_table} of mapping {body.mapping}"
    action = AuditedAction((Permission.AUTHOR,), "leave code", subject)
    key, email = (body.mapping, body.code_table, body.code), call.user.grant.email
    await run_audited(call, action, lambda: call.context.definitions.ignore_code(*key, email))
    return {}


@code_router.put("/mappings/{name}/codes/{table}")
async def add_code(name: Name, table: Table, body: CodeBody, call: CallDep) -> Mapping[str, Any]:
    """Add an entry to a code table in the user's draft; activate nothing."""
    action = AuditedAction((Permission.AUTHOR,), "save draft", f"mapping {name}")
    entry = CodeEntry(
        name, call.user.grant.email, table, body.code, body.value.strip(), back=body.back
    )
    async with call.context.gate.entered():
        return await run_audited(call, action, lambda: call.context.definitions.add_code(entry))
