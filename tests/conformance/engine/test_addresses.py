"""Base addresses, origins, and the keys that seal links."""

import secrets

import pytest

from bridge.engine.links import KeyRing
from bridge.engine.service.launch import links
from bridge.network_source import Proxies
from tests.bridge.engine.http.engine_service import BASE, Service, launch_body, user
from tests.conformance.engine.cases import Case, ok


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
        assert not [each for each in response.headers if each.startswith("access-control")]


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
