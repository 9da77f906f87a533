"""
Administration of sites (users, tokens, prelim groups, templates, code map, macros), and their audit
trail.

Only a service token may create a site. Everything within a site requires its administrator.
"""

# ruff: noqa: N815  # the spelling of the interface reference

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, BeforeValidator, Field, StrictInt
from starlette.responses import JSONResponse, Response

from bridge.audit import trail
from bridge.audit.chain import ENGINE_CHAIN
from bridge.audit.trail import TrailQuery
from bridge.contract.errors import ErrorCode
from bridge.contract.requests import (
    Body,
    ExpiryDays,
    Identifier,
    OptionalIdentifier,
    RowId,
    TemplateNumber,
)
from bridge.engine.documents.uploads.mrrt import BadTemplate, write_template
from bridge.engine.documents.uploads.mrrt import import_template as read_template
from bridge.engine.errors import EngineError
from bridge.engine.http.engine_state import engine_of
from bridge.engine.http.requests.audit_events import audit_event
from bridge.engine.http.requests.guard import AdminRoute
from bridge.engine.http.requests.response_bodies import problems
from bridge.engine.http.requests.use_cases import (
    RequestSite,
    actor_of,
    change_as_administrator,
    read_site,
    require_site_administrator,
)
from bridge.engine.http.routes.app.report import MacroBody, TextBody, Trigger
from bridge.engine.http.sign_in.account_session import require_recent_proof
from bridge.engine.rules.site_roles import SiteRole
from bridge.engine.rules.text.document import MAX_NODES, BadDocument, restore, to_json
from bridge.engine.rules.text.plain_text import from_outline
from bridge.engine.rules.timestamps import parse_iso
from bridge.engine.service.accounts import passwords, site_users, users
from bridge.engine.service.caller import Caller, TokenScope, administered_sites
from bridge.engine.service.launch.link_visits import observed_hosts
from bridge.engine.service.signing.page_actions import read_document
from bridge.engine.service.sites import audit_states, billing, macros, site_settings
from bridge.engine.service.sites.site_settings import (
    MAX_SIGN_DELAY,
    Preferences,
    SiteSettings,
    apply_changes,
    audit_state,
    image_uri,
    prepare,
    site_json,
)
from bridge.engine.service.work import Work

router = APIRouter(
    prefix="/api/admin", tags=["Administration"], route_class=AdminRoute, responses=problems()
)

Names = Annotated[list[Identifier], Field(max_length=1000)]


Delay = Annotated[StrictInt, Field(ge=0, le=MAX_SIGN_DELAY, description="Seconds; 0: none.")]
Zone = Annotated[Identifier, Field(description="IANA time zone")]
ImageType = Annotated[str | None, Field(description="Media type of headerImg")]
HeaderImage = Annotated[str | None, Field(description="Base64; stored re-encoded", repr=False)]
FooterImage = Annotated[str | None, Field(description="A data URI", repr=False)]


class SiteBody(Body):
    """All settings of a site; absent members get the default of a new site."""

    name: OptionalIdentifier = ""
    timeZone: Zone = "UTC"
    signDelay: Delay = 0
    locations: Names = Field(default_factory=list)
    hostOrigins: Names = Field(default_factory=list)
    settings: Preferences = Preferences()
    headerImgType: ImageType = None
    headerImg: HeaderImage = None
    footerImg: FooterImage = None

    def to_settings(self, site_id: str) -> SiteSettings:
        """Return the settings for the use case; re-encodes images, so call it in a thread."""
        values = self.model_dump(exclude={"SiteID"})
        changes = prepare({**values, "name": self.name or site_id})
        return apply_changes(SiteSettings(site_id), changes)


class SiteChangeBody(Body):
    """Members of a site to change; null restores the default or removes an image."""

    name: OptionalIdentifier | None = None
    timeZone: Zone | None = None
    signDelay: Delay | None = None
    locations: Names | None = None
    hostOrigins: Names | None = None
    settings: Preferences | None = None
    headerImgType: ImageType = None
    headerImg: HeaderImage = None
    footerImg: FooterImage = None

    def changes(self) -> dict[str, Any]:
        """Return the members that were sent."""
        return self.model_dump(exclude_unset=True)


class NewSiteBody(SiteBody):
    """A new site."""

    SiteID: Identifier


class UserBody(Body):
    """A user of a site."""

    email: Identifier
    name: OptionalIdentifier = ""
    role: SiteRole = SiteRole.USER
    password: Any = Field(
        default=None, repr=False, description="Not accepted: only the owner sets the password"
    )


