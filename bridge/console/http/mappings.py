"""Definitions: list, read, draft, try, activate, roll back.

Stored messages are read here once, on record, for those who may read bodies; then they come back
from the page with every trial, as pasted ones do.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path, Request, Response

from bridge.console.http.guard import Act, BackstageDep, PersonDep, act
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
from bridge.console.services import Backstage, Decision, Question, Specimen, Writing
from bridge.executors import Threads
from mappings.schema.document import text as schema_text

router = APIRouter(prefix="/api", route_class=AuthoringRoute)
Name = Annotated[str, Path(pattern=NAME)]
VersionName = Annotated[str, Path(pattern=r"^[0-9a-f]{4,16}$")]


@router.get("/mappings")
async def overview(person: PersonDep, backstage: BackstageDep) -> Mapping[str, Any]:
    """List definitions, and who reads and writes with them."""
    person.grant.require(Permission.AUTHOR)
    return await Threads.CONSOLE.run(backstage.desk.overview)


@router.get("/mapping-schema")
async def schema(person: PersonDep) -> Response:
    """Give the JSON Schema of the language."""
    person.grant.require(Permission.AUTHOR)
    return Response(schema_text(), media_type="application/schema+json")


@router.get("/mappings/{name}")
async def definition(name: Name, person: PersonDep, backstage: BackstageDep) -> Mapping[str, Any]:
    """Give a definition with its files, and one's own draft."""
    person.grant.require(Permission.AUTHOR)
    return await Threads.CONSOLE.run(backstage.desk.definition, name, person.grant.email)


@router.put("/mappings/{name}/draft")
async def save(
    name: Name, body: DraftBody, request: Request, person: PersonDep, backstage: BackstageDep
) -> Mapping[str, Any]:
    """Keep one's draft, whatever is wrong with it, and name that; nothing comes into force."""
    may_code = Permission.CODE in person.grant.permissions
    writing = Writing(
        name, person.grant.email, body.files, body.begun_on, body.revision, code=may_code
    )
    wanted = Act(
        (Permission.AUTHOR,),
        "save draft",
        f"mapping {name}",
        fresh=lambda: may_code and backstage.desk.changes_hooks(writing),
    )
    async with backstage.gate.entered():
        return await act(request, person, wanted, lambda: backstage.desk.save(writing))


@router.delete("/mappings/{name}/draft")
async def discard(
    name: Name, request: Request, person: PersonDep, backstage: BackstageDep
) -> Mapping[str, Any]:
    """Throw one's draft away."""
    wanted = Act((Permission.AUTHOR,), "discard draft", f"mapping {name}")
    work = backstage.desk.discard
    await act(request, person, wanted, lambda: work(name, person.grant.email))
    return {}


@router.get("/mappings/{name}/history")
async def history(name: Name, person: PersonDep, backstage: BackstageDep) -> Mapping[str, Any]:
    """List what was in force: who put it there, when, and why."""
    person.grant.require(Permission.AUTHOR)
    return {"rows": await Threads.CONSOLE.run(backstage.desk.history, name)}


@router.get("/mappings/{name}/versions/{version}")
async def version(
    name: Name, version: VersionName, person: PersonDep, backstage: BackstageDep
) -> Mapping[str, Any]:
    """Give the files of a version."""
    person.grant.require(Permission.AUTHOR)
    return await Threads.CONSOLE.run(backstage.desk.version, name, version)


@router.post("/mappings/{name}/activate")
async def activate(
    name: Name, body: ActivateBody, request: Request, person: PersonDep, backstage: BackstageDep
) -> Mapping[str, Any]:
    """Put one's draft into force: checked once more, refused where it has a mistake."""
    subject = ", ".join([f"mapping {name}", *(f"listener {each[:64]}" for each in body.listeners)])
    decision = Decision(
        name,
        person.grant.email,
        body.reason,
        body.begun_on,
        body.revision,
        listeners=tuple(body.listeners),
        code=Permission.CODE in person.grant.permissions,
    )
    wanted = Act(
        (Permission.AUTHOR,),
        "activate",
        subject,
        reason=body.reason,
        fresh=lambda: backstage.desk.changes_hooks(decision),
    )
    return await act(request, person, wanted, lambda: backstage.desk.activate(decision))


