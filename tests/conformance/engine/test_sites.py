"""Settings of a site: accepted values and their normalized form."""

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
def test_host_origins_are_normalized_as_in_browsers(
    service: Service, sent: list[str], kept: list[str]
) -> None:
    """Authentication 9: lower case, without the default port."""
    response = ok(service.call("PATCH", "/api/admin/sites/SITE1", json={"hostOrigins": sent}))
    assert response.json()["hostOrigins"] == kept
    assert service.get("admin/sites/SITE1").json()["hostOrigins"] == kept


def test_a_site_id_can_be_part_of_a_path(service: Service) -> None:
    """SiteID: a slash is refused, other characters are encoded."""
    body = {"SiteID": "SITE/3"}
    assert service.post("admin/sites", body, "service").json()["code"] == "bad_site"
    spaced = ok(service.post("admin/sites", {"SiteID": "Süd 3"}, "service")).json()["SiteID"]
    assert ok(service.get(f"admin/sites/{spaced}", "service")).json()["SiteID"] == spaced


@pytest.mark.parametrize("zone", ["localtime", "Factory", "Mars/Base", "+01:00"])
def test_the_time_zone_of_a_site_is_iana(service: Service, zone: str) -> None:
    response = service.call("PATCH", "/api/admin/sites/SITE1", json={"timeZone": zone})
    assert response.status_code == 400


def test_an_unknown_location_is_refused_with_its_place(service: Service) -> None:
    """SiteLocation: optional; a location that the site lacks is 400 with its place."""
    ok(service.call("PATCH", "/api/admin/sites/SITE1", json={"locations": ["North"]}))
    ok(service.launch())
    unknown = {**identity(), "SiteLocation": "South"}
    several = {"clinicalInfo": [identity(), unknown]}
    orders = {"SiteID": "SITE1", "SiteLocation": "South", "clinicalInfo": [identity()]}
    for path, body, place in (
        ("export/json", {"clinicalInfo": unknown}, "/clinicalInfo/SiteLocation"),
        ("unassign", unknown, "/SiteLocation"),
        ("status", {"clinicalInfo": [unknown]}, "/clinicalInfo/0/SiteLocation"),
        ("link-orders", orders, "/SiteLocation"),
    ):
        response = service.post(f"report/{path}", body)
        assert (response.status_code, response.json()["code"]) == (400, "unknown_location"), path
        assert response.json()["errors"][0]["pointer"] == place
    assert service.post("report/status", several).status_code == 400
    response = service.get("report/content", **unknown)
    assert response.json()["errors"][0]["pointer"] == "SiteLocation"
    ok(service.post("report/status", {"clinicalInfo": [unknown | {"SiteLocation": "North"}]}))


def test_a_401_names_the_authentication_header(service: Service) -> None:
    """Authentication 1: 401 names the header (RFC 9110 §11.6.1)."""
    response = service.call("POST", "/api/report/status", None, json={})
    assert "x-access-token" in response.headers["www-authenticate"]
    page = service.call("GET", "/reporting/api/session/report", None)
    assert page.headers["www-authenticate"] == "Bearer"
