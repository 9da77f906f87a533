"""Launch and init requests: from their body to the use case and back, with links and QR codes.

Decides nothing about reports. Files and QR codes are worked on off the event loop.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

from fastapi import Request
from pydantic import ValidationError

from bridge.engine.documents.errors import QrTooLong
from bridge.engine.documents.qr import data_uri
from bridge.engine.errors import EngineError
from bridge.engine.http.engine_state import EngineState, engine_of
from bridge.engine.http.live.sync_launch import with_follow_outcome
from bridge.engine.http.models.fields import ResponseType
from bridge.engine.http.models.launch import (
    ClinicalInfo,
    InitBody,
    LaunchBody,
    QrCodeOptions,
    ResponseOptions,
)
from bridge.engine.http.requests.audit_events import audit_event, request_origin
from bridge.engine.http.requests.error_handlers import problem_of, validation_problem
from bridge.engine.http.requests.use_cases import actor_of
from bridge.engine.launch.errors import BadLaunch
from bridge.engine.launch.outcome import LaunchOutcome, LaunchWarning, SetAsideFile
from bridge.engine.launch.parser import LaunchParts, read_language, read_launch
from bridge.engine.launch.request import LaunchRequest, NamedUser
from bridge.engine.links import Purpose
from bridge.engine.live.launch_batcher import PendingLaunch
from bridge.engine.rules.timestamps import iso
from bridge.engine.service.launch.init_links import InitLink, InitRequest, issue_init_link
from bridge.engine.service.launch.launches import (
    BatchRefused,
    LaunchContext,
    audit_events_of,
    launch_all,
)
from bridge.engine.service.launch.links import LinkKeys
from bridge.engine.service.work import Work
from bridge.executors import Threads
from bridge.store.short_work import SHORT
from bridge.workers.documents import Budget

PATHS = {
    Purpose.LAUNCH: "/reporting/launch-report/clinical",
    Purpose.INIT: "/reporting/init",
    Purpose.SHARE: "/reporting/shared",
}


_AS_USUAL = QrCodeOptions()

FEW = SHORT
"""
So many launches of a batch, without files and QR codes, are read in the loop's turn.

They take about as long as to hand them over to a thread and back, where other threads compute.
"""

Result = TypeVar("Result")


def link_address(base_url: str, purpose: Purpose, handle: str) -> str:
    """Return the address that a handle is given out in."""
    return f"{base_url}{PATHS[purpose]}?token={handle}"


def launch_context_of(engine: EngineState, request: Request) -> LaunchContext:
    """Return what launches by this request's caller need."""
    vault = LinkKeys(engine.keys, engine.random)
    return LaunchContext(request.state.caller, vault, engine.settings.lifetimes)


async def launch(request: Request, body: LaunchBody) -> dict[str, Any]:
    """Carry out one launch; return the response's members."""
    engine, context = engine_of(request), launch_context_of(engine_of(request), request)
    options = qr_options(body.response)
    wanted = await _understood(engine, body)
    launched = await engine.launches.launch(PendingLaunch(context, wanted, request_origin(request)))
    outcome = await with_follow_outcome(engine, launched)
    base, kind = engine.base_url(request), body.response.type
    if kind is ResponseType.LINK:
        return launch_response(outcome, kind, options, base)
    return await engine.work.run(lambda: launch_response(outcome, kind, options, base))


async def _understood(engine: EngineState, body: LaunchBody) -> LaunchRequest:
    """Read a launch: where there are files, in a thread."""
    parts, sizes = _parts(body), engine.settings.sizes
    if parts.structured_reports or parts.key_images:
        return await Threads.DOCUMENTS.run(read_launch, parts, sizes)
    return read_launch(parts, sizes)


async def launch_batch(request: Request, bodies: list[Any]) -> list[dict[str, Any]]:
    """Carry out many launches in one transaction; return a response or a problem for each."""
    engine, context = engine_of(request), launch_context_of(engine_of(request), request)
    long = any(map(_takes_long, bodies))
    quick = len(bodies) <= FEW and not long
    budget = Budget()

    def read_all() -> list[_Read | EngineError | ValidationError]:
        return [_read(engine, each, budget) for each in bodies]

    read = await (Threads.DOCUMENTS.run(read_all) if long else _done(engine, read_all, quick=quick))
    wanted = [each[1] for each in read if isinstance(each, tuple)]

    def apply(work: Work, *, at_once: bool) -> list[LaunchOutcome | EngineError]:
        outcomes = launch_all(work, context, wanted, at_once=at_once)
        work.audit_events += audit_events_of(context, wanted, outcomes, request_origin(request))
        return outcomes

    actor, now = actor_of(context.caller), engine.clock()
    try:
        outcomes = await engine.work.change(actor, now, partial(apply, at_once=True), brief=quick)
    except BatchRefused:  # hardly ever: a savepoint for each batch would cost more
        outcomes = await engine.work.change(actor, now, partial(apply, at_once=False))
    base, request_id = engine.base_url(request), request.state.request_id

    def answers() -> list[dict[str, Any]]:
        each_outcome = iter(outcomes)
        return [
            _answer_of(one, each_outcome, base, f"{request.url.path}#{index}", request_id)
            for index, one in enumerate(read)
        ]

    return await _done(engine, answers, quick=not long)


async def _done(engine: EngineState, work: Callable[[], Result], *, quick: bool) -> Result:
    return work() if quick else await engine.work.run(work)


