"""Opening report links (interface reference, States and transitions; Limits)."""

import json
import tracemalloc
from importlib.resources import files
from typing import Any

import pytest

from bridge.engine.http import static_files
from bridge.engine.http.html_pages import NoticeKey, notice_text
from bridge.engine.launch import LANGUAGES
from bridge.network_source import Proxies
from tests.bridge.engine.http.engine_service import (
    ADMIN,
    BASE,
    OTHER,
    PASSWORD,
    READER,
    Service,
    boot,
    identity,
    launch_body,
    user,
)


def link_for(service: Service, email: str = READER, **changes: Any) -> str:
    response = service.launch(userInfo=user(email), **changes)
    assert response.status_code == 200, response.text
    link: str = response.json()["reportLink"]
    return link


def test_a_lazy_link_creates_the_report_when_first_opened(service: Service) -> None:
    """States: the first opening creates, assigns and saves it; a second one changes nothing."""
    link = link_for(service, lazyLaunch=True, tags={"KeyFindings": "Nodule", "Modality": "CT"})
    first = service.open(link)
    assert first.status_code == 200
    record = service.status()
    assert (record["status"], record["userEmail"]) == ("Draft", READER)
    assert service.get("report/content", **identity()).json() == {"content": "Nodule"}
    assert boot(service.open(link))["reportId"] == record["reportId"]
    events = [change["event"] for change in service.get("report/changes").json()["changes"]]
    assert events == ["report_created"]


def test_the_second_of_two_lazy_links_shows_the_transfer_prompt(service: Service) -> None:
    """Two lazy links for one triple: the first opening creates the report."""
    mine = link_for(service, READER, lazyLaunch=True)
    theirs = link_for(service, OTHER, lazyLaunch=True)
    assert boot(service.open(mine))["transfer"] is False
    page = service.open(theirs)
    assert boot(page)["transfer"] is True
    assert service.status()["userEmail"] == READER
    assert service.session(page)("transfer", {}).json()["owner"] is True
    assert service.status()["userEmail"] == OTHER


def test_opening_an_order_makes_it_a_draft_of_the_user(service: Service) -> None:
    """Ordered, then opened: Draft, assigned, with its key findings."""
    tags = {"KeyFindings": "Fracture"}
    service.launch("service", lazyLaunch=True, registerOrder=True, tags=tags)
    service.open(link_for(service, lazyLaunch=True))
    assert service.status()["status"] == "Draft"
    assert service.get("report/content", **identity()).json()["content"] == "Fracture"


def test_opening_a_link_again_keeps_newer_tags(service: Service) -> None:
    """The tags of a launch are applied once."""
    link = link_for(service, lazyLaunch=True, tags={"Modality": "CT"})
    service.open(link)
    service.launch(tags={"Modality": "MR"})
    service.open(link)
    export = service.post("report/export/json", {"clinicalInfo": identity()}).json()
    assert export["clinicalInfo"][0]["Modality"] == "MR"


def test_the_name_is_checked_again_when_the_link_is_opened(service: Service) -> None:
    """Lazy launch: the name of the patient may have changed since."""
    link = link_for(service, lazyLaunch=True, tags={"PatientName": "DOE^JANE"})
    service.launch(accession="A2", tags={"PatientName": "ROE^JANE"})
    assert service.open(link).status_code == 409
    assert service.post("report/status", {"clinicalInfo": [identity()]}).status_code == 404


def test_a_signed_report_opens_for_reading(service: Service) -> None:
    """Opening changes neither status nor owner of a signed report."""
    link = link_for(service, READER)
    service.post("report/sign", {"clinicalInfo": identity()})
    page = service.session(service.open(link_for(service, OTHER)))("report").json()
    assert (page["status"], page["writable"]) == ("Final", False)
    assert service.status()["userEmail"] == READER
    assert service.open(link).status_code == 200


def test_deleting_a_report_revokes_its_links(service: Service) -> None:
    """Delete: they show a notice; the links of a PreLaunch are revoked too."""
    link = link_for(service)
    assert service.post("report/delete", {"clinicalInfo": identity()}).status_code == 200
    notice = service.open(link)
    assert notice.status_code == 410
    assert "This report no longer exists" in notice.text
    pending = link_for(service, lazyLaunch=True)
    assert service.post("report/delete", {"clinicalInfo": identity()}).status_code == 404
    assert service.open(pending).status_code == 410
    assert service.launch().status_code == 200


