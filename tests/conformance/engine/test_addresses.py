"""Base addresses, origins, and the keys that seal links."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from bridge.engine.links import KeyRing
from bridge.engine.service.launch import links
from bridge.network_source import Proxies
from tests.acceptance.house import House
from tests.bridge.engine.http.engine_service import BASE, Service, boot, identity, launch_body, user
from tests.conformance.engine.cases import Case, ok
from tests.eventually import PATIENCE


def test_regional_addresses(service: Service) -> None:
    """Base address: a regional address serves the same path; links contain the requested one."""
    engine = service.application.state.engine
    regional = "https://au.reports.test"
    engine.addresses = type(engine.addresses)(BASE, [regional], Proxies(["127.0.0.1/32"]))
    forwarded = {"x-forwarded-host": "au.reports.test", "x-forwarded-proto": "https"}
    cases = [
        (forwarded, regional),
        ({"host": "au.reports.test"}, regional),  # a proxy without forwarded headers
        ({"x-forwarded-host": "au.reports.test"}, regional),
        ({**forwarded, "x-forwarded-proto": "http"}, BASE),  # http is another address
        ({"x-forwarded-host": "evil.test", "x-forwarded-proto": "https"}, BASE),
        ({**forwarded, "x-forwarded-host": "au.reports.test:444"}, BASE),
        ({**forwarded, "x-forwarded-host": "au.reports.test@evil.test"}, BASE),
        ({"host": "evil.test/?"}, BASE),
        ({"host": ""}, BASE),
    ]
    for headers, base in cases:
        response = service.post("report/launch/clinical", launch_body(), headers=headers)
        assert response.json()["reportLink"].startswith(f"{base}/reporting/"), headers
        body = {
            "clinicalInfo": {"SiteID": "SITE1"},
            "userInfo": {"UserName": "N", "UserEmail": "n@x.test"},
        }
        response = service.post("report/init", body, headers=headers)
        assert response.json()["sessionLink"].startswith(f"{base}/reporting/init?"), headers
    engine.addresses = type(engine.addresses)(BASE, [regional], Proxies(["10.0.0.0/8"]))
    for headers in (forwarded, {"host": "au.reports.test"}):
        response = service.post("report/launch/clinical", launch_body(), headers=headers)
        assert response.json()["reportLink"].startswith(f"{BASE}/reporting/")


@pytest.mark.parametrize("origin", ["https://evil.test", "null", BASE])
def test_cross_origin_requests_get_no_permission(service: Service, origin: str) -> None:
    """CORS is off on /api: no header permits a script of a browser to read the response."""
    ok(service.launch())
    for method, path in (("OPTIONS", "/api/report/status"), ("GET", "/api/worklist?SiteID=SITE1")):
        headers = {"origin": origin, "access-control-request-method": "POST"}
        response = service.call(method, path, headers=headers)
        assert not [header for header in response.headers if header.startswith("access-control")]


def test_rotating_keys(service: Service) -> None:
    """Links: an old key still opens them; after resealing to the newest it can be removed."""
    engine = service.application.state.engine
    tags = {"KeyFindings": "Sealed."}
    linked = [
        ok(service.launch(accession=f"A{n}", tags=tags, lazyLaunch=True, userInfo=user())).json()
        for n in range(3)
    ]
    old = engine.settings.link_keys[0]
    new = ("2", secrets.token_bytes(32))
    engine.keys = KeyRing((new, old), engine.random)
    assert service.open(linked[0]["reportLink"]).status_code == 200
    with service.database.write() as connection:
        vault = links.LinkKeys(engine.keys, engine.random)
        assert links.reseal(connection, vault, service.clock.now).moved == 3
        assert links.reseal(connection, vault, service.clock.now).moved == 0
    engine.keys = KeyRing((new,), engine.random)
    assert service.open(linked[1]["reportLink"]).status_code == 200
    assert Case(service).content("A1") == "Sealed."
    engine.keys = KeyRing((("3", secrets.token_bytes(32)),), engine.random)
    assert service.open(linked[2]["reportLink"]).status_code == 404


def test_headers_of_every_response(service: Service) -> None:
    """Versioning: X-API-Version; each response has a request id and no-store and nosniff."""
    for response in (service.launch(), service.post("report/sign", {}), service.call("GET", "/x")):
        assert response.headers["x-api-version"] == "1"
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["x-request-id"]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path / "home", sign_delay=600)
    made.make()
    yield made
    made.kill()


@pytest.mark.slow
def test_the_engine_alone(house: House) -> None:
    """A restart keeps cooling periods, a rotated key keeps links; no patient data is logged."""
    house.start("--role", "engine")
    sealed = launch_body(
        "SEALED-1", "CANARY-MRN", lazyLaunch=True, userInfo=user(),
        tags={"PatientName": "CANARY^NAME", "KeyFindings": "Canary finding."},
    )  # fmt: skip
    link = house.post("/api/report/launch/clinical", sealed)["reportLink"]
    assert link.startswith(f"{house.url}/reporting/launch-report/clinical?token=")
    house.draft("P1", "A1", "Text.")
    house.sign("P1", "A1")
    before = status(house)
    house.kill()
    house.bridge("rotate-keys")
    house.start("--role", "engine")
    assert status(house) == before
    assert before["unsignUntil"]
    house.act("unsign", "P1", "A1")
    assert status(house)["status"] == "Draft"
    page = httpx.get(link, timeout=PATIENCE)
    assert page.status_code == 200
    assert boot(page)["reportId"]
    content = house.get("/api/report/content", **identity("SEALED-1", "CANARY-MRN"))
    assert content == {"content": "Canary finding."}
    assert house.stop() == 0
    handle = link.rpartition("=")[2]
    for secret in ("CANARY", "SEALED-1", "Canary", handle, house.token):
        assert secret not in house.log()


def status(house: House) -> dict[str, Any]:
    (record,) = house.post("/api/report/status", {"clinicalInfo": [identity()]})
    return dict(record)


@pytest.mark.slow
def test_limits_are_settings(house: House) -> None:
    """Rates and sizes of the settings apply, with headers."""
    house.settings = '[rates]\nlaunches = 2\n[sizes]\nbody = "4KiB"\nkey_findings = 10\n'
    house.configure()
    house.start("--role", "engine")
    headers = {"x-access-token": house.token}
    with httpx.Client(base_url=house.url, headers=headers, timeout=PATIENCE) as http:
        path = "/api/report/launch/clinical"
        large = launch_body(tags={"Notes": "n" * 5000})
        assert http.post(path, json=large).json()["code"] == "too_large"
        granted = http.post(path, json=launch_body(tags={"KeyFindings": "more than ten"}))
        assert granted.json()["code"] == "too_long"
        assert granted.headers["ratelimit-policy"] == '"launches";q=2;w=60'
        refused = http.post(path, json=launch_body())
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 0
        assert "4096 bytes" in http.get("/docs").text


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
