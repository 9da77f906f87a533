"""The session endpoints of the report page."""

import base64
import io
import tracemalloc
import zipfile
from typing import Any

import httpx
import pytest
from PIL import Image

from bridge.engine.errors import EngineError
from bridge.engine.http.routes.app.report import TextBody
from bridge.engine.live.untouched_sweep import sweep as sweep_untouched
from bridge.engine.rules.text.document import MAX_NODES, from_text, to_json
from tests.bridge.engine.http.engine_service import (
    ADMIN,
    OTHER,
    READER,
    Page,
    Service,
    boot,
    identity,
    user,
)


@pytest.fixture
def page(service: Service) -> Page:
    return service.open_report()


def test_a_save_of_an_old_version_is_refused(page: Page) -> None:
    """Optimistic locking: 409, and the stored text is kept."""
    version = page("report").json()["version"]
    page.save("first")
    response = page("save", {"version": version, "text": "second"})
    assert (response.status_code, response.json()["code"]) == (409, "version_conflict")
    assert page("report").json()["content"] == "first"


def test_the_previous_owner_cannot_save(service: Service, page: Page) -> None:
    """After a transfer of the ownership."""
    version = page.save("mine")
    theirs = service.page(service.launch(userInfo=user(OTHER, forceOwnershipTransfer=True)))
    assert page("save", {"version": version, "text": "still mine"}).status_code == 403
    assert theirs("report").json()["content"] == "mine"


def test_the_endpoints_require_the_bearer_token_of_the_page(service: Service, page: Page) -> None:
    """A cookie, an access token and an ended session are refused."""
    path = "/reporting/api/session/report"
    assert service.call("GET", path, None).status_code == 401
    headers = {"authorization": f"Bearer {service.tokens[READER]}"}
    assert service.call("GET", path, None, headers=headers).status_code == 401
    service.clock.pass_seconds(31 * 60)
    assert page("report").status_code == 401


def test_activity_extends_a_session(service: Service, page: Page) -> None:
    """Inactivity counts from the last request; after its maximum age the session ends."""
    for _ in range(24):
        service.clock.pass_seconds(29 * 60)
        assert page("report").status_code == 200
    service.clock.pass_seconds(29 * 60)
    assert page("report").status_code == 401


def test_bad_bodies_are_400(page: Page) -> None:
    """Text or document, not both, and only valid documents."""
    for body in (
        {"version": 1},
        {"version": 1, "text": "a", "document": {}},
        {"version": "1", "text": "a"},
    ):
        assert page("save", body).status_code == 400
    refused = page("save", {"version": 1, "document": {"type": "html"}})
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["pointer"] == "/document/type"


PNG = io.BytesIO()
Image.new("RGB", (4, 2), "white").save(PNG, "PNG")


def signed(service: Service, accession: str, text: str, **tags: str) -> None:
    """Sign a report of the patient P1."""
    page = service.open_report(accession=accession, tags=tags)
    assert page("sign", {"version": page.save(text)}).status_code == 200


def test_priors_are_earlier_signed_reports_of_the_patient(service: Service) -> None:
    """The list has reports of the same site: similar studies first, then by date."""
    signed(service, "OLD-CT", "Nodule 4 mm.", StudyDate="20240101", Modality="CT")
    signed(service, "NEW-XR", "Clear.", StudyDate="2025-01-01", Modality="DX")
    signed(service, "LATER", "Later.", StudyDate="20270101", Modality="CT")
    service.open_report(accession="DRAFT", tags={"StudyDate": "20240601", "Modality": "CT"})
    service.launch(accession="ELSE", mrn="P2", userInfo=user(READER))
    page = service.open_report(accession="NOW", tags={"StudyDate": "20260101", "Modality": "CT"})

    found = page("priors").json()["priors"]

    assert [row["accessions"] for row in found] == [["OLD-CT"], ["NEW-XR"]]
    assert [row["date"] for row in found] == ["2024-01-01", "2025-01-01"]
    prior = page(f"priors/{found[0]['reportId']}").json()
    assert prior["document"]["content"][0]["content"][0]["text"] == "Nodule 4 mm."
    own = page("report").json()["reportId"]
    assert page(f"priors/{own}").status_code == 404


