"""A page that may not frame a report has no effect by framing its link."""

import pytest

from tests.bridge.engine.http.engine_service import READER, Service, identity, launch_body, user

HOST = "https://viewer.test:8443"
FRAME = {"sec-fetch-dest": "iframe", "sec-fetch-site": "cross-site"}


@pytest.fixture
def lazy(service: Service) -> str:
    """A link of a lazy launch on a site that has named its host."""
    answer = service.call("PUT", "/api/admin/sites/SITE1", json={"hostOrigins": [HOST]})
    assert answer.status_code == 200
    launched = service.post(
        "report/launch/clinical", launch_body(lazyLaunch=True, userInfo=user(READER))
    )
    link: str = launched.json()["reportLink"]
    return link


def known(service: Service) -> bool:
    """Tell whether the report exists."""
    return service.post("report/status", {"clinicalInfo": [identity()]}).status_code == 200


@pytest.mark.parametrize("named", [{}, {"referer": "https://stranger.test/x"}])
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


def test_without_named_hosts_whoever_frames_opens(service: Service) -> None:
    """No check is needed if the site lists no hosts."""
    link = service.launch(lazyLaunch=True, userInfo=user(READER)).json()["reportLink"]
    service.open(link, headers=FRAME)
    assert known(service)


def test_a_refused_host_is_listed_for_administrators(service: Service, lazy: str) -> None:
    """Refused hosts are recorded, so that an administrator can permit them."""
    service.open(lazy, headers={**FRAME, "referer": "https://stranger.test/x"})
    seen = service.get("admin/sites/SITE1/observed-hosts").json()
    assert [(each["origin"], each["configured"]) for each in seen] == [
        ("https://stranger.test", False)
    ]


def test_a_session_link_waits_likewise(service: Service, lazy: str) -> None:
    """A pre-warmed session begins for a page that is shown."""
    assert lazy
    body = {"clinicalInfo": {"SiteID": "SITE1"}, "userInfo": user(READER)}
    link = service.post("report/init", body).json()["sessionLink"]
    assert "set-cookie" not in service.open(link, headers=FRAME).headers
    shown = service.open(link, headers={**FRAME, "sec-fetch-site": "same-origin"})
    assert "set-cookie" in shown.headers


def test_a_link_that_is_unknown_is_said_to_be(service: Service) -> None:
    """Any origin may frame the notice."""
    assert (
        service.open("/reporting/launch-report/clinical?token=x", headers=FRAME).status_code == 404
    )
