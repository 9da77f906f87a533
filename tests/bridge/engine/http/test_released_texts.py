"""Texts in the change feed and in status records."""

from typing import Any

import pytest

from bridge.engine.service import released_texts
from bridge.engine.settings import EngineSettings, Quota, RateLimits
from tests.bridge.engine.http.engine_service import ADMIN, Service, identity

ONE = {"clinicalInfo": identity()}
REPORT_TEXT = "Lungs: clear.\r\n\r\n  Heart & vessels ^normal~."


def release(service: Service) -> None:
    service.launch(tags={"KeyFindings": REPORT_TEXT})
    assert service.post("report/sign", {**ONE, "ignoreSignDelay": True}).status_code == 200


def releases(service: Service, who: str = "service", **query: Any) -> list[dict[str, Any]]:
    response = service.get("report/changes", who, **query)
    assert response.status_code == 200, response.text
    return [each for each in response.json()["changes"] if each["release"]]


def test_released_texts_equal_the_export(service: Service) -> None:
    """Text, times and users of report and addenda equal those of the JSON export."""
    release(service)
    page = service.page(service.launch())
    page("addendum/create", {})
    page("addendum/save", {"version": 1, "text": "More:\n- one\n\nEnd."})
    page("addendum/sign", {"version": 2})
    assert service.post("report/addendum/sign", {**ONE, "ignoreSignDelay": True}).status_code == 200
    final, addendum = releases(service, texts="true")
    export = service.post("report/export/json", ONE).json()
    assert len(export["addendumInfo"]) == 1
    for each in (export["reportInfo"], *export["addendumInfo"]):
        del each["signedBy"]["signature"]
    assert final["text"] == addendum["text"]
    assert final["text"] == {name: export[name] for name in ("reportInfo", "addendumInfo")}
    assert "Heart & vessels" in final["text"]["reportInfo"]["content"]


def test_each_report_of_a_page_has_its_own_addenda(service: Service) -> None:
    """Two reports with an addendum each are read together."""
    for accession in ("A1", "A2"):
        now = {"clinicalInfo": identity(accession), "ignoreSignDelay": True}
        service.launch(accession=accession, tags={"KeyFindings": REPORT_TEXT})
        assert service.post("report/sign", now).status_code == 200
        page = service.page(service.launch(accession=accession))
        page("addendum/create", {})
        page("addendum/save", {"version": 1, "text": f"More about {accession}."})
        page("addendum/sign", {"version": 2})
        assert service.post("report/addendum/sign", now).status_code == 200
    found = releases(service, texts="true")
    assert len(found) == 4
    for each in found:
        (addendum,) = each["text"]["addendumInfo"]
        assert addendum["content"] == f"More about {each['orders'][0]['Accession']}."


def test_a_draft_addendum_is_not_sent(service: Service) -> None:
    """The text of a release has the signed addenda only."""
    release(service)
    page = service.page(service.launch())
    page("addendum/create", {})
    page("addendum/save", {"version": 1, "text": "Not signed."})
    (final,) = releases(service, texts="true")
    assert final["text"]["addendumInfo"] == []


def test_texts_are_sent_on_request_only(service: Service) -> None:
    service.launch(tags={"KeyFindings": REPORT_TEXT})
    assert service.post("report/sign", ONE).status_code == 200
    changes = service.get("report/changes", "service", texts="true").json()["changes"]
    assert changes
    assert not any("text" in each for each in changes)
    assert service.post("report/sign", {**ONE, "ignoreSignDelay": True}).status_code == 200
    assert "text" not in releases(service)[0]
    assert "text" in releases(service, texts="true")[0]


@pytest.mark.parametrize("who", ["service", ADMIN])
def test_texts_are_recorded_as_exports(service: Service, who: str) -> None:
    """Reading the text of a report is one audit event."""
    release(service)
    assert len(releases(service, who, texts="true")) == 1
    service.runner.run(service.application.state.engine.audit_buffer.flush())
    events = service.get("admin/sites/SITE1/audit", after=0, limit=1000).json()["events"]
    assert [each["action"] for each in events].count("export") == 1


def test_texts_count_as_exports(service: Service) -> None:
    """After the quota is used the change has no text; the bridge has no quota."""
    release(service)
    engine = service.application.state.engine
    rates = RateLimits(exports=Quota(2))
    engine.settings = EngineSettings(engine.settings.link_keys, rates=rates)
    changes = [releases(service, ADMIN, texts="true")[0] for _ in range(3)]
    assert ["text" in each for each in changes] == [True, True, False]
    assert service.post("report/export/json", ONE).status_code == 429
    assert "text" in releases(service, texts="true")[0]


