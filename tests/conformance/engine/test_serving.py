"""The program with the role engine: killed in a cooling period, rotated keys, limits."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.house import House
from tests.bridge.engine.http.engine_service import boot, identity, launch_body, user
from tests.eventually import PATIENCE

pytestmark = pytest.mark.slow


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """An installation whose site has a sign delay of ten minutes."""
    made = House(tmp_path / "home", sign_delay=600)
    made.make()
    yield made
    made.kill()


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