class SignatureBody(Body):
    """The signature image of a user."""

    signature: str | None = Field(description="A data URI; null removes it", repr=False)


class TokenBody(Body):
    """A new token for a user of the site."""

    email: Identifier
    label: OptionalIdentifier = ""
    scopes: list[TokenScope] = Field(default_factory=list)
    expiresDays: ExpiryDays | None = None


class PrelimGroupBody(Body):
    """A prelim group: its tags, members and reviewers (null: all users in no group)."""

    name: Identifier
    tags: Annotated[list[Identifier], Field(min_length=1, max_length=100)]
    members: Names = Field(default_factory=list)
    reviewers: Names | None = None


class TemplateBody(TextBody):
    """A numbered template: a structured document, or plain text to convert."""

    name: Identifier
    text: Annotated[str | None, Field(max_length=1_000_000)] = None


class MrrtBody(Body):
    """An IHE MRRT template."""

    html: Annotated[str, Field(min_length=1, max_length=1_000_000, description="HTML5")]
    name: OptionalIdentifier = Field(default="", description="Default: the file's own title")


class CodeMapBody(Body):
    """A billing code map."""

    csv: Annotated[str, Field(max_length=8_000_000, description="system,match,code,description")]


_EventNumber = Annotated[int, Field(ge=0, lt=2**63)]


def _parse_time(value: object) -> object:
    """Parse a time of the query; numbers and times without a zone are refused."""
    if value is None:
        return None
    try:
        return parse_iso(str(value))
    except (ValueError, OverflowError):
        message = "Input should be a time in ISO 8601 with its zone: 2027-01-15T08:00:00Z"
        raise ValueError(message) from None


_DateTime = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
_Time = Annotated[int, BeforeValidator(_parse_time, json_schema_input_type=_DateTime)]
_Word = Annotated[str, Field(min_length=1, max_length=320)]


class AuditQuery(BaseModel):
    """Filters of audit events; times in ISO 8601 with zone, `user` is an e-mail address."""

    after: _EventNumber | None = None
    before: Annotated[
        _EventNumber | None, Field(description="Continues a page of newest events")
    ] = None
    since: _Time | None = None
    until: _Time | None = None
    action: _Word | None = None
    user: _Word | None = None
    reportId: _Word | None = None
    limit: int = Field(100, ge=1, le=1000)

    def to_query(self, site_id: str) -> TrailQuery:
        """Return the query for the use case."""
        span = (self.since, self.until)
        return TrailQuery(site_id, *span, self.reportId, self.action, self.user, self.before)


Rows = list[dict[str, Any]]


@router.get("/sites", response_model=Rows)
async def list_sites(request: Request) -> Response:
    """Return the sites that the caller administers."""
    caller: Caller = request.state.caller
    found = await engine_of(request).work.read(
        lambda connection: site_settings.list_sites(
            connection, administered_sites(connection, caller)
        )
    )
    return JSONResponse([site_json(site) for site in found])


@router.post("/sites", response_model=dict[str, Any], status_code=201)
async def add_site(body: NewSiteBody, request: Request) -> Response:
    """Create a site; only with a service token."""
    engine, caller = engine_of(request), request.state.caller
    if not caller.service:
        raise EngineError(ErrorCode.FORBIDDEN)
    request.state.audited = ("site-create", body.SiteID, None)
    site = await engine.work.run(lambda: body.to_settings(body.SiteID))
    now = engine.clock()

    def apply(work: Work) -> None:
        site_settings.add_site(work.connection, site, now)
        event = audit_event(request, "site-create", site.site_id)
        work.audit(replace(event, before={}, after=audit_state(site)))

    await engine.work.change(actor_of(caller), now, apply)
    return JSONResponse(site_json(site), 201)


@router.get("/sites/{site_id}", response_model=dict[str, Any])
async def get_site(site_id: str, request: Request) -> Response:
    """Return a site's settings."""
    return JSONResponse(
        site_json(await read_site(request, "site-read", site_id, site_settings.get_site))
    )


@router.get("/sites/{site_id}/observed-hosts", response_model=Rows)
async def list_observed_hosts(site_id: str, request: Request) -> Response:
    """Return the origins that have framed reports of the site recently."""
    return JSONResponse(await read_site(request, "site-read", site_id, observed_hosts))


@router.put("/sites/{site_id}", response_model=dict[str, Any])
async def update_site(site_id: str, body: SiteBody, request: Request) -> Response:
    """Replace a site's settings."""
    await require_site_administrator(request, RequestSite(site_id))
    site = await engine_of(request).work.run(lambda: body.to_settings(site_id))

    def apply(work: Work) -> None:
        current = site_settings.get_site(work.connection, site_id, lock=True)
        site_settings.update_site(work.connection, site)
        work.audit_members = audit_states.difference(audit_state(current), audit_state(site))

    await change_as_administrator(request, "site-update", RequestSite(site_id), apply)
    return JSONResponse(site_json(site))


