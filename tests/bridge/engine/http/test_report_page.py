"""The session endpoints of the report page."""

import pytest

from tests.bridge.engine.http.engine_service import OTHER, READER, Page, Service, user


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
