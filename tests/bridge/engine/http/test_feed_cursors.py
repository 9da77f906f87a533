"""Cursors of the change feed after a restored backup."""

import asyncio
import base64
import json
from typing import Any

import httpx
import pytest
from pydantic import RootModel
from sqlalchemy import text
from starlette.responses import Response

from bridge.contract import split_cursor
from bridge.engine.http.requests import response_bodies
from bridge.engine.http.requests.response_bodies import CHUNK
from bridge.engine.service import change_feed, released_texts
from bridge.engine.service.change_feed import prune_changes
from bridge.engine.service.signing import prelims
from bridge.engine.settings import EngineSettings, RateLimits
from bridge.quotas import Quota
from tests.bridge.engine.http.engine_service import ADMIN, Service, identity

_SEQUENCES = {
    "sqlite": "UPDATE sqlite_sequence SET seq = :keep WHERE name = 'engine_change'",
    "postgresql": "SELECT setval(pg_get_serial_sequence('engine_change', 'cursor'), :keep)",
}


def changes(service: Service, after: int = 0, **query: Any) -> httpx.Response:
    return service.get("report/changes", after=after, **query)


def restore(service: Service, keep: int) -> None:
    """Restore the feed to its first changes."""
    with service.database.write() as connection:
        connection.execute(text("DELETE FROM engine_change WHERE cursor > :keep"), {"keep": keep})
        connection.execute(text(_SEQUENCES[service.database.dialect]), {"keep": keep})


def test_a_cursor_beyond_the_end_is_refused(service: Service) -> None:
    """With its own code, also for a cursor of an older release, which has no mark."""
    for number in range(4):
        service.launch(accession=f"A{number}")
    page = changes(service).json()
    position, mark = split_cursor(page["cursor"])
    assert mark is not None

    restore(service, keep=2)

    for cursor in (page["cursor"], position, 10**9, 2**62):
        refused = changes(service, cursor)
        assert (refused.status_code, refused.json()["code"]) == (409, "cursor_beyond_end")
        assert refused.json()["retryable"] is False
    assert len(changes(service).json()["changes"]) == 2


def test_a_cursor_of_a_feed_with_another_history_is_refused(service: Service) -> None:
    """The restored feed has grown beyond the cursor again, with other changes."""
    for number in range(4):
        service.launch(accession=f"A{number}")
    page = changes(service).json()
    restore(service, keep=2)
    for number in range(5):
        service.launch(accession=f"B{number}")

    refused = changes(service, page["cursor"])

    assert (refused.status_code, refused.json()["code"]) == (409, "cursor_of_another_feed")
    assert changes(service, changes(service, limit=2).json()["cursor"]).status_code == 200


def test_cursors_of_older_releases_are_accepted(service: Service) -> None:
    """They are the plain numbers of changes, which each change still contains."""
    for number in range(3):
        service.launch(accession=f"A{number}")
    page = changes(service).json()
    numbers = [change["cursor"] for change in page["changes"]]

    rest = changes(service, numbers[0]).json()

    assert [change["cursor"] for change in rest["changes"]] == numbers[1:]
    assert rest["cursor"] == page["cursor"] > numbers[-1]
    assert changes(service, numbers[-1]).json() == {"changes": [], "cursor": numbers[-1]}


def test_cursors_increase_and_stay_valid_after_retention(service: Service) -> None:
    """A cursor is accepted after its change was pruned, also in an empty feed."""
    cursors = [0]
    for number in range(3):
        service.launch(accession=f"A{number}")
        cursors.append(changes(service, cursors[-1]).json()["cursor"])
    assert cursors == sorted(set(cursors))
    with service.database.write() as connection:
        prune_changes(connection, service.clock.now + 1, 100)

    for cursor in cursors:
        assert changes(service, cursor).json() == {"changes": [], "cursor": cursor}

    service.post("report/sign", {"clinicalInfo": identity("A1")})
    assert len(changes(service, cursors[-1]).json()["changes"]) == 1


def test_a_cursor_includes_filtered_changes(service: Service) -> None:
    """It is at the last change that was read, also if that was filtered."""
    service.launch()

    page = changes(service, without=["report_created", "report_opened"]).json()

    assert page["changes"] == []
    assert split_cursor(page["cursor"])[1] is not None
    assert changes(service, page["cursor"]).json() == {"changes": [], "cursor": page["cursor"]}


def test_a_full_page_skips_no_changes(service: Service) -> None:
    """The cursor of a full page is at its last change, also if others are filtered."""
    for number in range(3):
        service.launch(accession=f"A{number}")

    page = changes(service, limit=2, without=["report_signed"]).json()

    rest = changes(service, page["cursor"], without=["report_signed"]).json()
    whole = changes(service).json()["changes"]
    assert page["changes"] + rest["changes"] == whole
    assert len(whole) > 2


GROUP = {"prelimGroup": "Night", "prelimTag": "Resident"}


