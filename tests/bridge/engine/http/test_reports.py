"""Status, content, exports, changes and worklist over HTTP."""

import asyncio
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


@pytest.mark.parametrize(
    "body", [ONE, identity(), {"clinicalInfo": {**identity(), "SiteLocation": ""}}]
)
def test_bodies_may_be_nested_or_flat(service: Service, body: dict[str, Any]) -> None:
    """The document nests the identity for most endpoints and not for two."""
    service.launch()
    for path in ("export/json", "unassign", "delete"):
        response = service.post(f"report/{path}", body)
        assert response.status_code == 200, (path, response.text)


def test_the_feed_shows_a_release_when_it_is_due(service: Service) -> None:
    """changes: in commit order, with the release after the cooling period."""
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


def test_a_change_wakes_a_waiting_reader(service: Service) -> None:
    """changes: a waiting request returns the first change, or nothing after the wait."""
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
        response = await reader
        return loop.time() - begin, response.json()

    seconds, page = service.runner.run(waiting())
    assert seconds < WAIT, "it was woken, and did not wait to the end"
    assert len(page["changes"]) == 1
    assert service.get("report/changes", after=page["cursor"], wait=0.1).json() == {
        "changes": [],
        "cursor": page["cursor"],
    }


def test_the_feed_is_scoped_by_site(service: Service) -> None:
    """changes: an administrator reads own sites, a service token all sites, a user none."""
    service.launch()
    service.launch(FOREIGN, site="SITE2")
    assert len(service.get("report/changes").json()["changes"]) == 1
    assert len(service.get("report/changes", "service").json()["changes"]) == 2
    assert service.get("report/changes", READER).status_code == 403
    assert service.get("report/changes", SiteID="SITE2").status_code == 403
    for wrong in ({"after": -1}, {"limit": 0}, {"wait": 61}, {"after": "x"}):
        assert service.get("report/changes", **wrong).status_code == 400


def test_all_actions_are_audited_in_one_hash_chain(service: Service) -> None:
    """The verification finds an altered row."""
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
    """Filters: day, modality, location and reader; sorting: study date and patient, both ways."""
    for number, (name, day) in enumerate((("Bell", "20260103"), ("Abt", "2026-01-02")), 1):
        tags = {"PatientName": name, "StudyDate": day, "Modality": "CT" if number == 1 else "MR"}
        launched = service.launch(accession=f"A{number}", mrn=f"P{number}", tags=tags)
        assert launched.status_code == 200

    def found(**query: Any) -> list[str]:
        response = service.get("worklist", SiteID="SITE1", **query)
        assert response.status_code == 200, response.text
        return [each["orders"][0]["PatientName"] for each in response.json()["items"]]

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
    """An ignored filter would show other patients."""
    response = service.get("worklist", SiteID="SITE1", modality="CT", statuses="Draft")
    assert (response.status_code, response.json()["code"]) == (400, "invalid_request")
    assert [each["pointer"] for each in response.json()["errors"]] == ["modality", "statuses"]
    for text in ("a\x00b", "\u202e"):
        for name in ("reader", "q", "Modality", "SiteLocation", "PatientMRN"):
            assert service.get("worklist", SiteID="SITE1", **{name: text}).status_code in (200, 400)
    for wrong in ({"StudyDate": "2026-13-01"}, {"studyDateFrom": "01.02.2026"}, {"sort": "name"}):
        refused = service.get("worklist", SiteID="SITE1", **wrong)
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (400, *wrong)


def test_times_of_worklist_and_feed_are_iso_8601(service: Service) -> None:
    """Times have the format of the exports; only the status record has the documented numbers."""
    service.launch()
    (item,) = service.get("worklist", SiteID="SITE1").json()["items"]
    (change,) = service.get("report/changes").json()["changes"]
    now = "2027-01-15T08:00:00.000Z"
    times = (item["createdAt"], item["updatedAt"], item["orderedAt"], change["at"])
    assert times == (now, now, now, now)
    assert item["signedAt"] is None
