"""Dictation in Chromium with a fake microphone and a recognizer that listens on a port."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Playwright, expect

from bridge.engine.settings import ModelEndpoint, WritingAids
from tests.bridge.engine.http.model_server import Model, listening
from tests.browser.engine_server import EngineServer
from tests.programs import CHROMIUM

pytestmark = [pytest.mark.browser, pytest.mark.slow]

WITHOUT = "delete window.SpeechRecognition; delete window.webkitSpeechRecognition;"
"""A browser without its own recognizer."""

SPEAKING = """
window.SpeechRecognition = class {
  start() { window.speaker = this; }
  stop() { this.onend?.(); }
  say(words) {
    const results = [{ isFinal: true, 0: { transcript: words } }];
    this.onresult({ resultIndex: 0, results });
  }
  fail(error) { this.onerror({ error }); this.onend?.(); }
};
"""
"""A browser whose recognizer returns the words that the test gives."""


@pytest.fixture
def page(driver: Playwright) -> Iterator[Page]:
    """A page with a fake microphone; errors in its scripts fail the test."""
    media = ["--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"]
    browser: Browser = driver.chromium.launch(
        executable_path=CHROMIUM.path, args=["--no-sandbox", *media]
    )
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    yield page
    browser.close()
    assert [item for item in errors if "Failed to load resource" not in item] == []


@pytest.fixture
def recognizer(engine: EngineServer) -> Iterator[Model]:
    """A recognizer of the installation; the engine restarts with it."""
    with listening(Model({"text": "no effusion period"})) as model:
        engine.stop()
        endpoint = ModelEndpoint(model.url, "hear-1")
        engine.assistance = WritingAids(transcription=endpoint)
        engine.start()
        yield model


def opened(page: Page, engine: EngineServer, script: str, **app: str) -> None:
    """Open a report in a browser that runs a script first."""
    page.add_init_script(script)
    page.goto(engine.launch(reportingApp=app))
    page.wait_for_selector("#recorder")
    page.click("#text")


def until(page: Page, condition: str) -> None:
    """Wait for a condition; the page's policy forbids `wait_for_function`."""
    for _ in range(2400):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(condition)


def test_the_installations_recognizer_writes_at_the_caret(
    engine: EngineServer, page: Page, recognizer: Model
) -> None:
    """Without a browser recognizer the page records, shows the level, and inserts the text."""
    opened(page, engine, WITHOUT)
    page.keyboard.type("Lungs clear,")
    page.click("#recorder")
    expect(page.locator("#recorder")).to_have_attribute("aria-pressed", "true")
    until(page, "document.querySelector('#level').value > 0.02")
    page.wait_for_timeout(1200)
    page.click("#recorder")
    expect(page.locator("#text")).to_have_text("Lungs clear, no effusion.")
    expect(page.locator("#recorder")).to_have_attribute("aria-pressed", "false")
    headers, body = recognizer.requests[0]
    assert headers["content-type"].startswith("multipart/form-data")
    assert len(body) > 1000
    assert b'name="language"\r\n\r\nen\r\n' in body


def test_a_failed_recognition_is_reported(
    engine: EngineServer, page: Page, recognizer: Model
) -> None:
    """After an error the recorder stops with a message; markup in a result is inserted as text."""
    opened(page, engine, WITHOUT)
    page.click("#recorder")
    until(page, "document.querySelector('#level')?.value > 0.02")
    page.wait_for_timeout(800)
    page.route("**/session/dictation?*", lambda route: route.fulfill(status=415, body="{}"))
    page.click("#recorder")
    expect(page.locator(".dictation [role=status]")).to_contain_text("could not be recognized")
    page.unroute("**/session/dictation?*")
    recognizer.status, recognizer.response = 200, {"text": "<b>no</b> [size] effusion"}
    page.click("#recorder")
    until(page, "document.querySelector('#level')?.value > 0.02")
    page.wait_for_timeout(800)
    page.click("#recorder")
    expect(page.locator("#text p")).to_have_text(["<b>no</b> [size] effusion"])


def test_signing_waits_for_the_last_dictation(
    engine: EngineServer, page: Page, recognizer: Model
) -> None:
    """Sign stops the recorder, and the signed report contains the last dictation."""
    recognizer.response = {"text": "no effusion"}
    opened(page, engine, WITHOUT)
    page.keyboard.type("Lungs clear.")
    page.click("#recorder")
    until(page, "document.querySelector('#level')?.value > 0.02")
    page.wait_for_timeout(800)
    page.click("#sign")
    expect(page.locator("#badge")).to_have_attribute("data-status", "Final")
    assert engine.content() == "Lungs clear. No effusion"
    expect(page.locator("#recorder")).to_have_count(0)


def test_the_browsers_recognizer_writes_marks_and_lines(engine: EngineServer, page: Page) -> None:
    """The browser's recognizer writes punctuation and lines, and fills a selected bracket."""
    opened(page, engine, SPEAKING, SpeechLanguage="de-DE")
    page.click("#recorder")
    until(page, "Boolean(window.speaker)")
    assert page.evaluate("speaker.lang") == "de-DE"
    page.evaluate("speaker.say('kein Erguss Punkt neue Zeile Herz [Größe]')")
    expect(page.locator("#text p")).to_have_text(["Kein Erguss.", "Herz [Größe]"])
    page.evaluate("speaker.say('normal groß Punkt')")
    expect(page.locator("#text p")).to_have_text(["Kein Erguss.", "Herz normal groß."])
    page.keyboard.press("Control+z")
    expect(page.locator("#text p").last).to_have_text("Herz [Größe]")


def test_the_installations_recognizer_replaces_a_failed_one(
    engine: EngineServer, page: Page, recognizer: Model
) -> None:
    """If the browser's recognizer fails, that of the installation continues."""
    opened(page, engine, SPEAKING)
    page.click("#recorder")
    until(page, "Boolean(window.speaker)")
    page.evaluate("speaker.fail('network')")
    expect(page.locator("#recorder")).to_have_attribute("aria-pressed", "true")
    page.wait_for_timeout(1000)
    page.click("#recorder")
    expect(page.locator("#text")).to_have_text("No effusion.")
    assert recognizer.requests


def test_without_a_recognizer_the_app_reports_it(engine: EngineServer, page: Page) -> None:
    """The recorder shows a message and does not start."""
    opened(page, engine, WITHOUT)
    page.click("#recorder")
    expect(page.locator(".dictation [role=status]")).to_contain_text(
        "does not support speech recognition"
    )
    expect(page.locator("#recorder")).to_have_attribute("aria-pressed", "false")


def test_microphones_are_chosen(engine: EngineServer, page: Page) -> None:
    """The list names the microphones, and the choice is kept over a reload."""
    opened(page, engine, SPEAKING)
    page.click("#microphones")
    options = page.locator("#microphone option")
    expect(options.nth(1)).to_be_attached()
    names = options.all_text_contents()
    page.select_option("#microphone", label=names[-1])
    page.reload()
    page.click("#microphones")
    expect(page.locator("#microphone option:checked")).to_have_text(names[-1])


def test_the_recorder_has_a_key(engine: EngineServer, page: Page) -> None:
    """F4 starts and stops the recorder and leaves the caret in the text."""
    opened(page, engine, SPEAKING)
    page.keyboard.press("F4")
    until(page, "Boolean(window.speaker)")
    expect(page.locator("#recorder")).to_have_attribute("aria-pressed", "true")
    page.evaluate("speaker.say('no effusion period')")
    expect(page.locator("#text")).to_have_text("No effusion.")
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.press("F4")
    expect(page.locator("#recorder")).to_have_attribute("aria-pressed", "false")
