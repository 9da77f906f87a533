"""The worklist over HTTP: MWL-RS and UPS-RS (PS3.18)."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from bridge.dicom.activity import Activity
from bridge.dicom.web import PATH, WorklistWeb, has_peers
from bridge.dicom.workitems import ATTRIBUTES
from bridge.metrics import Metrics
from bridge.store.database import Database
from bridge.store.records.scheduled_steps import StepStatus
from config import Settings
from config.dicom import DicomSettings
from tests.bridge.dicom.worklist_items import YAMADA, insert, make_item

SEQUENCE = "ScheduledProcedureStepSequence"
STEPS, ITEMS = f"{PATH}/modality-scheduled-procedure-steps", f"{PATH}/workitems"
TOKEN = "token-of-the-viewer"


@dataclass(frozen=True)
class Client:
    """Calls the application from an address, with the token unless `headers` have another."""

    application: Starlette
    address: str

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.call("GET", path, **options)

    def call(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, **options: Any
    ) -> httpx.Response:
        async def call() -> httpx.Response:
            transport = httpx.ASGITransport(self.application, client=(self.address, 50_000))
            async with httpx.AsyncClient(transport=transport, base_url="http://bridge") as client:
                sent = {"authorization": f"Bearer {TOKEN}"} | (headers or {})
                return await client.request(method, path, headers=sent, **options)

        return asyncio.run(call())


Connect = Callable[..., Client]


@pytest.fixture
def connect(steps: Database, tmp_path: Path) -> Connect:
    """Makes a client for a peer with a token."""

    def make(address: str = "127.0.0.1", **peer: Any) -> Client:
        (tmp_path / "viewer.token").write_text(TOKEN, "utf-8")
        values = {"ae_title": "VIEWER", "addresses": ["127.0.0.1"], "token_file": "viewer.token"}
        dicom = DicomSettings.model_validate({"peer": [values | peer]})
        settings = Settings(home=tmp_path, dicom=dicom)
        web = WorklistWeb(settings, steps, Metrics(), Activity(steps).note_request, lambda *_: None)
        application = Starlette(routes=[Mount(PATH, web.router())])
        return Client(application, address)

    return make


def ids(response: Any) -> list[str]:
    return [item["00100020"]["Value"][0] for item in response.json()]


def test_a_search(connect: Connect, steps: Database) -> None:
    """A search returns the steps that match, as DICOM JSON in UTF-8."""
    insert(steps, make_item(1, name=YAMADA), make_item(2, modality="MR"))
    client = connect()
    response = client.get(STEPS, params={"ScheduledProcedureStepSequence.Modality": "CT"})
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/dicom+json"
    (item,) = response.json()
    assert item["00100010"]["Value"] == [YAMADA]
    assert item["00080005"]["Value"] == ["ISO_IR 192"]
    assert ids(client.get(STEPS, params={"00400100.00080060": "MR"})) == ["P2"]
    assert ids(client.get(STEPS, params={"PatientName": "山田*"})) == ["P1"]
    assert ids(client.get(STEPS, params={"StudyInstanceUID": "2.25.1,2.25.2"})) == ["P1", "P2"]
    day = {"ScheduledProcedureStepSequence.ScheduledProcedureStepStartDate": "20261201-"}
    assert client.get(STEPS, params=day).status_code == 204


def test_fields(connect: Connect, steps: Database) -> None:
    """A search returns its usual attributes, those that are asked for, or all."""
    insert(steps, make_item(1, T00101030={"vr": "DS", "Value": [70.5]}))
    client = connect()
    assert "00101030" not in client.get(STEPS).json()[0]
    for value in ("PatientWeight", "00101030", "PatientAge,PatientWeight", "all"):
        assert "00101030" in client.get(STEPS, params={"includefield": value}).json()[0]
    assert "00101030" in client.get(STEPS, params={"PatientWeight": "70.5"}).json()[0]


def test_pages(connect: Connect, steps: Database) -> None:
    """`limit` and `offset` page through the steps; more than the peer's limit are announced."""
    insert(steps, *(make_item(number, time=f"{number:02}0000") for number in range(1, 8)))
    client = connect(max_answers=5)
    assert ids(client.get(STEPS, params={"limit": 2, "offset": 3})) == ["P4", "P5"]
    assert client.get(STEPS, params={"limit": 2}).status_code == 200
    cut = client.get(STEPS)
    assert cut.status_code == 206
    assert len(cut.json()) == 5
    assert cut.headers["warning"].startswith("299 report-bridge ")
    assert ids(client.get(STEPS, params={"offset": 5})) == ["P6", "P7"]


