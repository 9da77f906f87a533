"""Sites: what their settings take, and what of it is written in another way than it was sent."""

import pytest

from tests.bridge.engine.http.engine_service import Service, identity
from tests.conformance.engine.cases import ok


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (["https://Viewer.Example:443"], ["https://viewer.example"]),
        (["HTTP://viewer.example:80", "http://viewer.example"], ["http://viewer.example"]),
        (["https://viewer.example:8443"], ["https://viewer.example:8443"]),
        (["http://[::1]:4443"], ["http://[::1]:4443"]),
    ],
)
def test_host_origins_are_written_as_browsers_do(
    service: Service, sent: list[str], kept: list[str]
) -> None:
    """Authentication 9: origins are compared as a whole; capitals and :443 are no difference."""
    answer = ok(service.call("PATCH", "/api/admin/sites/SITE1", json={"hostOrigins": sent}))
    assert answer.json()["hostOrigins"] == kept
    assert service.get("admin/sites/SITE1").json()["hostOrigins"] == kept


def test_a_site_is_one_that_its_address_can_name(service: Service) -> None:
    """SiteID: issued by the operator; with a slash nobody could administer it."""
    body = {"SiteID": "SITE/3"}
    assert service.post("admin/sites", body, "service").json()["code"] == "bad_site"
    spaced = ok(service.post("admin/sites", {"SiteID": "Süd 3"}, "service")).json()["SiteID"]
    assert ok(service.get(f"admin/sites/{spaced}", "service")).json()["SiteID"] == spaced


@pytest.mark.parametrize("zone", ["localtime", "Factory", "Mars/Base", "+01:00"])
def test_a_sites_zone_is_iana(service: Service, zone: str) -> None:
    """TimeZone (site default): an IANA zone."""
    answer = service.call("PATCH", "/api/admin/sites/SITE1", json={"timeZone": zone})
    assert answer.status_code == 400


def test_an_unknown_location_is_refused_with_its_place(service: Service) -> None:
    """SiteLocation: optional everywhere; one that the site lacks is 400, at its own place."""
    ok(service.call("PATCH", "/api/admin/sites/SITE1", json={"locations": ["North"]}))
    ok(service.launch())
    lost = {**identity(), "SiteLocation": "South"}
    several = {"clinicalInfo": [identity(), lost]}
    orders = {"SiteID": "SITE1", "SiteLocation": "South", "clinicalInfo": [identity()]}
    for path, body, place in (
        ("export/json", {"clinicalInfo": lost}, "/clinicalInfo/SiteLocation"),
        ("unassign", lost, "/SiteLocation"),
        ("status", {"clinicalInfo": [lost]}, "/clinicalInfo/0/SiteLocation"),
        ("link-orders", orders, "/SiteLocation"),
    ):
        answer = service.post(f"report/{path}", body)
        assert (answer.status_code, answer.json()["code"]) == (400, "unknown_location"), path
        assert answer.json()["errors"][0]["pointer"] == place
    assert service.post("report/status", several).status_code == 400
    answer = service.get("report/content", **lost)
    assert answer.json()["errors"][0]["pointer"] == "SiteLocation"
    ok(service.post("report/status", {"clinicalInfo": [lost | {"SiteLocation": "North"}]}))


def test_a_401_names_the_authentication_header(service: Service) -> None:
    """Authentication 1: 401 names the header (RFC 9110 §11.6.1)."""
    answer = service.call("POST", "/api/report/status", None, json={})
    assert "x-access-token" in answer.headers["www-authenticate"]
    page = service.call("GET", "/reporting/api/session/report", None)
    assert page.headers["www-authenticate"] == "Bearer"
