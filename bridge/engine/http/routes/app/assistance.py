"""What helps to write by voice and from key findings: recognition, and findings into their
sections.

Nothing here saves or signs: the page gets words, or a text with its suggestions marked.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from bridge.engine.http.models.fields import FindingsBody
from bridge.engine.http.models.responses import problems
from bridge.engine.http.pages.report_page import DeskDep
from bridge.engine.http.requests.guard import RecordingRoute, SessionRoute
from bridge.engine.launch.languages import LANGUAGES, language
from bridge.engine.model_endpoints import ModelFailed, NoRecognizer, place, transcribe
from bridge.engine.rules.text.document import to_json
from bridge.engine.rules.text.key_findings import NOWHERE, apply_template, headings, statements
from bridge.engine.service.sites.dictation_language import speech_language
from bridge.executors import Threads

PREFIX = "/reporting/api/session"
router = APIRouter(
    prefix=PREFIX, tags=["Report page"], route_class=SessionRoute, responses=problems(500)
)
recordings = APIRouter(
    prefix=PREFIX, tags=["Report page"], route_class=RecordingRoute, responses=problems(500)
)

Page = dict[str, Any]


@router.get("/dictation", response_model=Page)
async def dictation(desk: DeskDep) -> Response:
    """Return the language that is spoken, and which recognizers there are."""
    assistance = desk.engine.settings.assistance
    spoken = await desk.read(lambda work, editor: speech_language(work, editor, desk.session))
    return JSONResponse(
        {
            "language": spoken,
            "browser": assistance.browser_speech,
            "server": assistance.transcription is not None,
        }
    )


@recordings.post("/dictation", response_model=Page)
async def recognize(
    request: Request,
    desk: DeskDep,
    spoken: Annotated[str, Query(alias="language", max_length=35)] = LANGUAGES[0],
) -> Response:
    """Return the words of a recording (the body), as the installation's recognizer hears them."""
    endpoint = desk.engine.settings.assistance.transcription
    if endpoint is None:
        raise NoRecognizer
    await desk.read(lambda work, editor: None)  # the role may be gone
    media_type = request.headers.get("content-type", "")
    words = await transcribe(
        endpoint, await request.body(), media_type, language(spoken) or LANGUAGES[0]
    )
    return JSONResponse({"text": words})


@router.post("/findings", response_model=Page)
async def apply_findings(body: FindingsBody, desk: DeskDep) -> Response:
    """Return the text with the findings in its sections, each marked; nothing is saved."""
    document = body.content()
    endpoint = desk.engine.settings.assistance.placing
    await desk.read(lambda work, editor: None)  # the role may be gone
    places, by = NOWHERE, "rules"
    if endpoint is not None:
        try:
            places = await place(endpoint, headings(document), statements(body.findings))
            by = "model"
        except ModelFailed:
            by = "rules"
    applied = await Threads.DOCUMENTS.run(
        lambda: to_json(apply_template(document, body.findings, places))
    )
    return JSONResponse({"document": applied, "by": by})
