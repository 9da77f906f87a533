"""Each endpoint sends and reads the documented JSON."""

import json

import httpx
import pytest

from bridge.contract import OrderKey, ReportStatus
from bridge.contract.responses import AccountInfo, LaunchResponse, StatusRecordBody
from bridge.engine_client.client import AccessTokens, EngineClient, LaunchRequest
from bridge.engine_client.errors import EngineFailure
from bridge.errors import FailureKind
from tests.bridge.engine_client.stub_service import ORDER, TRIPLE, Service

RECORD = {
    "reportId": "r1",
    "status": "Draft",
    "userEmail": "ada@example.org",
    "unsignUntil": None,
    "clinicalInfo": [TRIPLE],
    "hasContent": True,
    "somethingNew": 1,
}
READ_RECORD = StatusRecordBody(
    report_id="r1",
    status=ReportStatus.DRAFT,
    user_email="ada@example.org",
    unsign_until=None,
    orders=(ORDER,),
    has_content=True,
    addendum_unsign_until=None,
)


async def test_delete() -> None:
    """A deletion posts the documented body to the documented path."""
    service = Service()
    await service.client().delete(ORDER)
    assert (service.path, service.body) == ("/api/report/delete", {"clinicalInfo": TRIPLE})
    assert service.requests[0].headers["x-access-token"] == "T"


async def test_launch() -> None:
    """A launch contains all given objects; the result contains all fields of the response."""
    service = Service(
        response={
            "status": "Draft",
            "owner": {"name": "Ada", "email": "ada@example.org"},
            "reportLink": "http://x",
            "reportId": "r1",
        }
    )
    launch = LaunchRequest(
        {**TRIPLE, "Metadata": {"k": 1}},
        {"AppLanguage": "de-DE"},
        lazy=True,
        register_order=True,
        force_update_patient_name=True,
    )
    response = await service.client().launch(launch)
    assert service.body == {
        "clinicalInfo": {**TRIPLE, "Metadata": {"k": 1}},
        "reportingApp": {"AppLanguage": "de-DE"},
        "response": {"type": "link"},
        "lazyLaunch": True,
        "registerOrder": True,
        "forceUpdatePatientName": True,
    }
    assert (response.status, response.report_id) == ("Draft", "r1")


async def test_a_minimal_launch() -> None:
    """It contains only documented members, for services without our extensions."""
    service = Service(response={"status": "PreLaunch", "owner": {}, "reportLink": "x"})
    await service.client().launch(LaunchRequest(TRIPLE))
    assert service.body == {
        "clinicalInfo": TRIPLE,
        "reportingApp": {},
        "response": {"type": "link"},
    }


async def test_batch() -> None:
    """A batch returns one result or failure per launch, in order."""
    service = Service(
        response=[
            {"status": "PreLaunch", "owner": {}, "reportLink": "x"},
            {"status": 409, "code": "patient_name_mismatch", "title": "Conflict"},
        ]
    )
    good, bad = await service.client().launch_batch([LaunchRequest(TRIPLE), LaunchRequest(TRIPLE)])
    assert isinstance(good, LaunchResponse)
    assert isinstance(bad, EngineFailure)
    assert (bad.failure, bad.code) == (FailureKind.PERMANENT, "patient_name_mismatch")


async def test_a_batch_of_another_length_is_an_error() -> None:
    """Results could not be assigned to orders."""
    service = Service(response=[])
    with pytest.raises(EngineFailure) as raised:
        await service.client().launch_batch([LaunchRequest(TRIPLE)])
    assert raised.value.failure is FailureKind.AMBIGUOUS