def test_a_cancelled_order_that_was_opened_is_kept(service: Service) -> None:
    """`onlyWhenOrdered`: an empty order is deleted; one that was opened meanwhile is kept."""
    body = {"clinicalInfo": identity(), "onlyWhenOrdered": True}
    service.launch("service", lazyLaunch=True, registerOrder=True)
    assert service.post("report/delete", body).status_code == 200

    service.launch("service", lazyLaunch=True, registerOrder=True)
    service.open(link_for(service, lazyLaunch=True))
    refused = service.post("report/delete", body)
    assert (refused.status_code, refused.json()["code"]) == (400, "report_begun")
    assert service.status()["status"] == "Draft"


def test_revoking_a_token_revokes_its_links(service: Service) -> None:
    """The page has a notice."""
    made = service.post("admin/sites/SITE1/tokens", {"email": ADMIN}).json()
    link = service.launch(made["token"], userInfo=user()).json()["reportLink"]
    service.call("DELETE", f"/api/admin/sites/SITE1/tokens/{made['id']}")
    notice = service.open(link)
    assert notice.status_code == 410
    assert "This link has expired" in notice.text


def test_only_the_sites_hosts_may_frame(service: Service) -> None:
    """frame-ancestors names the site's host origins."""
    settings = {"hostOrigins": ["https://viewer.test:8443"]}
    assert service.call("PUT", "/api/admin/sites/SITE1", json=settings).status_code == 200
    policy = service.open(link_for(service)).headers["content-security-policy"]
    assert "frame-ancestors 'self' https://viewer.test:8443" in policy
    for origin in ("*", "https://*.test", "viewer.test", "https://a.test/x", "https://a.test; x"):
        response = service.call("PUT", "/api/admin/sites/SITE1", json={"hostOrigins": [origin]})
        assert response.status_code == 400, origin


def test_a_plain_users_link_asks_to_sign_in(service: Service) -> None:
    """Only administrators create authenticated links; a link of another user asks to sign in."""
    link = service.launch(READER, lazyLaunch=True).json()["reportLink"]
    page = service.open(link)
    assert 'type="password"' in page.text
    assert service.open(link, headers={"sec-fetch-dest": "iframe"}).status_code == 403
    assert service.post("report/status", {"clinicalInfo": [identity()]}).status_code == 404
    service.set_password(READER)
    token = link.partition("?token=")[2]
    form = {"token": token, "email": READER, "password": "wrong password"}
    assert service.call("POST", "/reporting/login", None, data=form).status_code == 401
    form["password"] = PASSWORD
    frame = {"sec-fetch-dest": "iframe"}
    assert (
        service.call("POST", "/reporting/login", None, data=form, headers=frame).status_code == 403
    )
    signed_in = service.call("POST", "/reporting/login", None, data=form)
    assert signed_in.status_code == 303
    assert boot(service.open(signed_in.headers["location"]))["transfer"] is False
    assert service.status()["userEmail"] == READER


def test_prefetching_does_not_open_a_link(service: Service) -> None:
    """A prefetch or a HEAD request leaves the link unopened."""
    link = link_for(service, lazyLaunch=True)
    assert service.open(link, headers={"sec-purpose": "prefetch"}).status_code == 204
    assert service.call("HEAD", link.removeprefix(BASE), None).status_code == 204
    assert service.post("report/status", {"clinicalInfo": [identity()]}).status_code == 404


def test_the_html_page_contains_no_patient_data(service: Service) -> None:
    """The page loads them from the session endpoints."""
    page = service.open(link_for(service, tags={"PatientName": "CANARY^NAME"}))
    assert "CANARY" not in page.text + repr(page.headers)
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["cache-control"] == "no-store"
    assert "script-src 'self'" in page.headers["content-security-policy"]


def test_reloading_the_page_keeps_the_document(service: Service) -> None:
    """The page removes the handle from its address; the cookie reopens the report."""
    opened = boot(service.open(link_for(service)))
    again = boot(service.call("GET", "/reporting/launch-report/clinical", None))
    assert again["reportId"] == opened["reportId"]
    assert again["session"] != opened["session"]