def feed(service: Service, who: str, **query: Any) -> list[list[dict[str, Any]]]:
    """Read the feed to its end; return the changes of each page."""
    pages: list[list[dict[str, Any]]] = []
    cursor = 0
    while True:
        response = service.get("report/changes", who, after=cursor, **query)
        assert response.status_code == 200, response.text
        if not response.json()["changes"]:
            return pages
        pages.append(response.json()["changes"])
        cursor = response.json()["cursor"]


@pytest.mark.parametrize("query", [{}, {"without": "report_opened"}], ids=["all", "some"])
@pytest.mark.parametrize("who", ["service", ADMIN])
def test_a_page_of_the_feed_ends_at_its_size(
    service: Service, monkeypatch: pytest.MonkeyPatch, who: str, query: dict[str, str]
) -> None:
    """Each change is on one page. A change that is larger than the limit is a page of its own."""
    for number, length in enumerate((10, 10, 50_000, 10, 10)):
        service.launch(accession=f"A{number}", tags={"Notes": "ä" * length})
    (whole,) = feed(service, who, **query)
    assert len(whole) == 5
    monkeypatch.setattr(change_feed, "MAX_PAGE_CHARACTERS", 20_000)

    pages = feed(service, who, **query)

    assert [len(page) for page in pages] == [3, 2]
    assert [change for page in pages for change in page] == whole
    monkeypatch.setattr(change_feed, "MAX_PAGE_CHARACTERS", 1)
    assert [len(page) for page in feed(service, who, **query)] == [1] * 5
    assert [len(page) for page in feed(service, who, limit=2, **query)] == [1] * 5


def waiting(service: Service) -> list[list[str]]:
    """Read the waiting reports to the end; return the accessions of each page."""
    pages: list[list[str]] = []
    cursor: str | None = ""
    while cursor is not None:
        response = service.get("report/site/prelims", SiteID="SITE1", cursor=cursor, **GROUP)
        assert response.status_code == 200, response.text
        page = response.json()
        pages.append([report["clinicalInfo"][0]["Accession"] for report in page["reports"]])
        assert page["clinicalInfo"] == page["reports"][0]["clinicalInfo"]
        cursor = page.get("next")
    return pages


@pytest.mark.parametrize(
    ("name", "limit", "sizes"),
    [
        ("MAX_WAITING", 2, [2, 2, 1]),
        ("MAX_WAITING", 5, [5]),
        ("MAX_WAITING_ORDERS", 3, [3, 2]),
        ("MAX_WAITING_ORDERS", 1, [1, 1, 1, 1, 1]),
    ],
)
def test_waiting_reports_have_pages(
    service: Service, monkeypatch: pytest.MonkeyPatch, name: str, limit: int, sizes: list[int]
) -> None:
    """Each waiting report is on one page, the longest-waiting first."""
    accessions = [f"A{number}" for number in range(5)]
    for accession in accessions:
        service.launch(accession=accession, tags={"KeyFindings": "Clear."})
        body = {"clinicalInfo": identity(accession), **GROUP}
        assert service.post("report/prelim", body).status_code == 200
    assert waiting(service) == [accessions]
    monkeypatch.setattr(prelims, name, limit)
    pages = waiting(service)
    assert [len(page) for page in pages] == sizes
    assert [accession for page in pages for accession in page] == accessions


@pytest.mark.parametrize("cursor", ["x", "1", "1.", "-1.2", "9" * 30])
def test_an_invalid_cursor_of_waiting_reports(service: Service, cursor: str) -> None:
    """It is refused with its code, as that of the worklist."""
    service.launch(tags={"KeyFindings": "Clear."})
    service.post("report/prelim", {"clinicalInfo": identity(), **GROUP})
    response = service.get("report/site/prelims", SiteID="SITE1", cursor=cursor, **GROUP)
    assert (response.status_code, response.json()["code"]) == (400, "bad_cursor")


LENGTHS = (0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 2)
TEXT = '\u4e2d\u6587 \U0001f600 "quoted" \\ \n\t\x01 </script> '


def sent(response: Response) -> tuple[dict[str, str], list[bytes]]:
    """Return the headers and the pieces of a body, as the server gets them."""
    messages: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        messages.append(dict(message))

    async def receive() -> Any:
        await asyncio.Event().wait()

    scope = {"type": "http", "method": "GET", "asgi": {"spec_version": "2.4"}}
    asyncio.run(response(scope, receive, send))
    headers = {name.decode(): value.decode() for name, value in messages[0]["headers"]}
    bodies = [bytes(row["body"]) for row in messages[1:] if row["body"]]
    assert all(len(body) <= 8 * CHUNK for body in bodies)
    return headers, bodies


