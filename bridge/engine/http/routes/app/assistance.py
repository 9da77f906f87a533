"""
Writing assistance of the report page: speech recognition, and key findings put into sections.

Nothing is saved or signed here: the page gets text, with suggestions marked. The models are
OpenAI-compatible endpoints that the installation chooses. A language model returns only numbers of
lines and headings, so its words never enter a report. Recordings are relayed to the endpoint
and neither stored nor logged.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Final

from fastapi import Query, Request
from pydantic import Field
from starlette.responses import JSONResponse, Response

from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.http.outgoing_requests import RequestFailed, request_object
from bridge.engine.http.report_page import ReportPageDep
from bridge.engine.http.requests.guard import RecordingRoute, session_router
from bridge.engine.http.routes.app.report import TextBody
from bridge.engine.launch import LANGUAGES, supported_language
from bridge.engine.rules.text.document import to_json
from bridge.engine.rules.text.key_findings import NO_PLACES, apply_template, headings, statements
from bridge.engine.service.reports import files
from bridge.engine.service.signing.page_actions import speech_language
from bridge.engine.settings import ModelEndpoint


async def call(endpoint: ModelEndpoint, **content: Any) -> Any:
    """
    Return the JSON object of a POST; `content` are arguments of httpx (`json`, `files`, `data`).

    Raises `model_failed` for anything but a JSON object.
    """
    headers = {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
    try:
        return await request_object(
            "POST", endpoint.url, seconds=endpoint.seconds, headers=headers, **content
        )
    except RequestFailed:
        raise EngineError(ErrorCode.MODEL_FAILED) from None


_TASK: Final = (
    "You sort lines of radiology findings under the headings of a report. "
    'Answer only with JSON: {"places": [[line, heading], …]}, both as the numbers given. '
    "Leave out lines that fit no heading."
)


async def place_lines(
    endpoint: ModelEndpoint, headings: Sequence[str], lines: Sequence[str]
) -> Mapping[str, str]:
    """
    Return a heading for each line that the model placed; rules place the other lines.

    Raises `model_failed` if the response is not as requested.
    """
    if not headings or not lines:
        return {}
    numbered = {"headings": dict(enumerate(headings)), "lines": dict(enumerate(lines))}
    found = await call(
        endpoint,
        json={
            "model": endpoint.model,
            "temperature": 0,
            "response_format": {"type": "json_object"},
            "messages": [
                {"role": "system", "content": _TASK},
                {"role": "user", "content": json.dumps(numbered, ensure_ascii=False)},
            ],
        },
    )
    return {lines[line]: headings[at] for line, at in _pairs(found, len(lines), len(headings))}


def _pairs(response: Any, lines: int, headings: int) -> Iterator[tuple[int, int]]:
    """Yield the pairs of line and heading numbers that are in range."""
    try:
        pairs = json.loads(response["choices"][0]["message"]["content"])["places"]
    except (LookupError, TypeError, ValueError):
        raise EngineError(ErrorCode.MODEL_FAILED) from None
    if not isinstance(pairs, list):
        raise EngineError(ErrorCode.MODEL_FAILED)
    for pair in pairs:
        match pair:
            case [int(line), int(at)] if 0 <= line < lines and 0 <= at < headings:
                yield line, at
            case _:
                continue


SUFFIXES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "audio/webm": "webm",
        "audio/ogg": "ogg",
        "audio/mp4": "mp4",
        "audio/wav": "wav",
        "audio/mpeg": "mp3",
    }
)
"""Media types that browsers record (MediaRecorder), and their file suffixes for recognizers."""


async def transcribe(
    endpoint: ModelEndpoint, recording: bytes, media_type: str, language: str
) -> str:
    """
    Return the text of a recording; `language` is one of the 17 codes.

    Raises `not_a_recording` for a media type that no browser records, and `model_failed` if the
    endpoint returns no text.
    """
    kind = media_type.partition(";")[0].strip().lower()
    suffix = SUFFIXES.get(kind)
    if suffix is None or not recording:
        raise EngineError(ErrorCode.NOT_A_RECORDING)
    found = await call(
        endpoint,
        files={"file": (f"speech.{suffix}", recording, kind)},
        data={
            "model": endpoint.model,
            "language": language.partition("-")[0],
            "response_format": "json",
        },
    )
    text = found.get("text")
    if not isinstance(text, str):
        raise EngineError(ErrorCode.MODEL_FAILED)
    return text.strip()


router = session_router()
recordings = session_router(RecordingRoute)

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
        raise EngineError(ErrorCode.NO_RECOGNIZER)
    await page.read(lambda work, editor, _: None)  # checks the role on the site
    media_type = request.headers.get("content-type", "")
    text = await transcribe(
        endpoint, await request.body(), media_type, supported_language(spoken) or LANGUAGES[0]
    )
    return JSONResponse({"text": text})


class FindingsBody(TextBody):
    """The current text, and key findings to insert into its sections."""

    findings: str = Field(max_length=100_000)


@router.post("/findings", response_model=PageJson)
async def apply_findings(body: FindingsBody, page: ReportPageDep) -> Response:
    """Return the text with the findings in its sections, marked as suggestions; saves nothing."""
    document = body.content()
    endpoint = page.engine.settings.assistance.placing
    groups = await page.read(files.groups_of_page)
    places, by = NO_PLACES, "rules"
    if endpoint is not None:
        try:
            lines = [line for line in statements(body.findings) if line not in groups]
            places = await place_lines(endpoint, headings(document), lines)
            by = "model"
        except EngineError:  # the model failed
            by = "rules"
    applied = await page.engine.documents.run(
        lambda: to_json(apply_template(document, body.findings, places, groups))
    )
    return JSONResponse({"document": applied, "by": by})