@router.post("/mappings/{name}/rollback")
async def rollback(
    name: Name, body: RollbackBody, request: Request, person: PersonDep, backstage: BackstageDep
) -> Mapping[str, Any]:
    """Put the version before, or the one that is named, into force again."""
    decision = Decision(
        name,
        person.grant.email,
        body.reason,
        body.begun_on,
        version=body.version,
        code=Permission.CODE in person.grant.permissions,
    )
    wanted = Act(
        (Permission.AUTHOR,),
        "roll back",
        f"mapping {name}",
        reason=body.reason,
        fresh=lambda: backstage.desk.changes_hooks(decision),
    )
    return await act(request, person, wanted, lambda: backstage.desk.rollback(decision))


@router.put("/reading/{listener}")
async def read_with(
    listener: str, body: ReadingBody, request: Request, person: PersonDep, backstage: BackstageDep
) -> Mapping[str, Any]:
    """Let a listener read with these definitions from now on."""
    subject = f"definitions of listener {listener[:64]}"
    wanted = Act((Permission.AUTHOR,), "activate", subject, reason=body.reason)
    decision = Decision(listener, person.grant.email, body.reason, body.begun_on)
    names = tuple(body.mappings)
    work = backstage.desk.read_with
    return await act(request, person, wanted, lambda: work(decision, names))


T = TypeVar("T")


@router.post("/mappings/{name}/stored")
async def stored(
    name: Name, body: StoredBody, request: Request, person: PersonDep, backstage: BackstageDep
) -> Mapping[str, Any]:
    """Give stored messages to try a definition on; recorded."""
    what = "by control id" if body.control else f"last {body.last}"
    wanted = Act((Permission.AUTHOR, Permission.BODIES), "read", f"messages, {what}")
    find = backstage.bench.stored
    rows = await act(request, person, wanted, lambda: find(name, body.last, body.control))
    return {"messages": rows}


@router.post("/mapping-material")
async def material(body: Material, person: PersonDep, backstage: BackstageDep) -> Mapping[str, Any]:
    """Find the messages in what somebody pasted or uploaded."""
    person.grant.require(Permission.AUTHOR)
    found = await _bounded(backstage, lambda: _messages(backstage, body))
    payloads = [base64.b64encode(each).decode() for each in found]
    return {"messages": [{"label": "", "listener": "", "payload": each} for each in payloads]}


@router.post("/mappings/{name}/try")
async def try_out(
    name: Name, body: TrialBody, person: PersonDep, backstage: BackstageDep
) -> Mapping[str, Any]:
    """Give what a version makes of messages that the page has."""
    person.grant.require(Permission.AUTHOR)
    specimens = [
        Specimen(each.data, each.listener, each.mapping, each.version) for each in body.messages
    ]
    email, code = person.grant.email, Permission.CODE in person.grant.permissions
    work = backstage.bench.try_out
    return await _bounded(backstage, lambda: work(name, email, body.word, specimens, code=code))


@router.post("/mappings/{name}/compare")
async def compare(
    name: Name, body: CompareBody, request: Request, person: PersonDep, backstage: BackstageDep
) -> Mapping[str, Any]:
    """Say which stored messages two versions map differently; values for who may read bodies."""
    values = Permission.BODIES in person.grant.permissions
    code = Permission.CODE in person.grant.permissions
    question = Question(name, person.grant.email, body.before, body.after, body.last, values, code)
    subject = f"mapping {name}, last {body.last} messages"
    wanted = Act((Permission.AUTHOR,), "compare", subject)
    async with backstage.gate.entered():
        return await act(request, person, wanted, lambda: backstage.bench.compare(question))


@router.post("/mapping-learn")
async def learn(body: Material, person: PersonDep, backstage: BackstageDep) -> Mapping[str, Any]:
    """Propose a definition from messages of a new sender, with its evidence."""
    person.grant.require(Permission.AUTHOR)
    return await _bounded(backstage, lambda: backstage.bench.learn(_messages(backstage, body)))


def _messages(backstage: Backstage, body: Material) -> Sequence[bytes]:
    files = [each for data in body.data for each in backstage.bench.uploaded(data)]
    return [*backstage.bench.pasted(body.text), *files]


async def _bounded(backstage: Backstage, work: Callable[[], T]) -> T:
    """Work on a thread, few at a time: people type faster than definitions compile."""
    async with backstage.gate.entered():
        return await Threads.CONSOLE.run(work)
