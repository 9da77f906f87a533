"""Status, content, exports, changes and worklist over HTTP."""

import asyncio
import base64
from typing import Any

import pytest

from bridge.audit.chain import ENGINE_CHAIN
from bridge.engine.http.requests.request_limits import WaitingRequests
from tests.bridge.engine.http.engine_service import (
    ADMIN,
    FOREIGN,
    READER,
    Service,
    identity,
    launch_body,
    user,
)
from tests.eventually import eventually_async

ONE = {"clinicalInfo": identity()}
WAIT = 60  # seconds: the longest that a reader may wait


def test_the_status_record(service: Service) -> None:
    """Report status record: exactly its members and the two additional ones."""
    service.launch(READER)
    assert service.status() == {
        "reportId": service.launch().json()["reportId"],
        "status": "Draft",
        "userEmail": READER,
        "unsignUntil": None,
        "clinicalInfo": [identity()],
        "hasContent": False,
        "addendumUnsignUntil": None,
    }


def test_several_are_asked_and_some_are_known(service: Service) -> None:
    """status: found reports are returned; a single unknown order is 404."""
    service.launch()
    body = {"clinicalInfo": [identity("A9"), identity("A1"), identity("A1")]}
    answer = service.post("report/status", body)
    assert len(answer.json()) == 1
    assert service.post("report/status", {"clinicalInfo": [identity("A9")]}).status_code == 404
    assert service.post("report/status", {"clinicalInfo": []}).status_code == 400
    many = {"clinicalInfo": [identity()] * 501}
    assert service.post("report/status", many).json()["code"] == "too_many_orders"


def test_unsign_until_is_the_end_of_the_cooling_period(service: Service) -> None:
    """unsignUntil: milliseconds since the epoch; null when the period has expired."""
    service.launch()
    service.post("report/sign", ONE)
    assert service.status()["unsignUntil"] == service.clock.now + 60_000
    service.clock.pass_seconds(60)
    assert service.status()["unsignUntil"] is None
    answer = service.post("report/unsign", ONE)
    assert (answer.status_code, answer.json()["code"]) == (500, "cooling_elapsed")


def test_content_needs_its_query(service: Service) -> None:
    """content: SiteID, PatientMRN and Accession are required."""
    service.launch(tags={"KeyFindings": "Nodule"})
    assert service.get("report/content", **identity()).json() == {"content": "Nodule"}
    for name in identity():
        query = {key: value for key, value in identity().items() if key != name}
        assert service.get("report/content", **query).status_code == 400
    assert service.get("report/content", **identity("A9")).status_code == 404
    nul = service.call("GET", "/api/report/content?SiteID=SITE1&PatientMRN=%00&Accession=A1")
    assert nul.status_code == 400


def test_the_exports(service: Service) -> None:
    """export: html, json, rtf as bytes and in base64."""
    service.launch(tags={"KeyFindings": "Nodule", "PatientName": "DOE^JANE"})
    page = service.post("report/export/html", {**ONE, "timeZone": "Europe/Vienna"}).json()["html"]
    assert 'class="report-content"' in page
    export = service.post("report/export/json", ONE).json()
    assert set(export) == {"siteInfo", "clinicalInfo", "addendumInfo", "prelimInfo", "reportInfo"}
    assert len(export["clinicalInfo"][0]) == 16
    binary = service.post("report/export/rtf", ONE)
    assert binary.headers["content-type"] == "application/rtf"
    assert binary.content.startswith(b"{\\rtf1")
    for wanted in ("base64", "BASE64"):
        encoded = service.post("report/export/rtf", {**ONE, "responseType": wanted}).json()["rtf"]
        assert base64.b64decode(encoded) == binary.content
    short = service.post("report/export/rtf", {**ONE, "contentOnly": True}).content
    assert b"DOE" not in short


@pytest.mark.parametrize("path", ["html", "rtf"])
def test_a_time_zone_must_exist(service: Service, path: str) -> None:
    """timeZone: an IANA zone."""
    service.launch()
    for zone in ("Mars/Base", "../etc/passwd", "UTC\n"):
        answer = service.post(f"report/export/{path}", {**ONE, "timeZone": zone})
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_zone")
    assert service.post("report/sign", {**ONE, "timeZone": "Nowhere"}).status_code == 400