def test_warnings(connect: Connect, steps: Database) -> None:
    """What the search does not support is in a Warning header."""
    insert(steps, make_item(1))
    client = connect()
    fuzzy = client.get(STEPS, params={"fuzzymatching": "true", "PatientName": "Doe*"})
    assert "fuzzymatching" in fuzzy.headers["warning"]
    unknown = client.get(STEPS, params={"PixelSpacing": "1"})
    assert unknown.status_code == 200
    assert "00280030" in unknown.headers["warning"]
    for key in ("00091001", f"{SEQUENCE}.PatientWeight"):
        warned = client.get(STEPS, params={key: "1", f"{SEQUENCE}.Modality": "CT"})
        assert ids(warned) == ["P1"]
        tags = key.replace(SEQUENCE, "00400100").replace("PatientWeight", "00101030")
        assert warned.headers["warning"].endswith(f'were not used: {tags}"')


@pytest.mark.parametrize(
    ("name", "value", "attribute"),
    [
        ("NoSuchAttribute", "1", "NoSuchAttribute"),
        ("PatientBirthDate", "1970-01-01", "00100030"),
        ("StudyInstanceUID", "1.2.*", "0020000D"),
        ("limit", "-1", "limit"),
        ("offset", "x", "offset"),
        ("includefield", "Nothing", "Nothing"),
        ("fuzzymatching", "maybe", "fuzzymatching"),
        (SEQUENCE, "CT1", "00400100"),
        ("PatientID.Modality", "CT", "PatientID.Modality"),
        (f"{SEQUENCE}.", "CT", f"{SEQUENCE}."),
        (".PatientID", "P1", ".PatientID"),
        ("includefield", "", "includefield"),
        ("includefield", "00400100.Nothing", "Nothing"),
        ("limit", "٣", "limit"),
        ("", "1", ""),
        (".".join(["00400100"] * 1000), "1", "00400100"),
        ("PatientID", "a" * 60_000, "00100020"),
    ],
    ids=lambda value: value[:20],
)
def test_wrong_parameters(connect: Connect, name: str, value: str, attribute: str) -> None:
    """A wrong parameter is refused with a problem body that names the attribute."""
    response = connect().get(STEPS, params={name: value})
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json().get("attribute", "") == attribute
    assert len(value) <= 1 or value not in response.text or "Nothing" in value


def test_a_repeated_key(connect: Connect) -> None:
    """A key that is given twice is refused: one of the values would not restrict."""
    response = connect().get(f"{STEPS}?PatientID=P1&00100020=P2")
    assert (response.status_code, response.json()["attribute"]) == (400, "00100020")
    response = connect().get(f"{STEPS}?limit=1&Limit=2")
    assert (response.status_code, response.json()["attribute"]) == (400, "limit")


def test_another_encoding(connect: Connect, steps: Database) -> None:
    """A value that is not UTF-8 is refused: it would match none."""
    response = connect().get(f"{STEPS}?PatientName=Buc%5EJ%E9r%F4me")
    assert (response.status_code, response.json()["attribute"]) == (400, "PatientName")


def test_parameters_of_the_representation(connect: Connect, steps: Database) -> None:
    """`accept` and `charset` are no keys, and `accept` has priority over the header."""
    insert(steps, make_item(1))
    client = connect()
    wanted = {"accept": "application/dicom+json", "charset": "utf-8"}
    xml = {"accept": "application/dicom+xml"}
    assert ids(client.get(STEPS, params=wanted, headers=xml)) == ["P1"]
    for refused in (xml, {"charset": "latin1"}):
        assert client.get(STEPS, params=refused).status_code == 406