async def test_status_linking_and_feed() -> None:
    """Records come back as values; unknown members are ignored."""
    service = Service(response=[RECORD])
    client = service.client()
    other = OrderKey("SITE1", "M-1", "A-2")
    assert await client.status([ORDER]) == (READ_RECORD,)
    assert service.body == {"clinicalInfo": [TRIPLE]}
    assert await client.link_orders([ORDER, other]) == (READ_RECORD,)
    assert service.body == {
        "SiteID": "SITE1",
        "clinicalInfo": [
            {"PatientMRN": "M-1", "Accession": "A-1"},
            {"PatientMRN": "M-1", "Accession": "A-2"},
        ],
    }
    assert await client.unlink_orders([other]) == (READ_RECORD,)
    assert service.path == "/api/report/unlink-orders"


async def test_changes() -> None:
    """The feed is read from a cursor on."""
    change = {
        "cursor": 8,
        "at": 5,
        "event": "released",
        "record": RECORD,
        "orders": [{**TRIPLE, "Metadata": {}}],
        "release": {"kind": "final", "sequence": 1},
    }
    service = Service(response={"changes": [change], "cursor": 9})
    page = await service.client().changes(7, limit=10, wait=2)
    assert service.requests[0].extensions["timeout"]["read"] > 5  # the default
    assert dict(service.requests[0].url.params) == {"after": "7", "limit": "10", "wait": "2"}
    assert page.cursor == 9
    assert page.changes[0].record == READ_RECORD
    release = page.changes[0].release
    assert release is not None
    assert (release.kind, release.sequence) == ("final", 1)


async def test_patients_and_worklist() -> None:
    """Our extensions have their own paths."""
    service = Service(response={"items": [TRIPLE], "next": "c2"})
    client = service.client()
    await client.update_patient("SITE1", "M-1", {"PatientName": "DOE^JANE"})
    assert service.body == {"SiteID": "SITE1", "PatientMRN": "M-1", "PatientName": "DOE^JANE"}
    await client.merge_patients("SITE1", "M-2", "M-1")
    assert service.body == {"SiteID": "SITE1", "PatientMRN": "M-2", "PriorPatientMRN": "M-1"}
    page = await client.worklist("SITE1", status="Ordered", limit=5)
    assert (page.next, len(page.items)) == ("c2", 1)
    assert dict(service.requests[-1].url.params) == {
        "SiteID": "SITE1",
        "status": "Ordered",
        "limit": "5",
    }


async def test_reading_and_exports() -> None:
    """Texts are returned as text, the record as a value."""
    client = Service(response={"content": "Normal."}).client()
    assert await client.content(ORDER) == "Normal."
    signer = {"name": "Ada", "email": "ada@example.org", "signature": None}
    record = {
        "siteInfo": {},
        "clinicalInfo": [TRIPLE],
        "addendumInfo": [{"content": "More.", "signedAt": "2026-01-02T03:04:05Z", "signedBy": {}}],
        "prelimInfo": [{"prelimTag": {"name": "R1", "group": "G"}, "prelimAt": "x"}],
        "reportInfo": {
            "content": "Normal.",
            "signedAt": "2026-01-02T03:04:05Z",
            "signedBy": signer,
        },
    }
    export = await Service(response=record).client().export_json(ORDER)
    assert export.report.signed_by is not None
    assert export.report.signed_by.name == "Ada"
    assert [addendum.content for addendum in export.addenda] == ["More."]


async def test_tokens_by_site() -> None:
    service = Service(response=[])
    client = service.client(AccessTokens("D", {"SITE2": "S"}))
    await client.status([ORDER])
    await client.status([OrderKey("SITE2", "M", "A")])
    assert [request.headers["x-access-token"] for request in service.requests] == ["D", "S"]
    assert client.tokens.distinct() == ("", "SITE2")
    assert AccessTokens("", {"SITE1": "S", "SITE2": "S", "SITE3": "T"}).distinct() == (
        "SITE3",
        "SITE1",
    )


async def test_signed_texts() -> None:
    """Texts are returned by order. An unsigned report has none; a signed one must have one."""
    draft = {**RECORD, "text": None}
    signed = {**RECORD, "status": "Final", "text": {"reportInfo": {"content": "Normal."}}}
    texts = await Service(response=[draft, signed]).client().signed_texts([ORDER])
    assert {order: text.report.content for order, text in texts.items()} == {ORDER: "Normal."}
    with pytest.raises(EngineFailure) as raised:
        await Service(response=[{**signed, "text": None}]).client().signed_texts([ORDER])
    assert (raised.value.failure, raised.value.code) == (FailureKind.PERMANENT, "no_texts")


