"""Dictation and findings on the report page, with and without configured models."""

import asyncio
import base64
import json
import logging
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest

from bridge.engine.rules.text.document import from_text, parse, to_json
from bridge.engine.rules.text.plain_text import plain_text
from bridge.engine.settings import ModelEndpoint, WritingAids
from bridge.metrics import Metrics
from bridge.runtime.web_server import Probes, Readiness
from parsers.limits import META_INFORMATION, STRUCTURED_REPORT, TABLE, TEMPLATE
from tests.bridge.engine.http.engine_service import (
    ADMIN,
    BASE,
    READER,
    Page,
    Service,
    identity,
    launch_body,
)
from tests.bridge.engine.http.model_server import Model, listening

SPEECH = b"\x1aE\xdf\xa3 spoken"
TEXT = "Findings:\nLungs: clear\nHeart:\nImpression:"


@pytest.fixture
def model() -> Iterator[Model]:
    with listening(Model()) as model:
        yield model


def configure_models(service: Service, **assistance: Any) -> None:
    engine = service.application.state.engine
    engine.settings = replace(engine.settings, assistance=WritingAids(**assistance))


def dictate(
    page: Page, data: bytes = SPEECH, kind: str = "audio/webm;codecs=opus"
) -> httpx.Response:
    headers = {"content-type": kind}
    return page.call("POST", "dictation?language=de-DE", headers=headers, content=data)


def applied(page: Page, findings: str, text: str = TEXT) -> dict[str, Any]:
    sent = {"document": to_json(from_text(text)), "findings": findings}
    response: dict[str, Any] = page("findings", sent).json()
    return response


def test_without_a_recognizer_the_browser_recognizes_speech(service: Service) -> None:
    """A recording is refused."""
    page = service.page(service.launch(reportingApp={"SpeechLanguage": "fr-CA"}))
    assert page("dictation").json() == {"language": "fr-CA", "browser": True, "server": False}
    assert (dictate(page).status_code, dictate(page).json()["code"]) == (404, "no_recognizer")


def test_the_default_speech_language_is_the_app_language(service: Service) -> None:
    """It applies if the launch has no speech language."""
    page = service.page(service.launch(reportingApp={"AppLanguage": "ja-JP"}))
    assert page("dictation").json()["language"] == "ja-JP"


def test_a_recording_is_relayed_and_its_text_is_returned(service: Service, model: Model) -> None:
    """The request is a form with file, model and language; the key is the bearer token."""
    configure_models(service, transcription=ModelEndpoint(model.url, "hear-1", "sesame"))
    page = service.page(service.launch())
    assert page("dictation").json()["server"] is True
    model.response = {"text": " Keine Auffälligkeiten. "}
    assert dictate(page).json() == {"text": "Keine Auffälligkeiten."}
    headers, body = model.requests[0]
    assert headers["authorization"] == "Bearer sesame"
    assert headers["content-type"].startswith("multipart/form-data")
    assert SPEECH in body
    assert b'filename="speech.webm"' in body
    assert b"hear-1" in body
    assert b'name="language"\r\n\r\nde\r\n' in body


@pytest.mark.parametrize(
    ("response", "status"),
    [({"no": "text"}, 200), ({"text": "x"}, 500), ({"text": "x" * 2**20}, 200)],
    ids=["no text", "an error", "too large"],
)
def test_a_failed_recognizer_is_reported_without_its_text(
    service: Service, model: Model, caplog: pytest.LogCaptureFixture, response: Any, status: int
) -> None:
    """502; neither the recording nor the response is logged."""
    caplog.set_level(logging.DEBUG)
    configure_models(service, transcription=ModelEndpoint(model.url, "hear-1"))
    page = service.page(service.launch())
    model.response, model.status = response, status
    found = dictate(page)
    assert (found.status_code, found.json()["code"]) == (502, "model_failed")
    assert "spoken" not in caplog.text


def test_an_endless_response_of_a_model_times_out(service: Service, model: Model) -> None:
    """The timeout covers the complete response."""
    model.drips = True
    unreachable = "http://127.0.0.1:1/v1/it"
    page = service.page(service.launch())
    for url in (model.url, unreachable):
        configure_models(service, transcription=ModelEndpoint(url, "hear-1", seconds=0.5))
        assert (dictate(page).status_code, dictate(page).json()["code"]) == (502, "model_failed")
        configure_models(service, placing=ModelEndpoint(url, "place-1", seconds=0.5))
        assert applied(page, "Nodule in the left lung.")["by"] == "rules"