DICOM, PLAIN = "application/dicom+json", "application/json"


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", DICOM),
        ("*/*", DICOM),
        (f"{PLAIN}, {DICOM}", DICOM),
        (PLAIN, PLAIN),
        (f"{DICOM};q=0.5, {PLAIN};q=0.8", PLAIN),
        (f"{DICOM} ; Q=0.8, application/*;q=0.5", DICOM),
        (f"{DICOM};q=0, */*", PLAIN),
        (f"{DICOM};q=much", DICOM),
        (f"application/dicom+xml, {DICOM};q=0.001", DICOM),
        (f"{DICOM};q=0", None),
        (f"{DICOM};q=0.000, {PLAIN};q=0", None),
        ("*/*;q=0", None),
        ("application/*;q=0, */*", None),
        ("text/html", None),
    ],
)
def test_the_media_type(connect: Connect, steps: Database, accept: str, kind: str | None) -> None:
    """Weights decide between the types; a type with the weight 0 is not accepted (RFC 9110)."""
    insert(steps, make_item(1))
    by_header = connect().get(STEPS, headers={"accept": accept})
    by_parameter = connect().get(STEPS, params={"accept": accept})
    for response in (by_header, by_parameter):
        assert response.status_code == (406 if kind is None else 200)
        assert response.headers["content-type"] == (kind or "application/problem+json")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", ITEMS, {"GET", "HEAD"}),
        ("POST", f"{ITEMS}/2.25.1", {"GET", "HEAD"}),
        ("PUT", f"{ITEMS}/2.25.1/state", {""}),
        ("POST", f"{ITEMS}/2.25.1/cancelrequest", {""}),
        ("POST", f"{ITEMS}/2.25.1/subscribers/CT1", {""}),
        ("DELETE", f"{ITEMS}/2.25.1/subscribers/CT1", {""}),
        ("SEARCH", STEPS, {"GET", "HEAD"}),
    ],
)
def test_other_transactions(connect: Connect, method: str, path: str, allowed: set[str]) -> None:
    """A transaction that is not supported gets 405 and what the address allows; never 404."""
    response = connect().call(method, path)
    assert response.status_code == 405
    assert set(response.headers["allow"].split(", ")) == allowed
    assert response.headers["content-type"] == "application/problem+json"


def test_other_addresses_and_methods(connect: Connect) -> None:
    """They have a problem body, too; a method that exists is named."""
    client = connect()
    method, address = client.call("DELETE", ITEMS), client.get(f"{PATH}/series")
    assert (method.status_code, address.status_code) == (405, 404)
    assert "GET" in method.headers["allow"]
    for response in (method, address):
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["status"] == response.status_code


def test_keys_of_workitems(connect: Connect, steps: Database) -> None:
    """An attribute that all workitems have restricts, also if none is found."""
    insert(steps, make_item(1))
    client = connect()
    response = client.get(ITEMS, params={"ScheduledProcedureStepPriority": "LOW"})
    assert response.status_code == 204
    assert "warning" not in response.headers
    (item,) = client.get(ITEMS).json()
    assert set(item) == ATTRIBUTES
    other = client.get(ITEMS, params={"AccessionNumber": "A2"})
    assert ids(other) == ["P1"]
    assert "00080050" in other.headers["warning"]
    assert ids(client.get(ITEMS, params={"ProcedureStepState": "SCHED*"})) == ["P1"]


def test_who_may_read(connect: Connect, steps: Database) -> None:
    """Without the token, from another address, or without the right nothing is shown."""
    insert(steps, make_item(1))
    client = connect()
    for headers in ({"authorization": ""}, {"authorization": "Bearer other"}):
        refused = client.get(STEPS, headers=headers)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"
    assert connect("10.0.0.9").get(STEPS).status_code == 401
    assert connect(may=["store"]).get(STEPS).status_code == 403
    assert client.call("POST", STEPS).status_code == 405
    assert client.get(STEPS, headers={"accept": "application/dicom+xml"}).status_code == 406
    assert client.get(STEPS, headers={"accept": "application/dicom+json;q=0.9"}).status_code == 200


def test_too_many_wrong_tokens(connect: Connect) -> None:
    """An address that sends too many wrong tokens must wait, also with the right one."""
    client = connect("10.0.0.9", addresses=["10.0.0.0/8"])
    wrong = {"authorization": "Bearer guess"}
    assert client.get(STEPS).status_code == 204
    assert {client.get(STEPS, headers=wrong).status_code for _ in range(20)} == {401}
    refused = client.get(STEPS)
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) > 0
    assert refused.headers["content-type"] == "application/problem+json"
    other = replace(client, address="10.0.0.10")
    assert other.get(STEPS).status_code == 204
    local = connect()
    assert {local.get(STEPS, headers=wrong).status_code for _ in range(30)} == {401}
    assert local.get(STEPS).status_code == 204