def test_a_reload_never_shows_another_report(service: Service) -> None:
    """Two tabs share the cookie: the first tab gets a notice on reload, not another patient."""
    first = boot(service.open(link_for(service)))["reportId"]
    second = boot(service.open(link_for(service, accession="A2", mrn="P2")))["reportId"]
    address = "/reporting/launch-report/clinical?report="
    refused = service.call("GET", address + first, None)
    assert (refused.status_code, "boot" in refused.text) == (409, False)
    assert boot(service.call("GET", address + second, None))["reportId"] == second


def test_cookies_in_frames_of_other_sites_are_partitioned(service: Service) -> None:
    """Over https: __Host-, Secure, and Partitioned only in a cross-site frame."""
    engine = service.application.state.engine
    engine.addresses = type(engine.addresses)("https://engine.test", [], Proxies())
    link = link_for(service).replace("https://engine.test", BASE)
    framed = {"sec-fetch-dest": "iframe", "sec-fetch-site": "cross-site"}
    cookie = service.open(link, headers=framed).headers["set-cookie"]
    assert cookie.startswith("__Host-report_session=")
    assert cookie.endswith("Path=/; HttpOnly; Secure; SameSite=None; Partitioned")
    assert service.open(link).headers["set-cookie"].endswith("Secure; SameSite=Lax")


HOST = "https://viewer.test:8443"
FRAME = {"sec-fetch-dest": "iframe", "sec-fetch-site": "cross-site"}


@pytest.fixture
def lazy(service: Service) -> str:
    response = service.call("PUT", "/api/admin/sites/SITE1", json={"hostOrigins": [HOST]})
    assert response.status_code == 200
    launched = service.post(
        "report/launch/clinical", launch_body(lazyLaunch=True, userInfo=user(READER))
    )
    link: str = launched.json()["reportLink"]
    return link


def known(service: Service) -> bool:
    """True if the report exists."""
    return service.post("report/status", {"clinicalInfo": [identity()]}).status_code == 200


@pytest.mark.parametrize("named", [{}, {"referer": "https://unknown.test/x"}])
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_refused_host_changes_nothing(
    service: Service, lazy: str, named: dict[str, str], site: str
) -> None:
    """No report and no session is created; only the frame check page may repeat the request."""
    page = service.open(lazy, headers={**FRAME, "sec-fetch-site": site, **named})
    assert f"frame-ancestors 'self' {HOST};" in page.headers["content-security-policy"] + ";"
    assert "set-cookie" not in page.headers
    assert "boot" not in page.text
    assert not known(service)
    service.open(lazy, headers={**FRAME, "sec-fetch-site": "same-origin"})
    assert known(service)


def test_an_allowed_host_opens_at_once(service: Service, lazy: str) -> None:
    """A permitted host frames the report without a check page."""
    assert 'id="boot"' in service.open(lazy, headers={**FRAME, "referer": HOST + "/study"}).text
    assert known(service)


def test_any_host_may_frame_if_the_site_lists_none(service: Service) -> None:
    """The report opens without a check page."""
    link = service.launch(lazyLaunch=True, userInfo=user(READER)).json()["reportLink"]
    service.open(link, headers=FRAME)
    assert known(service)


def test_a_refused_host_is_listed_for_administrators(service: Service, lazy: str) -> None:
    """Refused hosts are recorded, so that an administrator can permit them."""
    service.open(lazy, headers={**FRAME, "referer": "https://unknown.test/x"})
    hosts = service.get("admin/sites/SITE1/observed-hosts").json()
    assert [(host["origin"], host["configured"]) for host in hosts] == [
        ("https://unknown.test", False)
    ]


def test_a_session_link_needs_the_check_page_too(service: Service, lazy: str) -> None:
    """A pre-warmed session starts when the page is shown."""
    assert lazy
    body = {"clinicalInfo": {"SiteID": "SITE1"}, "userInfo": user(READER)}
    link = service.post("report/init", body).json()["sessionLink"]
    assert "set-cookie" not in service.open(link, headers=FRAME).headers
    shown = service.open(link, headers={**FRAME, "sec-fetch-site": "same-origin"})
    assert "set-cookie" in shown.headers


