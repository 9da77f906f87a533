"""
Trying definitions on messages: stored ones, once they were read, or a user's own.

Stored messages are read here once, on record, for those who may read bodies; then they come back
from the page with every trial, as pasted ones do.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path, Request

from bridge.console.backstage import Backstage
from bridge.console.desk import Question, Specimen
from bridge.console.http.guard import Act, BackstageDep, PersonDep, act
from bridge.console.http.mapping_bodies import NAME, CompareBody, Material, StoredBody, TrialBody
from bridge.console.http.route import AuthoringRoute
from bridge.console.permissions import Permission
from bridge.executors import Threads

router = APIRouter(prefix="/api", route_class=AuthoringRoute)
Name = Annotated[str, Path(pattern=NAME)]
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