def test_each_page_of_the_feed_has_its_own_texts(service: Service) -> None:
    """For any page size and event filter."""
    release(service)
    service.launch(accession="A2", tags={"KeyFindings": "Another."})
    body = {"clinicalInfo": identity("A2"), "ignoreSignDelay": True}
    assert service.post("report/sign", body).status_code == 200
    texts, cursor = [], 0
    while changes := service.get(
        "report/changes", "service", after=cursor, limit=1, texts="true", without="report_signed"
    ).json()["changes"]:
        texts += [each["text"]["reportInfo"]["content"] for each in changes if "text" in each]
        cursor = changes[-1]["cursor"]
    assert len(texts) == 2
    assert texts[0] != texts[1] == "Another."


def records(
    service: Service, *accessions: str, who: str = "service", **options: Any
) -> list[dict[str, Any]]:
    orders = [identity(each) for each in accessions or ("A1",)]
    response = service.post("report/status", {"clinicalInfo": orders, **options}, who)
    assert response.status_code == 200, response.text
    return list(response.json())


def test_status_records_have_the_texts_of_signed_reports(service: Service) -> None:
    """The text equals that of the JSON export; null for a draft; absent without a request."""
    release(service)
    service.launch(accession="A2", tags={"KeyFindings": "A draft."})
    signed, draft = records(service, "A1", "A2", texts=True)
    export = service.post("report/export/json", ONE).json()
    del export["reportInfo"]["signedBy"]["signature"]
    assert signed["text"] == {name: export[name] for name in ("reportInfo", "addendumInfo")}
    assert draft["text"] is None
    assert not any("text" in each for each in records(service, "A1", "A2"))


@pytest.mark.parametrize("who", ["service", ADMIN])
def test_texts_of_status_records_are_recorded_as_exports(service: Service, who: str) -> None:
    """The audit trail has an export of the signed report only."""
    release(service)
    service.launch(accession="A2", tags={"KeyFindings": "A draft."})
    records(service, "A1", "A2", who=who, texts=True)
    service.runner.run(service.application.state.engine.audit_buffer.flush())
    events = service.get("admin/sites/SITE1/audit", after=0, limit=1000).json()["events"]
    (event,) = [each for each in events if each["action"] == "export"]
    assert event["reportId"] == records(service)[0]["reportId"]


def test_texts_of_status_records_count_as_exports(service: Service) -> None:
    """After the quota is used the records have no text; a request with texts names few orders."""
    release(service)
    engine = service.application.state.engine
    engine.settings = EngineSettings(engine.settings.link_keys, rates=RateLimits(exports=Quota(1)))
    found = [records(service, who=ADMIN, texts=True)[0] for _ in range(2)]
    assert ["text" in each for each in found] == [True, False]
    orders = [identity(f"A{number}") for number in range(101)]
    response = service.post("report/status", {"clinicalInfo": orders, "texts": True}, "service")
    assert (response.status_code, response.json()["code"]) == (400, "too_many_orders")


@pytest.mark.parametrize("who", ["service", ADMIN])
def test_the_texts_of_a_response_are_limited(
    service: Service, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    """A text that does not fit is left out with its addenda, and the next one is tried."""
    for accession, findings in (("A1", "Clear."), ("A2", "Nodule."), ("A3", "Normal.")):
        service.launch(accession=accession, tags={"KeyFindings": findings})
        body = {"clinicalInfo": identity(accession), "ignoreSignDelay": True}
        assert service.post("report/sign", body).status_code == 200
    page = service.page(service.launch(accession="A2"))
    page("addendum/create", {})
    page("addendum/save", {"version": 1, "text": "Benign."})
    page("addendum/sign", {"version": 2})
    body = {"clinicalInfo": identity("A2"), "ignoreSignDelay": True}
    assert service.post("report/addendum/sign", body).status_code == 200
    monkeypatch.setattr(released_texts, "MAX_CHARACTERS", len("Clear.Nodule.Normal"))
    feed = releases(service, who, texts="true")
    assert ["text" in each for each in feed] == [True, False, True, False]
    found = records(service, "A1", "A2", "A3", who=who, texts=True)
    assert [each["text"] is not None for each in found] == [True, False, True]
    assert records(service, "A2", who=who, texts=True)[0]["text"] is not None