def test_an_unknown_link_is_404_in_any_frame(service: Service) -> None:
    """Any origin may frame the notice."""
    assert (
        service.open("/reporting/launch-report/clinical?token=x", headers=FRAME).status_code == 404
    )


CATALOGUE = json.loads(files("bridge.engine.http").joinpath("notices.json").read_text("utf-8"))


def test_every_language_has_every_notice() -> None:
    """Every one of the 17 languages has its own texts."""
    for code, own in CATALOGUE.items():
        assert set(own) == set(NoticeKey), code
        assert all(
            set(value) == {"title", "text"} and all(value.values()) for value in own.values()
        )
    for which in NoticeKey:
        english = notice_text(which, "en-US")
        for code in LANGUAGES:
            assert (notice_text(which, code) == english) == code.startswith("en"), (which, code)


@pytest.mark.parametrize(
    ("accepted", "language", "title"),
    [
        ("de-CH, en;q=0.5", "de-DE", "Hier ist nichts"),
        ("xx, zh-TW;q=0.9", "zh-Hant", "此處沒有內容"),
        ("fr-CA", "fr-CA", "Il n\u2019y a rien ici"),
        ("", "en-US", "There is nothing here"),
    ],
)
def test_the_notice_of_an_unknown_link(
    service: Service, accepted: str, language: str, title: str
) -> None:
    """A notice is in the requested language, and its `lang` attribute names it."""
    headers = {"accept-language": accepted}
    response = service.open(f"{BASE}/reporting/launch-report/clinical?token=x", headers=headers)
    assert response.status_code == 404
    assert f'<html lang="{language}">' in response.text
    assert f"<h1>{title}</h1>" in response.text


def test_the_notice_of_a_failed_pre_warm_is_in_the_language_of_the_link(service: Service) -> None:
    """GET init, rule 5: the frame shows the reason; AppLanguage of the link has precedence."""
    response = service.open(
        f"{BASE}/reporting/init?token=x&AppLanguage=it-IT&SpeechLanguage=it-IT",
        headers={"accept-language": "de"},
    )
    assert response.status_code == 404
    assert "Impossibile preparare la sessione" in response.text
    assert '<p lang="en">' in response.text


@pytest.mark.parametrize("length", [1, 200, 250, 300, 5000])
def test_an_unknown_file_is_not_found(service: Service, length: int) -> None:
    response = service.call("GET", f"/reporting/assets/{'a' * length}.js", None)
    assert (response.status_code, response.json()["code"]) == (404, "no_such_path")


def test_unknown_names_are_not_kept() -> None:
    """Requests with random names do not fill the memory.

    Objects are counted, not bytes: a path interns its parts, and Python's one table of interned
    strings is written anew at times, with all that the process has interned before.
    """
    tracemalloc.start()
    try:
        for number in range(5000):
            assert static_files.content(f"{number:0100}.js", "gzip") is None
        kept = sum(found.count for found in tracemalloc.take_snapshot().statistics("filename"))
        assert kept < 2500
    finally:
        tracemalloc.stop()


PAGES = [
    *(f"/reporting/host-sdk/{name}" for name in ("index.js", "index.d.ts", "protocol.d.ts")),
    *(f"/reporting/assets/{name}" for name in static_files.PAGE_FILES),
    *("/healthz", "/readyz", "/docs", "/openapi.json", "/", "/reporting", "/reporting/"),
    *("/reporting/login", "/reporting/worklist", "/reporting/settings"),
    *("/reporting/administration", "/reporting/host-sdk/none.js", "/reporting/assets/none.js"),
]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_the_same_headers_for_get_and_head(service: Service, path: str) -> None:
    """A proxy or a link checker that asks with HEAD gets the status and headers of GET."""
    get, head = (service.call(method, path, None) for method in ("GET", "HEAD"))
    varying = {"x-request-id", "date", "set-cookie"}
    assert head.status_code == get.status_code
    assert {name for name in get.headers if name not in varying} <= set(head.headers)
    for name in ("content-type", "content-length", "cache-control", "location"):
        assert head.headers.get(name) == get.headers.get(name), name