@router.patch("/sites/{site_id}", response_model=dict[str, Any])
async def change_site(site_id: str, body: SiteChangeBody, request: Request) -> Response:
    """Change some members of a site's settings; the others are unchanged."""
    await require_site_administrator(request, RequestSite(site_id))
    changes = await engine_of(request).work.run(lambda: prepare(body.changes()))

    def apply(work: Work) -> dict[str, Any]:
        current = site_settings.get_site(work.connection, site_id, lock=True)
        site = apply_changes(current, changes)
        site_settings.update_site(work.connection, site)
        work.audit_members = audit_states.difference(audit_state(current), audit_state(site))
        return site_json(site)

    return await change_as_administrator(
        request,
        "site-update",
        RequestSite(site_id),
        apply,
        command={"members": sorted(changes)},
    )


@router.put("/sites/{site_id}/users/{email}/signature", response_class=Response)
async def set_signature(
    site_id: str, email: str, body: SignatureBody, request: Request
) -> Response:
    """Set the signature image for a user's future reports; the image is re-encoded."""
    await require_site_administrator(request, RequestSite(site_id))
    engine = engine_of(request)
    image = await engine.work.run(lambda: image_uri(body.signature, "/signature"))
    return await change_as_administrator(
        request,
        "signature-update",
        RequestSite(site_id),
        lambda work: site_users.set_signature(work, site_id, email, image),
        target=("user", email),
        state=audit_states.signature(email, site_id),
    )


@router.get("/sites/{site_id}/users", response_model=Rows)
async def list_users(site_id: str, request: Request) -> Response:
    """Return the users of a site."""
    found = await read_site(request, "users-read", site_id, users.members)
    return JSONResponse(
        [
            {"email": user.email, "name": user.name, "role": user.role, "disabled": user.disabled}
            for user in found
        ]
    )


@router.post("/sites/{site_id}/users", response_model=dict[str, Any])
async def add_user(site_id: str, body: UserBody, request: Request) -> Response:
    """Invite a user to a site, or change their name or role there."""
    engine = engine_of(request)
    if "password" in body.model_fields_set and not engine.operator:
        raise EngineError(
            ErrorCode.PASSWORD_NOT_ACCEPTED,
            "only the owner of an account sets its password, by an enrolment link",
            errors=[("/password", "is not accepted")],
        )
    caller: Caller = request.state.caller
    password_hash = None
    if body.password is not None:
        passwords.require_strong(body.password, body.email, body.name)
        password_hash = await engine.hashing.run(lambda: passwords.hash_password(body.password))

    def apply(work: Work) -> dict[str, Any]:
        member = site_users.add_member(work, caller, site_id, body.email, body.name, body.role)
        if not engine.operator:
            return member
        settings = engine.settings
        seconds = settings.lifetimes.enrolment_link if settings.passwords else None
        issued = site_users.give_access(
            work, caller, site_id, body.email, password_hash, engine.random, seconds
        )
        return {**member, "link": issued and issued.address(engine.base_url(request))}

    return await change_as_administrator(
        request,
        "user-update",
        RequestSite(site_id),
        apply,
        target=("user", body.email),
        command={"role": body.role.value},
    )


@router.delete("/sites/{site_id}/users/{email}", response_class=Response)
async def remove_user(site_id: str, email: str, request: Request) -> Response:
    """Remove a user from the site; their reports are kept."""
    caller: Caller = request.state.caller
    return await change_as_administrator(
        request,
        "user-remove",
        RequestSite(site_id),
        lambda work: site_users.remove_member(work, caller, site_id, email),
        target=("user", email),
    )


@router.get("/sites/{site_id}/tokens", response_model=Rows)
async def list_tokens(site_id: str, request: Request) -> Response:
    """Return the tokens of a site's users, without their secrets."""
    return JSONResponse(await read_site(request, "tokens-read", site_id, site_users.tokens_of))


@router.post("/sites/{site_id}/tokens", response_model=dict[str, Any])
async def create_token(site_id: str, body: TokenBody, request: Request) -> Response:
    """Create a token for a user of the site; only this response contains its secret."""
    require_recent_proof(request)
    random_bytes = engine_of(request).random
    caller: Caller = request.state.caller
    return await change_as_administrator(
        request,
        "token-create",
        RequestSite(site_id),
        lambda work: site_users.make_token(
            work,
            caller,
            site_id,
            body.email,
            random_bytes,
            label=body.label,
            scopes=body.scopes,
            expires_days=body.expiresDays,
        ),
        target=("user", body.email),
    )


