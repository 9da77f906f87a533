"""
`launch/clinical`, its batch form, and `init`.

The rules of a launch are in `bridge.engine.service.launch`. Files are parsed and QR codes are drawn
in worker threads, not on the event loop.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Body, Request
from pydantic import ValidationError
from starlette.responses import Response

from bridge.contract.errors import ErrorCode
from bridge.contract.requests import (
    LAUNCH_EXAMPLE,
    ClinicalInfo,
    InitBody,
    LaunchBody,
    QrCodeOptions,
    ResponseOptions,
    ResponseType,
)
from bridge.contract.responses import InitResponse, LaunchResponse, ProblemBody
from bridge.engine.documents.errors import QrTooLong
from bridge.engine.documents.qr import data_uri
from bridge.engine.errors import EngineError
from bridge.engine.http.engine_state import EngineState, engine_of
from bridge.engine.http.requests.audit_events import audit_event, request_origin
from bridge.engine.http.requests.error_handlers import validation_problem
from bridge.engine.http.requests.guard import LaunchRoute
from bridge.engine.http.requests.response_bodies import FastJsonResponse, problem_of, problems
from bridge.engine.http.requests.use_cases import actor_of
from bridge.engine.http.window_handover import with_follow_outcome
from bridge.engine.launch import LaunchInput, LaunchOutcome, NamedUser, file_lists
from bridge.engine.launch_parser import read_language, read_launch
from bridge.engine.links import Purpose, link_address
from bridge.engine.rules.timestamps import iso
from bridge.engine.service.launch.launches import LaunchContext, audit_events_of, launch_all
from bridge.engine.service.launch.links import InitLink, InitRequest, issue_init_link
from bridge.engine.service.work import Work
from bridge.workers.pool import ParsingBudget

router = APIRouter(prefix="/api/report", tags=["Launch"], route_class=LaunchRoute)

_DEFAULT_QR_OPTIONS = QrCodeOptions()


def _launch_context(request: Request) -> LaunchContext:
    """Return the caller, link keys and lifetimes for the launches of a request."""
    links = engine_of(request).link_context()
    return LaunchContext(request.state.caller, links.link_keys, links.lifetimes)


@router.post("/launch/clinical", response_model=LaunchResponse, responses=problems())
async def launch(body: LaunchBody, request: Request) -> Response:
    """Create or retrieve a report and return its link, QR code, or both."""
    engine, context = engine_of(request), _launch_context(request)
    options = _qr_options(body.response)
    launch_request = await _parse_launch(engine, body)

    def apply(work: Work) -> LaunchOutcome:
        (outcome,) = launch_all(work, context, [launch_request])
        if isinstance(outcome, EngineError):
            raise outcome
        work.audit_events += audit_events_of(
            context, [launch_request], [outcome], request_origin(request)
        )
        return outcome

    launched = await engine.work.change(actor_of(context.caller), engine.clock(), apply)
    outcome = await with_follow_outcome(engine, launched)
    base, kind = engine.base_url(request), body.response.type
    if kind is ResponseType.LINK:
        return FastJsonResponse(_launch_response(outcome, kind, options, base))
    return FastJsonResponse(
        await engine.work.run(lambda: _launch_response(outcome, kind, options, base))
    )


async def _parse_launch(engine: EngineState, body: LaunchBody) -> LaunchInput:
    """Parse a launch; one with files is parsed in a worker thread."""
    sizes = engine.settings.sizes
    if body.dicomSR or body.keyImages:
        return await engine.documents.run(read_launch, body, sizes)
    return read_launch(body, sizes)


@router.post(
    "/launch/clinical/batch",
    response_model=list[LaunchResponse | ProblemBody],
    responses=problems(),
    openapi_extra={"x-addition": True},
)
async def launch_batch(
    request: Request,
    bodies: Annotated[
        list[Any],
        Body(
            description="Launch requests, each as for a single launch",
            min_length=1,
            examples=[[LAUNCH_EXAMPLE]],
        ),
    ],
) -> Response:
    """Launch many reports in one transaction: a response or a problem body for each, in order."""
    engine, context = engine_of(request), _launch_context(request)
    limit = engine.settings.sizes.batch
    if len(bodies) > limit:
        detail = f"at most {limit} launches in one request"
        raise EngineError(ErrorCode.BATCH_TOO_LARGE, detail, errors=[("", detail)])
    has_slow = any(map(_is_slow, bodies))
    budget = ParsingBudget()

    def parse_all() -> list[_ParsedLaunch | EngineError | ValidationError]:
        return [_parse_item(engine, body, budget) for body in bodies]

    parsed = await engine.documents.run(parse_all) if has_slow else parse_all()
    launches = [item[1] for item in parsed if isinstance(item, tuple)]

    def apply(work: Work) -> list[LaunchOutcome | EngineError]:
        outcomes = launch_all(work, context, launches)
        work.audit_events += audit_events_of(context, launches, outcomes, request_origin(request))
        return outcomes

    outcomes = await engine.work.change(actor_of(context.caller), engine.clock(), apply)
    base, request_id = engine.base_url(request), request.state.request_id

    def responses() -> list[LaunchResponse | ProblemBody]:
        remaining = iter(outcomes)
        return [
            _response_of(item, remaining, base, f"{request.url.path}#{index}", request_id)
            for index, item in enumerate(parsed)
        ]

    return FastJsonResponse(await engine.work.run(responses) if has_slow else responses())


def _is_slow(body: object) -> bool:
    """True if the unparsed body of a launch has files or asks for a QR code."""
    if not isinstance(body, dict):
        return False
    response = body.get("response")
    link_only = not isinstance(response, dict) or response.get("type", "link") == "link"
    return not link_only or bool(body.get("dicomSR") or body.get("keyImages"))


_ParsedLaunch = tuple[LaunchBody, LaunchInput, QrCodeOptions]


def _parse_item(
    engine: EngineState, item: Any, budget: ParsingBudget
) -> _ParsedLaunch | EngineError | ValidationError:
    try:
        body = LaunchBody.model_validate(item)
        options = _qr_options(body.response)
        return body, read_launch(body, engine.settings.sizes, budget, body.linkGroup), options
    except (ValidationError, EngineError) as error:
        return error


def _response_of(
    parsed: _ParsedLaunch | EngineError | ValidationError,
    outcomes: Iterator[LaunchOutcome | EngineError],
    base: str,
    instance: str,
    request_id: str,
) -> LaunchResponse | ProblemBody:
    """Return the response or problem of one launch; a parsed one takes the next of `outcomes`."""
    if isinstance(parsed, ValidationError):
        errors = [{**error, "loc": ("body", *error["loc"])} for error in parsed.errors()]
        return problem_of(validation_problem(errors), instance, request_id)
    if isinstance(parsed, EngineError):
        return problem_of(parsed, instance, request_id)
    body, _, options = parsed
    outcome = next(outcomes)
    if isinstance(outcome, EngineError):
        return problem_of(outcome, instance, request_id)
    return _launch_response(outcome, body.response.type, options, base)


def _qr_options(response: ResponseOptions) -> QrCodeOptions:
    """Return the options of the QR code; they are not validated if no QR code is requested."""
    if response.type is ResponseType.LINK or response.qrCodeOptions is None:
        return _DEFAULT_QR_OPTIONS
    try:
        return QrCodeOptions.model_validate(response.qrCodeOptions)
    except ValidationError:
        raise EngineError(ErrorCode.BAD_QR_OPTIONS, pointer="/response/qrCodeOptions") from None


def _launch_response(
    outcome: LaunchOutcome, response_type: ResponseType, options: QrCodeOptions, base_url: str
) -> LaunchResponse:
    """Return the response to a launch; the QR code has both spellings of its name."""
    link = link_address(base_url, Purpose.LAUNCH, outcome.handle)
    name, email = outcome.owner or ("", "")
    members: dict[str, Any] = {
        "status": outcome.status,
        "owner": {"name": name, "email": email} if outcome.owner else {},
    }
    if response_type is not ResponseType.QRCODE:
        members["reportLink"] = link
    if response_type is not ResponseType.LINK:
        members["reportQRCode"] = members["reportQrCode"] = _qr_code(link, options)
    members |= {
        "reportStatus": outcome.report_status.value if outcome.report_status else None,
        "reportId": outcome.report_id,
        "warnings": [warning.value for warning in outcome.warnings],
        **file_lists(outcome.file_warnings),
    }
    return LaunchResponse.model_validate(members)


def _qr_code(link: str, options: QrCodeOptions) -> str:
    try:
        return data_uri(link, options.size, options.mode)
    except QrTooLong:
        detail = "the service's public address is too long for a QR code of this size"
        raise EngineError(
            ErrorCode.QR_TOO_LONG, detail, pointer="/response/qrCodeOptions/size"
        ) from None


STUDY_FIELDS = frozenset(ClinicalInfo.model_fields) - {"SiteID", "SiteLocation"} | {
    "dicomSR",
    "keyImages",
}


@router.post("/init", response_model=InitResponse, responses=problems(), tags=["Init"])
async def init(body: InitBody, request: Request) -> Response:
    """Issue a short-lived link that pre-warms an embedded session; creates no report."""
    engine = engine_of(request)
    prepared = await issue_session_link(engine, request, _init_request(body))
    base = engine.base_url(request)
    return FastJsonResponse(
        InitResponse(
            session_link=session_link(base, prepared),
            expires_at=iso(prepared.expires_at),
            warnings=list(prepared.warnings) or None,
        )
    )


async def issue_session_link(engine: EngineState, request: Request, init: InitRequest) -> InitLink:
    caller, links = request.state.caller, engine.link_context()

    def apply(work: Work) -> InitLink:
        prepared = issue_init_link(work, caller, links.link_keys, links.lifetimes, init)
        work.audit(audit_event(request, "init", init.site_id))
        return prepared

    return await engine.work.change(actor_of(caller), engine.clock(), apply)


def session_link(base_url: str, prepared: InitLink) -> str:
    """Return the address of a session link with its languages, URL-encoded."""
    languages = (
        f"&AppLanguage={quote(prepared.app_language)}"
        f"&SpeechLanguage={quote(prepared.speech_language)}"
    )
    return link_address(base_url, Purpose.INIT, prepared.handle) + languages


def _init_request(body: InitBody) -> InitRequest:
    info = body.clinicalInfo
    refuse_study_members((info.model_extra or {}).items(), "/clinicalInfo")
    refuse_study_members((body.model_extra or {}).items(), "")
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


def refuse_study_members(members: Iterable[tuple[str, Any]], place: str) -> None:
    """Raise `EngineError` for a patient or study member that has a value."""
    for name, value in members:
        empty = not value.strip() if isinstance(value, str) else value in (None, [], {})
        if name in STUDY_FIELDS and not empty:
            detail = f"{name} belongs to a launch, not to a pre-warmed session"
            raise EngineError(ErrorCode.STUDY_NOT_ACCEPTED, detail, pointer=f"{place}/{name}")