def test_only_recordings_of_a_session_are_recognized(service: Service, model: Model) -> None:
    """Without session, without audio, empty or too large: the recognizer gets no request."""
    configure_models(service, transcription=ModelEndpoint(model.url, "hear-1"))
    page = service.page(service.launch())
    assert dictate(Page(service, "unknown")).status_code == 401
    assert dictate(page, kind="text/plain").status_code == 415
    assert dictate(page, b"").status_code == 415
    limit = service.application.state.engine.settings.sizes.recording
    assert dictate(page, b"x" * (limit + 1)).status_code == 413
    assert model.requests == []


def test_findings_are_inserted_into_the_sections_once(service: Service) -> None:
    """By rules and marked as suggested; a second time changes nothing; nothing is saved."""
    page = service.page(service.launch())
    first = applied(page, "Heart: enlarged\n- Nodule in the left lung.")
    text = plain_text(parse(first["document"]))
    assert first["by"] == "rules"
    assert text == "Findings:\nLungs: Nodule in the left lung.\nHeart:\nenlarged\nImpression:"
    marked = [
        run["text"]
        for block in first["document"]["content"]
        for run in block["content"]
        if run.get("marks") == ["suggested"]
    ]
    assert marked == ["Nodule in the left lung.", "enlarged"]
    sent = {
        "document": first["document"],
        "findings": "Heart: enlarged\n- Nodule in the left lung.",
    }
    assert page("findings", sent).json()["document"] == first["document"]
    assert page("report").json()["content"] == ""


def test_a_model_selects_only_the_sections(service: Service, model: Model) -> None:
    """The model returns section numbers; other members of its response are ignored."""
    configure_models(service, placing=ModelEndpoint(model.url, "place-1"))
    page = service.page(service.launch())
    places = {"places": [[0, 3], [0, 99], ["x", 1], [True]], "words": "made up"}
    model.response = {"choices": [{"message": {"content": json.dumps(places)}}]}
    found = applied(page, "Small nodule.")
    assert found["by"] == "model"
    assert plain_text(parse(found["document"])).endswith("Impression:\nSmall nodule.")
    request = json.loads(model.requests[0][1])
    assert request["model"] == "place-1"
    assert "clear" not in request["messages"][1]["content"]


def test_the_rules_replace_a_failed_model(service: Service, model: Model) -> None:
    """An invalid response counts as a failure."""
    configure_models(service, placing=ModelEndpoint(model.url, "place-1"))
    page = service.page(service.launch())
    model.response = {"choices": []}
    found = applied(page, "Nodule in the left lung.")
    assert found["by"] == "rules"
    assert "Lungs: Nodule" in plain_text(parse(found["document"]))


PREAMBLE = bytes(128) + b"DICM"
UNDEFINED = 0xFFFFFFFF


def element(group: int, number: int, kind: bytes, value: bytes) -> bytes:
    head = struct.pack("<HH2s", group, number, kind)
    if kind in (b"SQ", b"UT", b"UN"):
        return head + struct.pack("<HI", 0, len(value)) + value
    return head + struct.pack("<H", len(value)) + value


def item(value: bytes) -> bytes:
    return struct.pack("<HHI", 0xFFFE, 0xE000, len(value)) + value


META = element(2, 0x10, b"UI", b"1.2.840.10008.1.2.1\0")
HEAD = element(8, 0x16, b"UI", b"1.2.840.10008.5.1.4.1.1.88.11\0") + element(
    8, 0x18, b"UI", b"1.2.3\0"
)
OPEN = struct.pack("<HH2sHI", 0x11, 0x1010, b"SQ", 0, UNDEFINED) + struct.pack(
    "<HHI", 0xFFFE, 0xE000, UNDEFINED
)
EMPTY = element(0x11, 0x1011, b"LO", b"")

FILES = {
    "group 0002": (PREAMBLE + META + EMPTY.replace(b"\x11\0", b"\2\0", 1) * META_INFORMATION),
    "nested in group 0002": (PREAMBLE + OPEN.replace(b"\x11\0", b"\2\0", 1) * 50_000),
    "nested privately": (PREAMBLE + META + HEAD + OPEN * 10_000),
    "elements": (PREAMBLE + META + HEAD + EMPTY * (STRUCTURED_REPORT.count + 1)),
    "elements of an item": (
        PREAMBLE + META + HEAD + element(0x40, 0xA730, b"SQ", item(EMPTY * 1_100_000))
    ),
}


def with_file(data: bytes) -> dict[str, Any]:
    return launch_body(dicomSR=[{"fileData": base64.b64encode(data).decode()}])


@pytest.mark.parametrize("data", FILES.values(), ids=FILES)
def test_a_costly_sr_file_is_refused(service: Service, data: bytes) -> None:
    """With one of the codes of unreadable SR files, and with its place."""
    refused = service.call("POST", "/api/report/launch/clinical", json=with_file(data))
    assert refused.status_code == 400, refused.text
    assert refused.json()["code"].startswith("sr_")
    assert refused.json()["errors"][0]["pointer"] == "/dicomSR/0/fileData"