@router.delete("/sites/{site_id}/tokens/{token_id}", response_class=Response)
async def revoke_token(site_id: str, token_id: RowId, request: Request) -> Response:
    """Revoke a token of a user of the site, and the links issued with it."""
    caller: Caller = request.state.caller
    return await change_as_administrator(
        request,
        "token-revoke",
        RequestSite(site_id),
        lambda work: site_users.revoke(work, caller, site_id, token_id),
        target=("token", str(token_id)),
    )


@router.get("/sites/{site_id}/prelim-groups", response_model=Rows)
async def list_groups(site_id: str, request: Request) -> Response:
    """Return a site's prelim groups."""
    found = await read_site(
        request, "prelim-groups-read", site_id, site_settings.list_prelim_groups
    )
    return JSONResponse(found)


@router.post("/sites/{site_id}/prelim-groups", response_class=Response)
async def set_group(site_id: str, body: PrelimGroupBody, request: Request) -> Response:
    """Create or replace a prelim group."""
    return await change_as_administrator(
        request,
        "prelim-group-update",
        RequestSite(site_id),
        lambda work: site_settings.set_prelim_group(
            work.connection, site_id, body.name, body.tags, body.members, body.reviewers
        ),
        target=("prelim-group", body.name),
        state=audit_states.prelim_group(site_id, body.name),
    )


@router.delete("/sites/{site_id}/prelim-groups/{name}", response_class=Response)
async def delete_group(site_id: str, name: str, request: Request) -> Response:
    """Remove a prelim group; its preliminary reads are kept."""
    return await change_as_administrator(
        request,
        "prelim-group-delete",
        RequestSite(site_id),
        lambda work: site_settings.delete_prelim_group(work.connection, site_id, name),
        target=("prelim-group", name),
        state=audit_states.prelim_group(site_id, name),
    )


@router.get("/sites/{site_id}/templates", response_model=Rows)
async def list_templates(site_id: str, request: Request) -> Response:
    """Return a site's templates by number."""
    return JSONResponse(
        await read_site(request, "templates-read", site_id, site_settings.list_templates)
    )


@router.put("/sites/{site_id}/templates/{number}", response_class=Response)
async def set_template(
    site_id: str, number: TemplateNumber, body: TemplateBody, request: Request
) -> Response:
    """Create or replace a numbered template."""

    def read() -> dict[str, Any]:
        if body.document is not None:
            return to_json(read_document(body.document))
        text = body.text or ""
        if sum(map(text.count, "\n\r[")) > MAX_NODES:  # each becomes a node; counted before parsing
            detail = f"more than {MAX_NODES} lines and fields"
            raise EngineError(ErrorCode.BAD_DOCUMENT, detail, pointer="/text")
        return to_json(read_document(to_json(from_outline(text))))

    document = await engine_of(request).documents.run(read)
    return await change_as_administrator(
        request,
        "template-update",
        RequestSite(site_id),
        lambda work: site_settings.set_template(
            work.connection, site_id, number, body.name, document, work.now
        ),
        target=("template", str(number)),
        state=audit_states.template(site_id, number),
    )


@router.delete("/sites/{site_id}/templates/{number}", response_class=Response)
async def delete_template(site_id: str, number: TemplateNumber, request: Request) -> Response:
    """Remove a numbered template."""
    return await change_as_administrator(
        request,
        "template-delete",
        RequestSite(site_id),
        lambda work: site_settings.delete_template(work.connection, site_id, number),
        target=("template", str(number)),
        state=audit_states.template(site_id, number),
    )


audit_router = APIRouter(
    prefix="/api/admin", tags=["Administration"], route_class=AdminRoute, responses=problems()
)


@audit_router.get("/sites/{site_id}/audit", response_model=dict[str, Any])
async def read_audit(
    site_id: str, request: Request, filters: Annotated[AuditQuery, Query()]
) -> Response:
    """Return audit events of a site: the newest first, or with `after` the later ones in order."""
    query, after, limit = filters.to_query(site_id), filters.after, filters.limit
    rows = await read_site(
        request,
        "audit-read",
        site_id,
        lambda connection, _: (
            trail.read_newest(connection, query, limit)
            if after is None
            else trail.read_page(connection, query, after, limit)
        ),
    )
    return JSONResponse({"events": [row.as_json() for row in rows]})