def test_an_unknown_response_type_is_400(service: Service) -> None:
    """responseType: arraybuffer or base64."""
    service.launch()
    body = {**ONE, "responseType": "pdf"}
    assert service.post("report/export/rtf", body).status_code == 400


@pytest.mark.parametrize(
    "body", [ONE, identity(), {"clinicalInfo": {**identity(), "SiteLocation": ""}}]
)
def test_bodies_may_be_nested_or_flat(service: Service, body: dict[str, Any]) -> None:
    """The document nests the identity for most endpoints and leaves it flat for two."""
    service.launch()
    for path in ("export/json", "unassign", "delete"):
        answer = service.post(f"report/{path}", body)
        assert answer.status_code == 200, (path, answer.text)


def test_locations_are_checked_where_a_site_has_them(service: Service) -> None:
    """SiteLocation: ignored if the site does not support locations."""
    body = {"clinicalInfo": [{**identity(), "SiteLocation": "North"}]}
    service.launch()
    assert service.post("report/status", body).status_code == 200
    service.call("PUT", "/api/admin/sites/SITE1", json={"locations": ["South"]})
    answer = service.post("report/status", body)
    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_location")
    assert service.launch(tags={"SiteLocation": "North"}).status_code == 400
    assert service.launch(tags={"SiteLocation": "South"}).status_code == 200


def test_the_feed_shows_a_release_when_it_is_due(service: Service) -> None:
    """changes: in commit order, with the release once the cooling period is over."""
    service.launch()
    service.post("report/sign", ONE)
    engine = service.application.state.engine
    page = service.get("report/changes").json()
    assert [each["event"] for each in page["changes"]] == ["report_created", "report_signed"]
    assert all(each["release"] is None for each in page["changes"])

    async def due() -> Any:
        await engine.start()
        service.clock.pass_seconds(60)
        path = f"/api/report/changes?after={page['cursor']}&wait=10"
        headers = {"x-access-token": service.tokens[ADMIN]}
        return await service.http.get(path, headers=headers)

    changes = service.runner.run(due()).json()["changes"]
    assert [(each["event"], each["release"]) for each in changes] == [
        ("report_finalized", {"kind": "final", "sequence": 1})
    ]


def test_a_waiting_reader_is_woken_by_a_change(service: Service) -> None:
    """changes: a waiting request returns with the first change, or empty at the end."""
    engine = service.application.state.engine
    polls = engine.polls = WaitingRequests(1, 1)

    async def waiting() -> tuple[float, Any]:
        loop = asyncio.get_running_loop()
        headers = {"x-access-token": service.tokens[ADMIN]}
        begin = loop.time()
        reader = asyncio.create_task(
            service.http.get(f"/api/report/changes?wait={WAIT}", headers=headers)
        )
        await eventually_async(lambda: polls._callers.total() == 1)
        body = launch_body()
        await service.http.post("/api/report/launch/clinical", json=body, headers=headers)
        answer = await reader
        return loop.time() - begin, answer.json()

    seconds, page = service.runner.run(waiting())
    assert seconds < WAIT, "it was woken, and did not wait to the end"
    assert len(page["changes"]) == 1
    assert service.get("report/changes", after=page["cursor"], wait=0.1).json() == {
        "changes": [],
        "cursor": page["cursor"],
    }


def test_the_feed_is_scoped_by_site(service: Service) -> None:
    """changes: an administrator sees own sites, a service token all, a plain user none."""
    service.launch()
    service.launch(FOREIGN, site="SITE2")
    assert len(service.get("report/changes").json()["changes"]) == 1
    assert len(service.get("report/changes", "service").json()["changes"]) == 2
    assert service.get("report/changes", READER).status_code == 403
    assert service.get("report/changes", SiteID="SITE2").status_code == 403
    for wrong in ({"after": -1}, {"limit": 0}, {"wait": 61}, {"after": "x"}):
        assert service.get("report/changes", **wrong).status_code == 400