def test_only_the_page_of_a_report_gets_its_key_images(service: Service) -> None:
    """They are listed and can be loaded; the page of another report gets 404."""
    image = {
        "imageData": base64.b64encode(PNG.getvalue()).decode(),
        "contentType": "image/png",
        "fileName": "key.png",
    }
    page = service.open_report(keyImages=[image])
    listed = page("files").json()["files"]
    assert [(row["kind"], row["name"], row["width"]) for row in listed] == [
        ("keyImage", "key.png", 4)
    ]
    response = page(f"files/{listed[0]['id']}")
    assert response.headers["content-type"] == "image/png"
    assert Image.open(io.BytesIO(response.content)).size == (4, 2)
    assert service.open_report(accession="A2")(f"files/{listed[0]['id']}").status_code == 404


@pytest.mark.parametrize(
    ("kind", "start"), [("docx", b"PK"), ("rtf", b"{\\rtf"), ("html", b"<!DOCTYPE")]
)
def test_a_report_is_exported_as_a_file(service: Service, kind: str, start: bytes) -> None:
    """DOCX, RTF and HTML contain the text; an unknown time zone is refused."""
    page = service.open_report()
    page.save("Unmistakable.")
    response = page(f"export/{kind}")
    assert response.content.startswith(start)
    content = response.content
    if kind == "docx":
        content = zipfile.ZipFile(io.BytesIO(content)).read("word/document.xml")
    assert b"Unmistakable." in content
    assert page(f"export/{kind}?timeZone=Moon").status_code == 400
    assert page("export/exe").status_code == 400


def test_a_report_is_exported_as_pdf(service: Service) -> None:
    """Only inside the application (interface reference, What the service does 8)."""
    assert service.open_report()("export/pdf").content.startswith(b"%PDF")


def test_the_site_configures_the_signing_checks(service: Service) -> None:
    """The default is alert; silent reports nothing; prohibit blocks signing in the app only."""
    page = service.open_report(tags={"StudyDescription": "XR KNEE LEFT", "PatientSex": "M"})
    version = page.save("Right knee [which]. Uterus.")
    found = page("checks").json()["findings"]
    assert [(row["check"], row["behaviour"]) for row in found] == [
        ("openBracket", "alert"),
        ("laterality", "alert"),
        ("sexMismatch", "alert"),
    ]
    checks = {"laterality": "prohibit", "sexMismatch": "silent"}
    response = service.call(
        "PATCH", "/api/admin/sites/SITE1", json={"settings": {"signChecks": checks}}
    )
    assert response.status_code == 200, response.text
    found = page("checks").json()["findings"]
    assert [(row["check"], row["behaviour"]) for row in found] == [
        ("openBracket", "alert"),
        ("laterality", "prohibit"),
    ]
    refused = page("sign", {"version": version})
    assert (refused.status_code, refused.json()["code"]) == (400, "signing_prohibited")
    body = {"clinicalInfo": {"SiteID": "SITE1", "PatientMRN": "P1", "Accession": "A1"}}
    assert service.post("report/sign", body).status_code == 200


def test_a_reloaded_page_can_write(service: Service) -> None:
    """It names the same tab and gets the lease at once; another tab of the session does not."""
    link = service.launch(userInfo=user(READER)).json()["reportLink"]
    response = service.open(link)
    page = service.session(response)
    assert page("open", {"tab": "a1"}).json()["writable"]
    cookie = response.headers["set-cookie"].partition(";")[0]
    again = service.open(link.partition("?")[0], headers={"cookie": cookie})
    assert not service.session(again)("open", {"tab": "b2"}).json()["writable"]
    reloaded = service.open(link.partition("?")[0], headers={"cookie": cookie})
    assert service.session(reloaded)("open", {"tab": "a1"}).json()["writable"]


def test_each_user_has_one_journal_key_for_a_report(service: Service) -> None:
    """The key is equal for all pages of a user and report, and differs for others."""
    page = service.open_report()
    key = page("report").json()["journalKey"]
    assert len(base64.b64decode(key)) == 32
    assert service.open_report()("report").json()["journalKey"] == key
    assert service.open_report(accession="A2")("report").json()["journalKey"] != key
    service.launch(userInfo=user(OTHER, forceOwnershipTransfer=True))
    theirs = service.launch(userInfo=user(OTHER, forceOwnershipTransfer=True)).json()["reportLink"]
    assert service.session(service.open(theirs))("report").json()["journalKey"] != key


HOME = "/reporting/launch-report/clinical"


def opened(service: Service, accession: str = "A1", **app: object) -> httpx.Response:
    launch: dict[str, Any] = {"accession": accession, "userInfo": user(READER), "reportingApp": app}
    return service.open(service.launch(**launch).json()["reportLink"])