@pytest.mark.parametrize("length", LENGTHS)
def test_bytes(length: int) -> None:
    """export/rtf: the binary payload with its length, in chunks."""
    data = bytes(index % 251 for index in range(length))
    headers, bodies = sent(response_bodies.bytes_response(data, "application/rtf", {"X-More": "1"}))
    assert b"".join(bodies) == data
    assert (headers["content-length"], headers["x-more"]) == (str(length), "1")
    assert len(bodies) == -(-length // CHUNK)


@pytest.mark.parametrize("length", LENGTHS)
def test_base64(length: int) -> None:
    """export/rtf: base64 in JSON, or as plain text."""
    data = bytes(index % 251 for index in range(length))
    headers, bodies = sent(response_bodies.base64_text_response(data))
    assert base64.b64decode(b"".join(bodies), validate=True) == data
    assert headers["content-length"] == str(len(b"".join(bodies)))
    headers, bodies = sent(response_bodies.base64_json_response("rtf", data))
    assert base64.b64decode(json.loads(b"".join(bodies))["rtf"], validate=True) == data
    assert headers["content-type"] == "application/json"
    assert len(bodies) >= length // CHUNK


@pytest.mark.parametrize("length", LENGTHS)
def test_text_and_records(length: int) -> None:
    """export/html, export/json: the joined chunks are the complete JSON."""
    text = (TEXT * (length // len(TEXT) + 1))[:length]
    value = {"html": text}
    expected = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    _, bodies = sent(response_bodies.text_json_response("html", text))
    assert b"".join(bodies) == expected
    assert len(bodies) >= length // CHUNK
    record: dict[str, Any] = {"a": None, "list": [{"b": 1, "text": text}], "yes": True}
    _, bodies = sent(response_bodies.json_response(RootModel(record)))
    assert json.loads(b"".join(bodies)) == record


ONE = {"clinicalInfo": identity()}
REPORT_TEXT = "Lungs: clear.\r\n\r\n  Heart & vessels ^normal~."


def release(service: Service) -> None:
    service.launch(tags={"KeyFindings": REPORT_TEXT})
    assert service.post("report/sign", {**ONE, "ignoreSignDelay": True}).status_code == 200


def releases(service: Service, who: str = "service", **query: Any) -> list[dict[str, Any]]:
    response = service.get("report/changes", who, **query)
    assert response.status_code == 200, response.text
    return [change for change in response.json()["changes"] if change["release"]]


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
    for row in (export["reportInfo"], *export["addendumInfo"]):
        del row["signedBy"]["signature"]
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
    for row in found:
        (addendum,) = row["text"]["addendumInfo"]
        assert addendum["content"] == f"More about {row['orders'][0]['Accession']}."


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
    assert not any("text" in change for change in changes)
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
    assert [event["action"] for event in events].count("export") == 1


def test_texts_count_as_exports(service: Service) -> None:
    """After the quota is used the change has no text; the bridge has no quota."""
    release(service)
    engine = service.application.state.engine
    rates = RateLimits(exports=Quota(2))
    engine.settings = EngineSettings(engine.settings.link_keys, rates=rates)
    changes = [releases(service, ADMIN, texts="true")[0] for _ in range(3)]
    assert ["text" in change for change in changes] == [True, True, False]
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
        texts += [change["text"]["reportInfo"]["content"] for change in changes if "text" in change]
        cursor = changes[-1]["cursor"]
    assert len(texts) == 2
    assert texts[0] != texts[1] == "Another."


def records(
    service: Service, *accessions: str, who: str = "service", **options: Any
) -> list[dict[str, Any]]:
    orders = [identity(accession) for accession in accessions or ("A1",)]
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
    assert not any("text" in record for record in records(service, "A1", "A2"))


@pytest.mark.parametrize("who", ["service", ADMIN])
def test_texts_of_status_records_are_recorded_as_exports(service: Service, who: str) -> None:
    """The audit trail has an export of the signed report only."""
    release(service)
    service.launch(accession="A2", tags={"KeyFindings": "A draft."})
    records(service, "A1", "A2", who=who, texts=True)
    service.runner.run(service.application.state.engine.audit_buffer.flush())
    events = service.get("admin/sites/SITE1/audit", after=0, limit=1000).json()["events"]
    (event,) = [row for row in events if row["action"] == "export"]
    assert event["reportId"] == records(service)[0]["reportId"]


def test_texts_of_status_records_count_as_exports(service: Service) -> None:
    """After the quota is used the records have no text; a request with texts names few orders."""
    release(service)
    engine = service.application.state.engine
    engine.settings = EngineSettings(engine.settings.link_keys, rates=RateLimits(exports=Quota(1)))
    found = [records(service, who=ADMIN, texts=True)[0] for _ in range(2)]
    assert ["text" in item for item in found] == [True, False]
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
    assert ["text" in item for item in feed] == [True, False, True, False]
    found = records(service, "A1", "A2", "A3", who=who, texts=True)
    assert [row["text"] is not None for row in found] == [True, False, True]
    assert records(service, "A2", who=who, texts=True)[0]["text"] is not None