PROFILE = {
    "accountId": "a1",
    "email": "ada@example.org",
    "site": None,
    "authenticatedAt": 5,
    "secondFactor": True,
}


async def test_the_profile_of_a_user() -> None:
    """The members that limit the session are required."""
    service = Service(response=PROFILE)
    user = await service.client().signed_in_user("session=1", unattended=True)
    assert user is not None
    assert (user.account_id, user.site, user.authenticated_at) == ("a1", None, 5)
    assert service.requests[0].headers["x-unattended"] == "1"
    assert "x-access-token" not in service.requests[0].headers
    for changed in ({"accountId": ""}, {"email": None}, {"site": ""}, {"authenticatedAt": None}):
        with pytest.raises(EngineFailure):
            await Service(response={**PROFILE, **changed}).client().signed_in_user("session=1")


@pytest.mark.parametrize("missing", ["SiteID", "PatientMRN", "Accession"])
@pytest.mark.parametrize("null", [True, False])
async def test_an_order_of_another_service_without_a_member(missing: str, null: bool) -> None:
    """It is read as empty, so one incomplete order does not hide the states of the others."""
    order = {**TRIPLE, missing: None}
    if not null:
        del order[missing]
    service = Service(response=[{**RECORD, "clinicalInfo": [order]}, RECORD])
    first, second = await service.client().status([ORDER, ORDER])
    assert first.orders[0].tags() == {**TRIPLE, missing: ""}
    assert second == READ_RECORD


def test_an_account_without_a_state_is_disabled() -> None:
    """Only an account that the service calls enabled may sign in."""
    known = {"accountId": "a1", "email": "ada@example.org"}
    assert [
        AccountInfo.model_validate({**known, **more}).disabled for more in ({}, {"disabled": False})
    ] == [
        True,
        False,
    ]


async def test_the_next_page_of_a_worklist() -> None:
    """A cursor continues the list; an empty one begins it."""
    service = Service(response={"items": []})
    for cursor in ("c2", ""):
        await service.client().worklist("SITE1", cursor=cursor)
    assert [request.url.params.get("cursor") for request in service.requests] == ["c2", None]


async def test_responses_in_utf_16() -> None:
    """JSON of another Unicode encoding is read."""
    content = json.dumps([RECORD]).encode("utf-16")
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=content))
    http = httpx.AsyncClient(transport=transport, base_url="http://engine")
    assert await EngineClient(http, "T").status([ORDER]) == (READ_RECORD,)


async def test_a_feed_without_a_cursor() -> None:
    """The next cursor is the one of the latest change."""
    service = Service(
        response={"items": [{"cursor": number, "record": RECORD} for number in (8, 9)]}
    )
    page = await service.client().changes(7)
    assert [change.cursor for change in page.changes] == [8, 9]
    assert page.cursor == 9


async def test_times_of_a_release() -> None:
    """Report and addendum have separate times; a time with an offset is converted to UTC."""
    record = {**RECORD, "unsignUntil": 1, "addendumUnsignUntil": 2}
    change = {"cursor": 8, "at": "2026-01-01T01:00:00+01:00", "record": record, "cancelled": True}
    page = await Service(response={"changes": [change], "cursor": 8}).client().changes(7)
    (found,) = page.changes
    assert (found.record.unsign_until, found.record.addendum_unsign_until) == (1, 2)
    assert (found.at, found.cancelled) == (1_767_225_600_000, True)


async def test_a_record_before_the_launch_is_an_ordered_report() -> None:
    """Other services send the status of launch responses in records, too."""
    service = Service(response=[{**RECORD, "status": "PreLaunch"}])
    (found,) = await service.client().status([ORDER])
    assert found.status is ReportStatus.ORDERED