def set_preferences(page: Page, **preferences: object) -> httpx.Response:
    return page.call("PUT", "choices", json=preferences)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_language_and_theme_are_kept_for_the_next_report(service: Service) -> None:
    """A pre-warmed frame, and a launch without a language, use the preferred language."""
    page = opened(service)
    assert (boot(page)["locale"], boot(page)["theme"]) == ("en-US", "dark")
    chosen = set_preferences(service.session(page), AppLanguage="de-DE", theme="light")
    assert chosen.status_code == 204
    init = {"clinicalInfo": {"SiteID": "SITE1"}, "userInfo": user(READER)}
    waiting = boot(service.open(service.post("report/init", init).json()["sessionLink"]))
    assert (waiting["locale"], waiting["theme"]) == ("de-DE", "light")
    after = boot(opened(service, "A2"))
    assert (after["locale"], after["theme"]) == ("de-DE", "light")


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_preference_overrides_the_launch_of_the_page(service: Service) -> None:
    """A reloaded page keeps its language; the next launch may set another one."""
    page = opened(service, AppLanguage="fr-FR")
    set_preferences(service.session(page), AppLanguage="ja-JP")
    assert boot(service.call("GET", HOME, None))["locale"] == "ja-JP"
    assert boot(opened(service, "A2", AppLanguage="fr-FR"))["locale"] == "fr-FR"


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("launch", "own", "site", "compares"),
    [
        (None, None, True, True),
        (None, False, True, False),
        (True, False, False, True),
        (False, None, True, False),
    ],
)
def test_auto_comparison_is_decided_by_launch_then_user_then_site(
    service: Service, *, launch: bool | None, own: bool | None, site: bool, compares: bool
) -> None:
    """AutoComparePrior of the launch, else of the user, else of the site, else false."""
    assert service.session(opened(service, "A0"))("report").json()["autoCompare"] is False
    service.call("PATCH", "/api/admin/sites/SITE1", json={"settings": {"AutoComparePrior": site}})
    page = service.session(opened(service))
    assert page("report").json()["autoCompare"] is site
    set_preferences(page, AutoComparePrior=own)
    app = {} if launch is None else {"AutoComparePrior": launch}
    assert service.session(opened(service, "A2", **app))("report").json()["autoCompare"] is compares


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_invalid_preferences_are_refused(service: Service) -> None:
    """Unknown languages, unknown themes and values of a wrong type are refused."""
    page = service.session(opened(service))
    for wrong in ({"AppLanguage": "tlh"}, {"theme": "pink"}, {"AutoComparePrior": "yes"}):
        assert set_preferences(page, **wrong).status_code == 400


MACROS = "/api/admin/sites/SITE1/macros"


def own(page: Page, method: str, trigger: str, body: Any = None) -> int:
    options = {} if body is None else {"json": body}
    return page.call(method, f"macros/{trigger}", **options).status_code


def triggers(page: Page) -> list[tuple[str, str, bool]]:
    """Return the macros of a page: trigger, text, the user's own."""
    return [
        (macro["trigger"], macro["document"]["content"][0]["content"][0]["text"], macro["own"])
        for macro in page("macros").json()["macros"]
    ]


def test_macros_of_the_site_and_of_the_user(service: Service) -> None:
    """All users have the macros of the site; an own macro has precedence and is private."""
    assert service.call("PUT", f"{MACROS}/.nl", json={"text": "Normal lungs."}).status_code == 200
    page, other = service.open_report(), service.open_report(OTHER, accession="A2")
    assert triggers(page) == [(".nl", "Normal lungs.", False)]
    assert own(page, "PUT", ".nl", {"text": "My normal lungs.", "name": "Mine"}) == 204
    assert triggers(page) == [(".nl", "My normal lungs.", True)]
    assert triggers(other) == [(".nl", "Normal lungs.", False)]
    assert own(page, "PUT", ".nl", {"text": "Better."}) == 204
    assert triggers(page) == [(".nl", "Better.", True)]
    assert own(page, "DELETE", ".nl") == 204
    assert own(page, "DELETE", ".nl") == 404
    assert triggers(page) == [(".nl", "Normal lungs.", False)]
    assert [macro["trigger"] for macro in service.call("GET", MACROS).json()] == [".nl"]
    assert service.call("DELETE", f"{MACROS}/.nl").status_code == 200
    assert triggers(page) == []


