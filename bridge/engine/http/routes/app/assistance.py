"""
Writing assistance of the report page: speech recognition, and key findings put into sections.

Nothing is saved or signed here: the page gets text, with suggestions marked.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from bridge.engine.http.models.fields import FindingsBody
from bridge.engine.http.models.responses import problems
from bridge.engine.http.pages.report_page import ReportPageDep
from bridge.engine.http.requests.guard import RecordingRoute, SessionRoute
from bridge.engine.launch_request import LANGUAGES, language
from bridge.engine.model_endpoints import ModelFailed, NoRecognizer, place_lines, transcribe
from bridge.engine.rules.text.document import to_json
from bridge.engine.rules.text.key_findings import NO_PLACES, apply_template, headings, statements
from bridge.engine.service.signing.page_state import speech_language
from bridge.executors import Threads

PREFIX = "/reporting/api/session"
router = APIRouter(
    prefix=PREFIX, tags=["Report page"], route_class=SessionRoute, responses=problems(500)
)
recordings = APIRouter(
    prefix=PREFIX, tags=["Report page"], route_class=RecordingRoute, responses=problems(500)
)

PageJson = dict[str, Any]


@router.get("/dictation", response_model=PageJson)
async def dictation(page: ReportPageDep) -> Response:
    """Return the speech language and the available recognizers."""
    assistance = page.engine.settings.assistance
    spoken = await page.read(lambda work, editor, _: speech_language(work, editor, page.session))
    return JSONResponse(
        {
            "language": spoken,
            "browser": assistance.browser_speech,
            "server": assistance.transcription is not None,
        }
    )


@recordings.post("/dictation", response_model=PageJson)
async def recognize(
    request: Request,
    page: ReportPageDep,
    spoken: Annotated[str, Query(alias="language", max_length=35)] = LANGUAGES[0],
) -> Response:
    """Return the text of a recording (the body), by the configured recognizer."""
    endpoint = page.engine.settings.assistance.transcription
    if endpoint is None:
        raise NoRecognizer
    await page.read(lambda work, editor, _: None)  # checks the session and the role
    media_type = request.headers.get("content-type", "")
    words = await transcribe(
        endpoint, await request.body(), media_type, language(spoken) or LANGUAGES[0]
    )
    return JSONResponse({"text": words})


@router.post("/findings", response_model=PageJson)
async def apply_findings(body: FindingsBody, page: ReportPageDep) -> Response:
    """Return the text with the findings in its sections, marked as suggestions; saves nothing."""
    document = body.content()
    endpoint = page.engine.settings.assistance.placing
    await page.read(lambda work, editor, _: None)  # checks the session and the role
    places, by = NO_PLACES, "rules"
    if endpoint is not None:
        try:
            places = await place_lines(endpoint, headings(document), statements(body.findings))
            by = "model"
        except ModelFailed:
            by = "rules"
    applied = await Threads.DOCUMENTS.run(
        lambda: to_json(apply_template(document, body.findings, places))
    )
    return JSONResponse({"document": applied, "by": by})