def test_patients_are_updated_and_merged(service: Service) -> None:
    """patient/update and patient/merge: over all reports of the site, idempotent."""
    service.launch(tags={"PatientName": "DOE^JANE"})
    change = {"SiteID": "SITE1", "PatientMRN": "P1", "PatientName": "ROE^JANE"}
    merge = {"SiteID": "SITE1", "PatientMRN": "P2", "PriorPatientMRN": "P1"}
    for _ in range(2):
        assert service.post("patient/update", change).status_code == 200
        assert service.post("patient/merge", merge).status_code == 200
    assert service.status(mrn="P1")["clinicalInfo"] == [identity(mrn="P2")]


def test_everything_is_audited_in_one_chain(service: Service) -> None:
    """Audit: append-only and hash-chained; an altered row is found."""
    link = service.launch(userInfo=user()).json()["reportLink"]
    service.open(link)
    service.post("report/sign", ONE)
    service.post("report/export/json", ONE)
    service.runner.run(service.application.state.engine.audit_buffer.flush())
    with service.database.write() as connection:
        actions = connection.exec_driver_sql(
            "SELECT action FROM engine_audit_event ORDER BY sequence"
        ).scalars()
        assert list(actions) == ["launch", "open", "sign", "export"]
        assert ENGINE_CHAIN.verify(connection).broken is None
        connection.exec_driver_sql(
            "UPDATE engine_audit_event SET action = 'read' WHERE action = 'sign'"
        )
        assert ENGINE_CHAIN.verify(connection).broken == 3


def test_the_worklist_is_filtered_and_sorted(service: Service) -> None:
    """By day, modality, location and reader; by study date and patient, both ways."""
    for number, (name, day) in enumerate((("Bell", "20260103"), ("Abt", "2026-01-02")), 1):
        tags = {"PatientName": name, "StudyDate": day, "Modality": "CT" if number == 1 else "MR"}
        launched = service.launch(accession=f"A{number}", mrn=f"P{number}", tags=tags)
        assert launched.status_code == 200

    def found(**query: Any) -> list[str]:
        answer = service.get("worklist", SiteID="SITE1", **query)
        assert answer.status_code == 200, answer.text
        return [each["orders"][0]["PatientName"] for each in answer.json()["items"]]

    assert found(sort="patient") == ["Abt", "Bell"]
    assert found(sort="-patient") == ["Bell", "Abt"]
    assert found(sort="studyDate") == ["Abt", "Bell"]
    assert found(sort="-studyDate") == ["Bell", "Abt"]
    assert found(StudyDate="2026-01-02") == ["Abt"]
    assert found(studyDateFrom="20260103", studyDateTo="2026-01-31") == ["Bell"]
    assert found(Modality=["CT", "US"]) == ["Bell"]
    assert found(reader=ADMIN, Modality="MR") == ["Abt"]
    assert found(reader="none") == found(SiteLocation="North") == []


def test_unknown_filters_of_the_worklist_are_refused(service: Service) -> None:
    """An unknown filter is refused, because an ignored one would show other patients."""
    answer = service.get("worklist", SiteID="SITE1", modality="CT", statuses="Draft")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert [each["pointer"] for each in answer.json()["errors"]] == ["modality", "statuses"]
    for text in ("a\x00b", "\u202e"):
        for name in ("reader", "q", "Modality", "SiteLocation", "PatientMRN"):
            assert service.get("worklist", SiteID="SITE1", **{name: text}).status_code in (200, 400)
    for wrong in ({"StudyDate": "2026-13-01"}, {"studyDateFrom": "01.02.2026"}, {"sort": "name"}):
        refused = service.get("worklist", SiteID="SITE1", **wrong)
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (400, *wrong)


def test_our_own_endpoints_write_times_in_iso(service: Service) -> None:
    """The worklist and the feed, as the exports; the status record keeps the document's numbers."""
    service.launch()
    (item,) = service.get("worklist", SiteID="SITE1").json()["items"]
    (change,) = service.get("report/changes").json()["changes"]
    now = "2027-01-15T08:00:00.000Z"
    times = (item["createdAt"], item["updatedAt"], item["orderedAt"], change["at"])
    assert times == (now, now, now, now)
    assert item["signedAt"] is None
