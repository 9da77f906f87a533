"""Dictation and findings on the report page, with and without configured models."""

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from bridge.engine.rules.text.document import from_text, parse, to_json
from bridge.engine.rules.text.plain_text import plain_text
from bridge.engine.settings import ModelEndpoint, WritingAids
from tests.bridge.engine.http.engine_service import Page, Service
from tests.bridge.engine.http.model_server import Model, listening

SPEECH = b"\x1aE\xdf\xa3 spoken"
TEXT = "Findings:\nLungs: clear\nHeart:\nImpression:"


@pytest.fixture
def model() -> Iterator[Model]:
    """A running model endpoint."""
    with listening(Model()) as model:
        yield model


def configure_models(service: Service, **assistance: Any) -> None:
    """Configure model endpoints of the installation."""
    engine = service.application.state.engine
    engine.settings = replace(engine.settings, assistance=WritingAids(**assistance))


def dictate(
    page: Page, data: bytes = SPEECH, kind: str = "audio/webm;codecs=opus"
) -> httpx.Response:
    """Send a recording."""
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
