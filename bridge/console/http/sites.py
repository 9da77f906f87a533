"""Sites at the report service: templates, prelim groups, worklist.

The service checks what it is sent, and says what is wrong with it in its own words.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Body, Path, Request

from bridge.console.errors import NotPermitted, NotTaken, Unreachable
from bridge.console.http.bodies import WorklistSearch
from bridge.console.http.guard import (
    Act,
    BackstageDep,
    Person,
    PersonDep,
    act_and_wait,
    allowed,
    backstage_of,
)
from bridge.console.http.route import ConsoleRoute
from bridge.console.permissions import Permission
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.replies import Unreadable, moment

router = APIRouter(prefix="/api/sites", route_class=ConsoleRoute)
Site = Annotated[str, Path(min_length=1, max_length=128)]
Name = Annotated[str, Path(min_length=1, max_length=320)]
Number = Annotated[int, Path(ge=1, le=999_999_999)]
Json = Annotated[dict[str, Any], Body()]
ADMINISTER = (Permission.ADMINISTER,)


@router.get("")
async def sites(person: PersonDep, backstage: BackstageDep) -> list[dict[str, Any]]:
    """List the sites that a person may see: all who find or administer need their ids."""
    person.grant.require(Permission.FIND)
    found = await backstage.service.ask("GET", "sites")
    own = [each for each in found if person.grant.reaches([each["SiteID"]])]
    if Permission.ADMINISTER not in person.grant.permissions:
        own = [{"SiteID": each["SiteID"], "name": each["name"]} for each in own]
    return own


@router.post("", status_code=201)
async def add_site(
    body: Json, request: Request, person: PersonDep, backstage: BackstageDep
) -> dict[str, Any]:
    """Add a site; only by whom no site limits."""
    if person.grant.reach is not None:
        raise NotPermitted("administer every site")
    site = str(body.get("SiteID", ""))
    made: dict[str, Any] = await change(
        request, person, f"add site {site}", ("POST", "sites"), body, lambda: [site]
    )
    return made


@router.get("/{site}")
async def site(site: Site, person: PersonDep, backstage: BackstageDep) -> dict[str, Any]:
    """Give a site's settings."""
    allowed(person, Permission.ADMINISTER, site)
    found: dict[str, Any] = await backstage.service.ask("GET", "sites", site)
    return found


@router.patch("/{site}")
async def change_site(site: Site, body: Json, request: Request, person: PersonDep) -> Any:
    """Change members of a site's settings; the others stay."""
    return await change(request, person, "change site", ("PATCH", "sites", site), body)


@router.get("/{site}/{what}")
async def listed(
    site: Site,
    what: Literal["templates", "prelim-groups", "users", "tokens", "code-map", "observed-hosts"],
    person: PersonDep,
    backstage: BackstageDep,
) -> Any:
    """List what a site has, as the service does; tokens without their secrets."""
    allowed(person, Permission.ADMINISTER, site)
    return await backstage.service.ask("GET", "sites", site, what)


@router.put("/{site}/code-map")
async def set_code_map(site: Site, body: Json, request: Request, person: PersonDep) -> Any:
    """Replace a site's billing code map."""
    path = ("PUT", "sites", site, "code-map")
    return await change(request, person, "change code map", path, body)


@router.get("/{site}/templates/{number}/mrrt")
async def export_template(
    site: Site, number: Number, person: PersonDep, backstage: BackstageDep
) -> Any:
    """Give a template as an IHE MRRT file."""
    allowed(person, Permission.ADMINISTER, site)
    path = ("sites", site, "templates", str(number), "mrrt")
    return await backstage.service.ask("GET", *path)


@router.put("/{site}/templates/{number}/mrrt")
async def import_template(
    site: Site, number: Number, body: Json, request: Request, person: PersonDep
) -> Any:
    """Create or replace a template from an IHE MRRT file."""
    path = ("PUT", "sites", site, "templates", str(number), "mrrt")
    return await change(request, person, "change template", path, body)


