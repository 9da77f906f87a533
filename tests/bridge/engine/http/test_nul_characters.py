"""NUL characters, which PostgreSQL does not store, and locations that an index cannot contain."""

import httpx
import pytest

from tests.bridge.engine.http.engine_service import OURS, Service, identity
from tests.unread import paths_of


def assert_refused(
    response: httpx.Response, status: int = 400, code: str = "invalid_request"
) -> None:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["code"] == code
    assert response.json()["requestId"] == response.headers["x-request-id"]


def test_no_route_accepts_nul_in_the_query(service: Service) -> None:
    for path in paths_of(service.application.router.routes):
        assert_refused(service.call("GET", f"{path}?SiteID=%00", None))
        assert_refused(service.call("POST", f"{path}?x=a%00b"))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/admin/sites/%00/macros"),
        ("DELETE", "/api/admin/sites/SITE1/macros/a%00b"),
        ("DELETE", "/api/admin/sites/SITE1/users/a%00b"),
        ("GET", "/reporting/assets/%00.js"),
    ],
)
def test_no_path_has_nul(service: Service, method: str, path: str) -> None:
    """The path is unknown. The instance of the problem ends before the NUL."""
    response = service.call(method, path)
    assert_refused(response, 404, "no_such_path")
    assert "\x00" not in response.json()["instance"]


def test_an_escaped_escape_is_no_nul(service: Service) -> None:
    """`%2500` is the text `%00`."""
    assert service.call("GET", "/reporting/init?SiteID=%2500", None).status_code != 400
    assert service.call("GET", "/api/admin/sites/%2500/macros").status_code == 404


@pytest.mark.parametrize("path", ["/reporting/login", "/reporting/enrol"])
def test_no_form_accepts_nul(service: Service, path: str) -> None:
    for form in ("email=a%00b&password=x", "token=%00&password=x", "a%00=x", "email=a\x00b"):
        assert_refused(service.call("POST", path, None, content=form, headers=OURS))


def test_a_location_has_at_most_1024_bytes(service: Service) -> None:
    """Also in a query, whose characters may have two bytes."""
    service.launch()
    refused = service.get("report/content", SiteLocation="ä" * 600, **identity())
    assert_refused(refused)
    assert refused.json()["errors"][0]["pointer"] == "SiteLocation"
    assert service.get("report/content", SiteLocation="ä" * 512, **identity()).status_code == 200
