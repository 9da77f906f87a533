"""Sites: what their settings take, and what of it is written in another way than it was sent."""

import pytest

from tests.bridge.engine.http.house import Service
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