@audit_router.get("/audit/verdict", response_model=dict[str, Any])
async def verify_audit(request: Request) -> Response:
    """Verify the hash chain of all sites; only with a service token. `broken`: null or place."""
    if not request.state.caller.service:
        raise EngineError(ErrorCode.FORBIDDEN)
    verdict = await engine_of(request).work.read(ENGINE_CHAIN.verify)
    return JSONResponse({"events": verdict.events, "head": verdict.head, "broken": verdict.broken})


texts_router = APIRouter(
    prefix="/api/admin", tags=["Administration"], route_class=AdminRoute, responses=problems()
)


@texts_router.get("/sites/{site_id}/templates/{number}/mrrt", response_model=dict[str, Any])
async def export_template(site_id: str, number: TemplateNumber, request: Request) -> Response:
    """Return a template as an IHE MRRT file: `html`."""
    found = await read_site(request, "template-read", site_id, site_settings.list_templates)
    template = next((row for row in found if row["number"] == number), None)
    if template is None:
        raise EngineError(ErrorCode.NOT_FOUND, "the site has no such template")
    name = template["name"]
    return JSONResponse({"name": name, "html": write_template(name, restore(template["document"]))})


@texts_router.put("/sites/{site_id}/templates/{number}/mrrt", response_class=Response)
async def import_template(
    site_id: str, number: TemplateNumber, body: MrrtBody, request: Request
) -> Response:
    """Create or replace a template from an IHE MRRT file; only its text and fields are used."""
    await require_site_administrator(request, RequestSite(site_id))
    try:
        title, document = await engine_of(request).documents.run(read_template, body.html)
    except (BadTemplate, BadDocument) as error:
        raise EngineError(ErrorCode.BAD_TEMPLATE, str(error), pointer="/html") from None
    name = body.name or title or f"Template {number}"
    return await change_as_administrator(
        request,
        "template-update",
        RequestSite(site_id),
        lambda work: site_settings.set_template(
            work.connection, site_id, number, name, to_json(document), work.now
        ),
        target=("template", str(number)),
        state=audit_states.template(site_id, number),
    )


@texts_router.get("/sites/{site_id}/code-map", response_model=list[dict[str, Any]])
async def read_code_map(site_id: str, request: Request) -> Response:
    """Return the site's billing code map."""
    rows = await read_site(request, "code-map-read", site_id, billing.code_map)
    return JSONResponse(
        [
            {
                "system": row.system.value,
                "match": row.match,
                "code": row.code,
                "description": row.description,
            }
            for row in rows
        ]
    )


@texts_router.put("/sites/{site_id}/code-map", response_class=Response)
async def set_code_map(site_id: str, body: CodeMapBody, request: Request) -> Response:
    """
    Replace the site's billing code map by a CSV: `system,match,code,description`.

    `system` is cpt (`match`: a ProcedureCode or StudyDescription) or icd10 (`match`: a phrase).
    """
    await require_site_administrator(request, RequestSite(site_id))
    rows = await engine_of(request).documents.run(billing.read_code_map, body.csv)
    return await change_as_administrator(
        request,
        "code-map-update",
        RequestSite(site_id),
        lambda work: billing.set_code_map(work.connection, site_id, rows),
        target=("code-map", site_id),
        state=audit_states.code_map(site_id),
        command={"rows": len(rows)},
    )


@texts_router.get("/sites/{site_id}/macros", response_model=list[dict[str, Any]])
async def list_macros(site_id: str, request: Request) -> Response:
    """Return the site's macros by trigger."""
    return JSONResponse(await read_site(request, "macros-read", site_id, macros.macros_of))


@texts_router.put("/sites/{site_id}/macros/{trigger}", response_class=Response)
async def set_macro(site_id: str, trigger: Trigger, body: MacroBody, request: Request) -> Response:
    """Create or replace a macro of the site."""
    content = body.content()
    return await change_as_administrator(
        request,
        "macro-update",
        RequestSite(site_id),
        lambda work: macros.set_macro(
            work.connection, site_id, None, trigger, body.name, content, work.now
        ),
        target=("macro", trigger),
        state=audit_states.macro(site_id, None, trigger),
    )


@texts_router.delete("/sites/{site_id}/macros/{trigger}", response_class=Response)
async def delete_macro(site_id: str, trigger: Trigger, request: Request) -> Response:
    """Remove a macro of the site."""
    return await change_as_administrator(
        request,
        "macro-delete",
        RequestSite(site_id),
        lambda work: macros.delete_macro(work.connection, site_id, None, trigger),
        target=("macro", trigger),
        state=audit_states.macro(site_id, None, trigger),
    )