def test_invalid_macros_are_refused(service: Service) -> None:
    """A trigger is one word; the document must be valid; administrators set the site's macros."""
    page = service.open_report()
    assert own(page, "PUT", "two words", {"text": "x"}) == 400
    assert own(page, "PUT", "x" * 33, {"text": "x"}) == 400
    assert own(page, "PUT", ".x", {"document": {"type": "html"}}) == 400
    assert own(page, "PUT", ".x", {}) == 400
    assert service.call("PUT", f"{MACROS}/.x", READER, json={"text": "x"}).status_code == 403


@pytest.mark.parametrize("line_end", ["\n", "\r", "\r\n"], ids=["LF", "CR", "CRLF"])
def test_a_text_with_too_many_lines_is_refused(service: Service, line_end: str) -> None:
    """Everywhere with the same error; the longest permitted text is stored."""
    page, longest = service.open_report(), line_end * (MAX_NODES - 1)
    assert own(page, "PUT", ".x", {"text": longest}) == 204
    text = longest + line_end
    for refused in (
        page.call("PUT", "macros/.x", json={"text": text}),
        page("findings", {"text": text, "findings": "x"}),
        page("save", {"version": page("report").json()["version"], "text": text}),
        service.call("PUT", f"{MACROS}/.x", json={"text": text}),
    ):
        assert (refused.status_code, refused.json()["code"]) == (400, "bad_document")
        assert refused.json()["errors"][0]["pointer"].startswith("/document")


def test_lines_are_counted_before_paragraphs_are_built() -> None:
    """A refused text needs no memory for its paragraphs."""
    body = TextBody(text="\n" * 400_000)
    tracemalloc.start()
    try:
        with pytest.raises(EngineError):
            body.content()
        assert tracemalloc.get_traced_memory()[1] < 10 * 2**20
    finally:
        tracemalloc.stop()


def test_a_template_is_listed_mapped_and_saved_with_its_number(service: Service) -> None:
    """Applying a template saves nothing; its number is stored with the saved text."""
    template = to_json(from_text("Lungs: clear\nImpression:"))
    address = "/api/admin/sites/SITE1/templates/3"
    body = {"name": "Chest", "document": template}
    assert service.call("PUT", address, ADMIN, json=body).status_code == 200
    page = service.open_report()
    assert [row["number"] for row in page("templates").json()["templates"]] == [3]
    mapped = page("templates/3/map", {"findings": "Nodule in the left lung."}).json()
    lungs = mapped["document"]["content"][0]["content"]
    assert lungs[0] == {"type": "text", "text": "Lungs: "}
    assert lungs[1] == {"type": "text", "text": "Nodule in the left lung.", "marks": ["suggested"]}
    state = page("report").json()
    assert (state["content"], state["template"]) == ("", None)
    saved = page(
        "save", {"version": state["version"], "document": mapped["document"], "template": 3}
    )
    assert saved.json()["template"] == 3
    assert page("templates/4/map", {}).status_code == 404


FINDINGS = {"KeyFindings": "Nodule of 5 mm."}


def register(service: Service, email: str = READER, **tags: str) -> Any:
    """Register the order A1 and return the response, whose link opens it for a user."""
    launched = service.launch(
        lazyLaunch=True, registerOrder=True, userInfo=user(email), tags={**tags}
    )
    assert launched.status_code == 200, launched.text
    return launched


def sweep(service: Service, seconds: float = 0) -> None:
    """Let time pass, and look for abandoned orders as the engine does every ten seconds."""
    service.clock.pass_seconds(seconds)
    engine = service.application.state.engine
    service.runner.run(sweep_untouched(engine.work, engine.clock))


def state(service: Service) -> tuple[str, str]:
    record = service.status()
    return record["status"], record["userEmail"] or ""


@pytest.mark.parametrize("ending", ["leave", "end"])
@pytest.mark.parametrize("tags", [{}, FINDINGS], ids=["empty", "with key findings"])
def test_an_untouched_order_returns(service: Service, ending: str, tags: dict[str, str]) -> None:
    """Leaving the page or the end of the session gives the order back as it was."""
    page = service.page(register(service, **tags))
    page("report")
    assert state(service) == ("Draft", READER)
    assert page(ending, {}).status_code == 204
    assert state(service) == ("Ordered", "")
    assert service.status()["hasContent"] is False
    again = service.page(register(service, OTHER, **tags))
    assert again("report").json()["content"] == tags.get("KeyFindings", "")
    assert state(service) == ("Draft", OTHER)


@pytest.mark.parametrize("tags", [{}, FINDINGS], ids=["empty", "with key findings"])
def test_a_written_order_stays_the_readers(service: Service, tags: dict[str, str]) -> None:
    """One saved word makes it a Draft for good, also if the word is removed again."""
    page = service.page(register(service, **tags))
    page.save("Words.")
    page.save(text=next(iter(tags.values()), ""))
    page("leave", {})
    sweep(service, 3600)
    assert state(service) == ("Draft", READER)