def test_other_requests_do_not_wait_for_a_costly_sr_file(service: Service) -> None:
    data = FILES["elements of an item"]

    async def both() -> list[str]:
        order: list[str] = []

        async def send(name: str, body: dict[str, Any]) -> httpx.Response:
            token = {"x-access-token": service.tokens[ADMIN]}
            found = await service.http.post("/api/report/launch/clinical", json=body, headers=token)
            order.append(name)
            return found

        costly = asyncio.ensure_future(send("costly", with_file(data)))
        others = [asyncio.ensure_future(send("other", launch_body())) for _ in range(3)]
        assert {task.status_code for task in await asyncio.gather(*others)} == {200}
        assert (await costly).status_code == 400
        return order

    assert service.runner.run(both())[0] == "other"


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 190_000,
        "<p>" + "<b>x" * 40_000,
        "<h1>" + "x<i>y</i>" * 40_000,
        "<select>" + "<option>x" * 100_000,
        "<!--" * 240_000,
        "<![CDATA[" * 110_000,
        "<a " + "b=c " * 240_000 + ">",
        "&" * TEMPLATE.size,
        "<" * TEMPLATE.size,
    ],
    ids=range(9),
)
def test_a_hostile_template_is_refused_or_read(service: Service, html: str) -> None:
    """It causes no server error."""
    path = "/api/admin/sites/SITE1/templates/7/mrrt"
    response = service.call("PUT", path, json={"html": html})
    assert response.status_code in (200, 400), response.text
    if "<div>" in html:
        assert response.json()["code"] == "bad_template"


@pytest.mark.parametrize(
    "csv",
    [
        "system,match,code" + ",x" * 1_000_000 + "\n",
        "system,match,code\n" + "cpt,a,1\n" * (TABLE.count + 1),
        'system,match,code\n"' + "x" * 1_000_000,
        "system,match,code\ncpt,a\0,1\0",
    ],
    ids=["columns", "rows", "open quotes", "NUL"],
)
def test_a_hostile_code_map_is_refused(service: Service, csv: str) -> None:
    """400 or 413, without a server error."""
    response = service.call("PUT", "/api/admin/sites/SITE1/code-map", json={"csv": csv})
    assert response.status_code in (400, 413), response.text


def test_an_image_that_unpacks_to_many_pixels_is_refused(service: Service) -> None:
    """The size of an image is checked before its pixels are decoded."""
    head = struct.pack(">II5B", 60_000, 60_000, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + head + bytes(4)
    image = {"imageData": base64.b64encode(data).decode(), "contentType": "image/png"}
    response = service.call(
        "POST", "/api/report/launch/clinical", json=launch_body(keyImages=[image])
    )
    assert response.status_code == 400
    assert response.json()["code"].startswith("image_")


FORMATS = ["html", "rtf", "docx", "pdf"]


@contextmanager
def hanging_exports(service: Service) -> Iterator[None]:
    stuck, exports = threading.Event(), service.application.state.engine.exports

    async def begin() -> "list[asyncio.Task[bool]]":
        tasks = [asyncio.create_task(exports.run(stuck.wait)) for _ in range(exports.free)]
        await asyncio.sleep(0)  # each task occupies its place
        return tasks

    async def end(tasks: "list[asyncio.Task[bool]]") -> None:
        await asyncio.gather(*tasks)

    tasks = service.runner.run(begin())
    try:
        yield
    finally:
        stuck.set()
        service.runner.run(end(tasks))


def ready(service: Service) -> int:
    """Ask `/readyz` of a process that serves this engine."""

    async def one() -> int:
        readiness = Readiness()
        await readiness.begin()
        probes = Probes(Metrics(), readiness, service.database, service.clock)
        transport = httpx.ASGITransport(app=probes.router(service.application))
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            return (await client.get("/readyz")).status_code

    return service.runner.run(one())


def test_hanging_exports_delay_no_other_requests(service: Service) -> None:
    """Sign-in, launches, pages and health have other threads; further exports get 503."""
    service.set_password(READER)
    page = service.open_report()
    with hanging_exports(service):
        assert service.sign_in().status_code == 303
        assert service.launch(accession="A2").status_code == 200
        service.status()
        assert page("report").status_code == 200
        assert ready(service) == 200
        refused = [page(f"export/{kind}") for kind in FORMATS]
        refused.append(service.post("report/export/html", {"clinicalInfo": identity()}))
        for response in refused:
            assert (response.status_code, response.json()["code"]) == (503, "unavailable")
            assert response.headers["retry-after"] == "1"
    assert page("export/html").status_code == 200
