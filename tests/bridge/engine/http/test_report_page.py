"""The session endpoints of the report page."""

import pytest

from tests.bridge.engine.http.engine_service import OTHER, READER, Page, Service, identity, user


@pytest.fixture
def page(service: Service) -> Page:
    return service.open_report()


def test_a_report_is_read_and_saved(service: Service, page: Page) -> None:
    """GET content returns the saved text."""
    state = page("report").json()
    assert {"edit", "sign", "prelim", "discard"} == set(state["can"])
    page.save("Line one\nLine two")
    assert service.get("report/content", **identity()).json()["content"] == "Line one\nLine two"


def test_a_save_of_an_old_version_is_refused(page: Page) -> None:
    """Optimistic locking: 409, and the stored text is kept."""
    version = page("report").json()["version"]
    page.save("first")
    response = page("save", {"version": version, "text": "second"})
    assert (response.status_code, response.json()["code"]) == (409, "version_conflict")
    assert page("report").json()["content"] == "first"


def test_sign_recall_and_sign_again(service: Service, page: Page) -> None:
    """Signing by the reader, recall within the sign delay, and Sign Now."""
    state = page("sign", {"version": page.save()}).json()
    assert (state["status"], state["signedBy"]["email"]) == ("Final", READER)
    assert {"unsign", "sign-now", "addendum-create"} <= set(state["can"])
    assert state["unsignUntil"] == service.clock.now + 60_000
    state = page("unsign", {}).json()
    assert state["status"] == "Draft"
    state = page("sign", {"version": state["version"]}).json()
    state = page("sign-now", {"version": state["version"]}).json()
    assert state["unsignUntil"] is None
    response = page("unsign", {})
    assert (response.status_code, response.json()["code"]) == (500, "cooling_elapsed")


def test_an_addendum_is_written_signed_and_withdrawn(service: Service, page: Page) -> None:
    """create, save, sign, unsign, cancel; the API releases it by addendum/sign."""
    page("sign-now", {"version": page.save()})
    page("addendum/create", {})
    state = page("report").json()
    number = state["addenda"][0]["version"]
    state = page("addendum/save", {"version": number, "text": "Also this."}).json()
    state = page("addendum/sign", {"version": state["addenda"][0]["version"]}).json()
    assert state["status"] == "Addendum"
    state = page("addendum/unsign", {}).json()
    assert state["status"] == "Final"
    state = page("addendum/sign", {"version": state["addenda"][0]["version"]}).json()
    body = {"clinicalInfo": identity(), "ignoreSignDelay": True}
    assert service.post("report/addendum/sign", body).status_code == 200
    assert page("report").json()["addendumUnsignUntil"] is None
    page("addendum/create", {})
    state = page("addendum/cancel", {}).json()
    assert [each["state"] for each in state["addenda"]] == ["signed"]


def test_a_preliminary_read(service: Service, page: Page) -> None:
    """Prelim with group and tag; the API lists it."""
    body = {"version": page.save(), "prelimGroup": "Night", "prelimTag": "Resident"}
    assert page("prelim", body).json()["status"] == "Preliminary"
    found = service.get(
        "report/site/prelims", SiteID="SITE1", prelimGroup="Night", prelimTag="Resident"
    ).json()
    assert found["userEmail"] == READER
    assert [each["reportId"] for each in found["reports"]] == [found["reportId"]]


def test_discard_removes_a_launched_draft(service: Service, page: Page) -> None:
    """Discarding deletes a Draft of a launch; its session has no report afterwards."""
    assert page("discard", {}).status_code == 204
    assert page("report").status_code == 404
    assert service.post("report/status", {"clinicalInfo": [identity()]}).status_code == 404


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
