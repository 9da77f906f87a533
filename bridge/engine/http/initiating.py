"""Between `POST /api/report/init` and the use case: shape, languages, the session link."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from fastapi import Request

from bridge.engine.http.acting import actor_of
from bridge.engine.http.auditing import deed_of
from bridge.engine.http.launching import link_to
from bridge.engine.http.models.launch import ClinicalInfo, InitBody
from bridge.engine.http.state import Engine, engine_of
from bridge.engine.launching.errors import BadLaunch
from bridge.engine.launching.reading import read_language
from bridge.engine.launching.request import NamedUser
from bridge.engine.links.handles import Purpose
from bridge.engine.rules.moments import iso
from bridge.engine.service.initiation import InitRequest, Prepared, prepare
from bridge.engine.service.links import Vault
from bridge.engine.service.work import Work

STUDY_FIELDS = frozenset(ClinicalInfo.model_fields) - {"SiteID", "SiteLocation"} | {
    "dicomSR",
    "keyImages",
}


async def prepare_session(request: Request, body: InitBody) -> dict[str, Any]:
    """Issue the session link; return the response's members."""
    engine = engine_of(request)
    prepared = await issue(engine, request, _wanted(body))
    base = engine.base_url(request)
    return {
        "sessionLink": session_link(base, prepared),
        "expiresAt": iso(prepared.expires_at),
        **({"warnings": list(prepared.warnings)} if prepared.warnings else {}),
    }


async def issue(engine: Engine, request: Request, wanted: InitRequest) -> Prepared:
    """Issue a session link on the authority of the request's caller."""
    caller = request.state.caller

    def deed(work: Work) -> Prepared:
        prepared = prepare(
            work, caller, Vault(engine.keys, engine.random), engine.settings.lifetimes, wanted
        )
        work.note(deed_of(request, "init", wanted.site_id))
        return prepared

    return await engine.work.change(actor_of(caller), engine.clock(), deed)


def session_link(base_url: str, prepared: Prepared) -> str:
    """Return the session link as the interface document writes it, values URL-encoded."""
    languages = (
        f"&AppLanguage={quote(prepared.app_language)}"
        f"&SpeechLanguage={quote(prepared.speech_language)}"
    )
    return link_to(base_url, Purpose.INIT, prepared.handle) + languages


def _wanted(body: InitBody) -> InitRequest:
    info = body.clinicalInfo
    refuse_study((info.model_extra or {}).items(), "/clinicalInfo")
    refuse_study((body.model_extra or {}).items(), "")
    app = body.reportingApp
    return InitRequest(
        site_id=info.SiteID,
        user=NamedUser(body.userInfo.UserEmail, body.userInfo.UserName),
        location=info.SiteLocation,
        authority=body.userInfo.Auth,
        app_language=read_language(
            info.AppLanguage or (app.AppLanguage if app else None), "/clinicalInfo/AppLanguage"
        ),
        speech_language=read_language(
            info.SpeechLanguage or (app.SpeechLanguage if app else None),
            "/clinicalInfo/SpeechLanguage",
        ),
    )


def refuse_study(members: Iterable[tuple[str, Any]], place: str) -> None:
    """Raise `BadLaunch` for a patient or study member with a value; empty ones are ignored."""
    for name, value in members:
        empty = not value.strip() if isinstance(value, str) else value in (None, [], {})
        if name in STUDY_FIELDS and not empty:
            detail = f"{name} belongs to a launch, not to a pre-warmed session"
            raise BadLaunch("study_not_accepted", detail, pointer=f"{place}/{name}")