def _takes_long(body: object) -> bool:
    """Tell whether a launch that nobody has read yet bears files, or wants more than a link."""
    if not isinstance(body, dict):
        return False
    wanted = body.get("response")
    link = not isinstance(wanted, dict) or wanted.get("type", "link") == "link"
    return not link or bool(body.get("dicomSR") or body.get("keyImages"))


_Read = tuple[LaunchBody, LaunchRequest, QrCodeOptions]


def _read(engine: EngineState, item: Any, budget: Budget) -> _Read | EngineError | ValidationError:
    try:
        body = LaunchBody.model_validate(item)
        options = qr_options(body.response)
        parts = _parts(body, body.linkGroup)
        return body, read_launch(parts, engine.settings.sizes, budget), options
    except (ValidationError, EngineError) as error:
        return error


def _answer_of(
    one: _Read | EngineError | ValidationError,
    outcomes: Iterator[LaunchOutcome | EngineError],
    base: str,
    instance: str,
    request_id: str,
) -> dict[str, Any]:
    if isinstance(one, ValidationError):
        errors = [{**each, "loc": ("body", *each["loc"])} for each in one.errors()]
        return validation_problem(errors).body(instance=instance, request_id=request_id)
    if isinstance(one, EngineError):
        return problem_of(one).body(instance=instance, request_id=request_id)
    body, _, options = one
    outcome = next(outcomes)
    if isinstance(outcome, EngineError):
        return problem_of(outcome).body(instance=instance, request_id=request_id)
    return launch_response(outcome, body.response.type, options, base)


def qr_options(response: ResponseOptions) -> QrCodeOptions:
    """Return the options of the QR code; they are not even looked at where none is wanted."""
    if response.type is ResponseType.LINK or response.qrCodeOptions is None:
        return _AS_USUAL
    try:
        return QrCodeOptions.model_validate(response.qrCodeOptions)
    except ValidationError:
        detail = "qrCodeOptions: size is standard or mini, mode is light or dark"
        raise BadLaunch("bad_qr_options", detail, pointer="/response/qrCodeOptions") from None


def _parts(body: LaunchBody, link_group: str = "") -> LaunchParts:
    # `dict(model)` asks the model for keys() first, which costs ten times as much.
    info = dict(vars(body.clinicalInfo))
    user = None if body.userInfo is None else dict(vars(body.userInfo))
    return LaunchParts(
        clinical_info=info,
        reporting_app=dict(vars(body.reportingApp)),
        user_info=user,
        structured_reports=[each.fileData for each in body.dicomSR or ()],
        key_images=[
            (each.imageData, each.contentType, each.fileName) for each in body.keyImages or ()
        ],
        lazy=body.lazyLaunch,
        register_order=body.registerOrder,
        force_name=body.forceUpdatePatientName,
        emptied=[name for name in body.clinicalInfo.model_fields_set if info[name] == ""],
        link_group=link_group,
    )


def launch_response(
    outcome: LaunchOutcome, wanted: ResponseType, options: QrCodeOptions, base_url: str
) -> dict[str, Any]:
    """Return the members of a launch response (interface document, launch; both QR spellings)."""
    link = link_address(base_url, Purpose.LAUNCH, outcome.handle)
    name, email = outcome.owner or ("", "")
    members: dict[str, Any] = {
        "status": outcome.status.value,
        "owner": {"name": name, "email": email} if outcome.owner else {},
    }
    if wanted is not ResponseType.QRCODE:
        members["reportLink"] = link
    if wanted is not ResponseType.LINK:
        members["reportQRCode"] = members["reportQrCode"] = _qr_code(link, options)
    return members | {
        "reportStatus": outcome.report_status.value if outcome.report_status else None,
        "reportId": outcome.report_id,
        **warnings_of(outcome.warnings, outcome.set_aside),
    }


def warnings_of(cautions: Iterable[LaunchWarning], files: Sequence[SetAsideFile]) -> dict[str, Any]:
    """Return `warnings`, and for files of another patient `filesSetAside`."""
    members: dict[str, Any] = {"warnings": [each.value for each in cautions]}
    return members | ({"filesSetAside": [each.as_json() for each in files]} if files else {})


def _qr_code(link: str, options: QrCodeOptions) -> str:
    try:
        return data_uri(link, options.size, options.mode)
    except QrTooLong:
        detail = "the service's public address is too long for a QR code of this size"
        raise BadLaunch("qr_too_long", detail, pointer="/response/qrCodeOptions/size") from None


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


async def issue(engine: EngineState, request: Request, wanted: InitRequest) -> InitLink:
    """Issue a session link on the authority of the request's caller."""
    caller = request.state.caller

    def apply(work: Work) -> InitLink:
        prepared = issue_init_link(
            work, caller, LinkKeys(engine.keys, engine.random), engine.settings.lifetimes, wanted
        )
        work.note(audit_event(request, "init", wanted.site_id))
        return prepared

    return await engine.work.change(actor_of(caller), engine.clock(), apply)


def session_link(base_url: str, prepared: InitLink) -> str:
    """Return the session link as the interface document writes it, values URL-encoded."""
    languages = (
        f"&AppLanguage={quote(prepared.app_language)}"
        f"&SpeechLanguage={quote(prepared.speech_language)}"
    )
    return link_address(base_url, Purpose.INIT, prepared.handle) + languages


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