@router.put("/{site}/templates/{number}")
async def set_template(
    site: Site, number: Number, body: Json, request: Request, person: PersonDep
) -> Any:
    """Create or replace a template."""
    path = ("PUT", "sites", site, "templates", str(number))
    return await change(request, person, "change template", path, body)


@router.delete("/{site}/templates/{number}")
async def delete_template(site: Site, number: Number, request: Request, person: PersonDep) -> Any:
    """Remove a template."""
    path = ("DELETE", "sites", site, "templates", str(number))
    return await change(request, person, "remove template", path)


@router.post("/{site}/prelim-groups")
async def set_group(site: Site, body: Json, request: Request, person: PersonDep) -> Any:
    """Create or replace a prelim group."""
    path = ("POST", "sites", site, "prelim-groups")
    return await change(request, person, "change prelim group", path, body)


@router.delete("/{site}/prelim-groups/{name}")
async def delete_group(site: Site, name: Name, request: Request, person: PersonDep) -> Any:
    """Remove a prelim group."""
    path = ("DELETE", "sites", site, "prelim-groups", name)
    return await change(request, person, "remove prelim group", path)


async def change(
    request: Request,
    person: Person,
    action: str,
    path: tuple[str, ...],
    body: object = None,
    sites: Callable[[], Collection[str]] | None = None,
    **more: Any,
) -> Any:
    """
    Have the service change something of a site, and record it; `more` members of the `Act`.

    `path` begins with a method; its third part is the site, unless `sites` says which.
    """
    backstage = backstage_of(request)
    subject = str(more.pop("subject", " ".join(path[3:])))[:200]
    deed = Act(ADMINISTER, action[:200], subject, sites or (lambda: [path[2]]), **more)
    answer = await act_and_wait(
        request, person, deed, lambda: backstage.service.ask(*path, body=body)
    )
    return {} if answer is None else answer


_REPORT: Final = ("reportId", "status", "ownerName")
_TIMES: Final = ("createdAt", "updatedAt", "signedAt")
_ORDER: Final = ("SiteLocation", "Accession")
"""What is told without bodies: whoever may find may know an order's number, and no patient's."""
_PATIENT: Final = ("PatientMRN", "PatientName", "StudyDescription", "StudyDate", "Modality")


@router.post("/{site}/worklist")
async def worklist(
    site: Site,
    body: WorklistSearch,
    request: Request,
    person: PersonDep,
    backstage: BackstageDep,
) -> dict[str, Any]:
    """List a site's reports; to search by a patient's name or number needs bodies."""
    asks = Permission.BODIES if body.text or body.mrn else Permission.FIND
    deed = Act((Permission.FIND, asks), "read", "worklist", lambda: [site])
    bodies = Permission.BODIES in person.grant.permissions
    shown = (*_ORDER, *_PATIENT) if bodies else _ORDER

    async def work() -> dict[str, Any]:
        try:
            page = await backstage.service.engine.worklist(site, **body.wanted())
        except EngineFailure as failure:
            if failure.status is None:
                raise Unreachable from None
            raise NotTaken(failure.status, failure.code) from None
        return {"rows": [_row(each, shown) for each in page.items], "next": page.next}

    return await act_and_wait(request, person, deed, work)


def _milliseconds(value: object) -> int | None:
    """Read a time of the service; None where it is none, whatever it is."""
    try:
        return moment(value, "worklist")
    except Unreadable:
        return None


def _row(item: Mapping[str, Any], shown: tuple[str, ...]) -> dict[str, Any]:
    orders = item.get("orders", ())
    told = [{name: each[name] for name in shown if name in each} for each in orders]
    times = {name: _milliseconds(item.get(name)) for name in _TIMES}
    return {**{name: item.get(name) for name in _REPORT}, **times, "orders": told}