def test_the_same_steps_as_over_dimse(connect: Connect, steps: Database) -> None:
    """Sites, modalities, stations and locations of a peer hide the other steps here, too."""
    insert(steps, make_item(1), make_item(2, modality="MR"), sites=("SITE1", "SITE2"))
    assert ids(connect(modalities=["MR"]).get(STEPS)) == ["P2"]
    assert ids(connect(sites=["SITE1"]).get(ITEMS)) == ["P1"]


def test_workitems(connect: Connect, steps: Database) -> None:
    """Steps are workitems with the same UID each time; one can be read by it."""
    insert(steps, make_item(1, status="STARTED"), make_item(2), make_item(3, status="COMPLETED"))
    client = connect()
    items = client.get(ITEMS).json()
    states = {item["00100020"]["Value"][0]: item["00741000"]["Value"][0] for item in items}
    assert states == {"P1": "IN PROGRESS", "P2": "SCHEDULED"}
    uid = items[0]["00080018"]["Value"][0]
    assert client.get(ITEMS).json()[0]["00080018"]["Value"] == [uid]
    (item,) = client.get(f"{ITEMS}/{uid}").json()
    assert item == items[0]
    assert item["00404005"]["Value"] == ["20261130083000"]
    assert item["0040A370"]["Value"][0]["00080050"]["Value"] == ["A1"]
    assert client.get(f"{ITEMS}/2.25.1").status_code == 404
    completed = client.get(ITEMS, params={"ProcedureStepState": "COMPLETED"})
    assert ids(completed) == ["P3"]
    label = client.get(ITEMS, params={"ProcedureStepLabel": "CT *", "PatientID": "P2"})
    assert ids(label) == ["P2"]
    start = {"ScheduledProcedureStepStartDateTime": "20261130-"}
    assert len(client.get(ITEMS, params=start).json()) == 2
    start = {"ScheduledProcedureStepStartDateTime": "20261201-"}
    assert client.get(ITEMS, params=start).status_code == 204


def test_one_workitem(connect: Connect, steps: Database) -> None:
    """It is found by its UID in any status, also by a search, if the peer may see it."""
    insert(steps, make_item(1, modality="MR", status="COMPLETED"), make_item(2))
    client = connect()
    (completed,) = client.get(ITEMS, params={"ProcedureStepState": "COMPLETED"}).json()
    (scheduled,) = client.get(ITEMS).json()
    for item in (completed, scheduled):
        uid = item["00080018"]["Value"][0]
        assert client.get(f"{ITEMS}/{uid}").json() == [item]
    by_uid = client.get(ITEMS, params={"SOPInstanceUID": scheduled["00080018"]["Value"][0]})
    assert by_uid.json() == [scheduled]
    hidden = connect(modalities=["CT"]).get(f"{ITEMS}/{completed['00080018']['Value'][0]}")
    assert hidden.status_code == 404


def test_each_status_has_a_state(connect: Connect, steps: Database) -> None:
    """A workitem of each status of a step can be read."""
    for number, status in enumerate(StepStatus):
        insert(steps, make_item(number, status=status.value))
    client = connect()
    found = {
        state: len(client.get(ITEMS, params={"ProcedureStepState": state}).json())
        for state in ("SCHEDULED", "IN PROGRESS", "COMPLETED", "CANCELED")
    }
    assert found == {"SCHEDULED": 3, "IN PROGRESS": 1, "COMPLETED": 1, "CANCELED": 2}


def test_no_database(connect: Connect, steps: Database) -> None:
    """If the database does not answer, the search is refused for now."""
    client = connect()
    with steps.write() as connection:
        connection.exec_driver_sql("ALTER TABLE scheduled_step RENAME TO elsewhere")
    response = client.get(STEPS)
    assert response.status_code == 503
    assert response.headers["retry-after"] == "5"


def test_no_tokens(tmp_path: Path) -> None:
    """Without a token file there is nothing to serve."""
    assert not has_peers(Settings(home=tmp_path))