def test_the_last_words_of_a_closing_page_stay(service: Service) -> None:
    """A page that saves while it closes keeps its order."""
    page = service.page(register(service))
    version = page("report").json()["version"]
    assert page("save", {"version": version, "text": "Last.", "leaving": True}).status_code == 204
    sweep(service, 3600)
    assert state(service) == ("Draft", READER)


def test_an_order_with_text_returns_with_its_text(service: Service) -> None:
    """Text that was written before stays in an order that is opened and left."""
    page = service.page(register(service))
    page.save("Begun yesterday.")
    assert service.post("report/unassign", identity()).status_code == 200
    page = service.page(register(service, OTHER))
    assert state(service) == ("Draft", OTHER)
    page("leave", {})
    assert state(service) == ("Ordered", "")
    assert page.service.get("report/content", **identity()).json()["content"] == "Begun yesterday."


def test_an_assigned_order_stays_the_readers(service: Service) -> None:
    """A launch by the API assigns on purpose: the order does not return."""
    register(service)
    page = service.page(service.launch(userInfo=user()))
    page("leave", {})
    sweep(service, 3600)
    assert state(service) == ("Draft", READER)


def test_a_reload_keeps_the_order(service: Service) -> None:
    """The next page is requested before the page before is left."""
    launched = register(service)
    first, second = service.page(launched), service.page(launched)
    first("leave", {})
    assert state(service) == ("Draft", READER)
    second("report")
    second("leave", {})
    assert state(service) == ("Ordered", "")


def test_a_second_window_keeps_the_order(service: Service) -> None:
    """The order returns when the last of its reader's windows is left."""
    launched = register(service)
    first, second = service.page(launched), service.page(launched)
    for page in (first, second):
        page.call("GET", "events", params={"once": "true"})
        page("open", {"tab": page.secret.encode().hex()[:24]})
    second("leave", {})
    assert state(service) == ("Draft", READER)
    service.clock.pass_seconds(30)
    first("leave", {})
    assert state(service) == ("Ordered", "")


def test_a_crashed_page_gives_the_order_back(service: Service) -> None:
    """Without a sign of life the order returns after a minute."""
    page = service.page(register(service))
    page("report")
    sweep(service, 30)
    assert state(service) == ("Draft", READER)
    sweep(service, 31)
    assert state(service) == ("Ordered", "")


def test_a_lost_machine_gives_the_order_back(service: Service) -> None:
    """A connection that only looks open does not keep the order."""
    page = service.page(register(service))
    for _ in range(10):
        service.clock.pass_seconds(40)
        look(page)
    assert state(service) == ("Draft", READER)
    sweep(service, 400)
    assert state(service) == ("Ordered", "")


def look(page: Page) -> None:
    """Do what an open page does while its reader looks at the images: nothing but heartbeats."""
    page.call("GET", "events", params={"once": "true"})
    assert page("presence", {}).status_code == 200
    sweep(page.service)


def test_a_reader_who_only_looks_keeps_the_order(service: Service) -> None:
    """A page that is open for hours, also hidden, keeps its order without a word."""
    page = service.page(register(service))
    for _ in range(120):
        service.clock.pass_seconds(60)
        look(page)
    assert state(service) == ("Draft", READER)
    assert page("report").json()["writable"]


def test_a_page_that_was_cut_off_opens_its_order_again(service: Service) -> None:
    """After a sleep of the machine the page goes on, if nobody else has opened the order."""
    page = service.page(register(service))
    page("report")
    sweep(service, 120)
    assert state(service) == ("Ordered", "")
    assert page("presence", {}).json()["writable"]
    assert state(service) == ("Draft", READER)
    page.save("Typed after the sleep.")
    assert state(service) == ("Draft", READER)


@pytest.mark.parametrize("taken", ["opened", "unassigned"])
def test_a_page_that_was_cut_off_takes_nothing_back(service: Service, taken: str) -> None:
    """An order that somebody else opened, or that was unassigned on purpose, is not taken back."""
    page = service.page(register(service))
    page("report")
    if taken == "opened":
        sweep(service, 120)
        service.page(register(service, OTHER))
    else:
        service.post("report/unassign", identity())
    assert not page("presence", {}).json()["writable"]
    assert state(service) == (("Draft", OTHER) if taken == "opened" else ("Ordered", ""))
