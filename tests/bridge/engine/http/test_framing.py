"""A host that may not frame reports has no effect by framing a link."""

import pytest

from tests.bridge.engine.http.engine_service import READER, Service, identity, launch_body, user

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
    assert [(each["origin"], each["configured"]) for each in hosts] == [
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
