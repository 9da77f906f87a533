"""Objects that are stored over HTTP (STOW-RS): the same path as C-STORE, and its answers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydicom.dataset import Dataset
from pydicom.uid import DeflatedExplicitVRLittleEndian, ExplicitVRLittleEndian
from starlette.applications import Starlette
from starlette.routing import Mount

from bridge.dicom.answers import AnswerCounter
from bridge.dicom.objects import ObjectStore
from bridge.dicom.received_log import ReceivedLog
from bridge.dicom.stow import MAX_PARTS, StoreWeb
from bridge.dicom.web import PATH, WorklistWeb
from config import Settings
from config.dicom import DicomSettings
from parsers.dicom_file import FileMeta, write_file
from tests.bridge.delivery.whole_bridge import Hospital
from tests.bridge.dicom.conftest import MAX_SIZE
from tests.bridge.dicom.modality import encoded, meta_of, report
from tests.bridge.dicom.orders import applied, new_order, received_messages

TOKEN = "token-of-the-scanner"
STUDIES = f"{PATH}/studies"
Send = Callable[..., Any]


@pytest.fixture
def refusals() -> list[tuple[str, ...]]:
    """Reason, address and peer of each request that was refused."""
    return []


@pytest.fixture
def send(
    hospital: Hospital, received: ReceivedLog, tmp_path: Path, refusals: list[tuple[str, ...]]
) -> Send:
    """POST parts as a peer that may store, unless `may` says otherwise."""
    (tmp_path / "scanner.token").write_text(TOKEN, "utf-8")

    async def post(
        *parts: bytes,
        path: str = STUDIES,
        may: str = "store",
        kind: str = "application/dicom",
        body: bytes | None = None,
        **headers: str,
    ) -> httpx.Response:
        peer = {"ae_title": "CT1", "addresses": ["127.0.0.1"], "token_file": "scanner.token"}
        dicom = DicomSettings.model_validate({"peer": [{**peer, "may": [may]}]})
        settings = Settings(home=tmp_path, dicom=dicom)

        def note_refusal(*refusal: str) -> None:
            refusals.append(refusal)

        metrics = hospital.metrics
        web = WorklistWeb(settings, hospital.database, metrics, lambda *_: None, note_refusal)
        answers = AnswerCounter(metrics, lambda *_: None, note_refusal)
        store = StoreWeb(ObjectStore(received, MAX_SIZE), answers, web, MAX_SIZE)
        application = Starlette(routes=[Mount(PATH, web.router(*store.routes()))])
        transport = httpx.ASGITransport(application, client=("127.0.0.1", 50_000))
        sent = {
            "authorization": f"Bearer {TOKEN}",
            "content-type": 'multipart/related; type="application/dicom"; boundary=next',
        }
        async with httpx.AsyncClient(transport=transport, base_url="http://bridge") as client:
            content = multipart(*parts, kind=kind) if body is None else body
            more = {name.replace("_", "-"): value for name, value in headers.items()}
            return await client.post(path, content=content, headers=sent | more)

    return post


def multipart(*parts: bytes, kind: str = "application/dicom") -> bytes:
    head = f"--next\r\nContent-Type: {kind}\r\n\r\n".encode()
    return b"".join(head + part + b"\r\n" for part in parts) + b"--next--\r\n"


def file_of(made: Dataset, syntax: str = str(ExplicitVRLittleEndian)) -> bytes:
    meta = meta_of(made)
    return write_file(FileMeta(meta.sop_class, meta.sop_instance, syntax), encoded(made))


def instances(response: httpx.Response, tag: str) -> list[str]:
    items = response.json().get(tag, {}).get("Value", [])
    return [item["00081155"]["Value"][0] for item in items]


def reasons(response: httpx.Response, tag: str = "00081198") -> list[int]:
    return [item["00081197"]["Value"][0] for item in response.json()[tag]["Value"]]


async def test_objects_are_stored(hospital: Hospital, send: Send) -> None:
    """200 with the instances; a repetition is answered equally and stored once."""
    await hospital.send(new_order(1))
    await hospital.send(new_order(2))
    made = [report(accession="A1"), report(accession="A2", text="a --next b")]
    for _ in range(2):
        response = await send(*map(file_of, made))
        assert (response.status_code, response.headers["content-type"]) == (
            200,
            "application/dicom+json",
        )
        assert instances(response, "00081199") == [one.SOPInstanceUID for one in made]
        assert "00081198" not in response.json()
    await applied(hospital)
    assert received_messages(hospital) == [("STOW-RS SR", "done", "object_stored")] * 2


async def test_some_objects_are_stored(hospital: Hospital, send: Send) -> None:
    """202 names those that are stored, and those that are not with the reason."""
    good, image, deflated = report(), report(), report()
    image.SOPClassUID = "1.2.840.10008.5.1.4.1.1.2"
    parts = (
        file_of(good),
        file_of(image),
        file_of(deflated, str(DeflatedExplicitVRLittleEndian)),
        b"no file",
    )
    response = await send(*parts)
    assert response.status_code == 202
    assert instances(response, "00081199") == [good.SOPInstanceUID]
    assert instances(response, "00081198") == [image.SOPInstanceUID, deflated.SOPInstanceUID]
    assert reasons(response) == [0x0122, 0xC122]
    assert reasons(response, "0008119A") == [0xC000]
    await applied(hospital)
    assert len(received_messages(hospital)) == 1


async def test_nothing_is_stored(hospital: Hospital, send: Send) -> None:
    """409 if no object of the request is stored."""
    made = report()
    response = await send(file_of(made), path=f"{STUDIES}/1.2.3")
    assert (response.status_code, reasons(response)) == (409, [0xA900])
    comment = response.json()["00081198"]["Value"][0]["00000902"]["Value"][0]
    assert comment.startswith("(0020,000D)")
    assert (await send(file_of(made), path=f"{STUDIES}/{made.StudyInstanceUID}")).status_code == 200
    await applied(hospital)
    assert len(received_messages(hospital)) == 1


async def test_refusals_are_noted(send: Send, refusals: list[tuple[str, ...]]) -> None:
    """Each refused request once: what its peer did, or that it is no peer."""
    await send(file_of(report()))
    await send(b"no DICOM")
    await send(file_of(report()), may="worklist")
    await send(file_of(report()), authorization="Bearer other")
    assert refusals == [
        ("STOW-RS 409", "127.0.0.1", "CT1"),
        ("service", "127.0.0.1", "CT1"),
        ("token", "127.0.0.1", ""),
    ]


async def test_refused_requests(hospital: Hospital, send: Send) -> None:
    """Each refusal has a problem body; nothing is stored."""
    part = file_of(report())
    related = "multipart/related; boundary=next"
    refused = [
        (401, await send(part, authorization="Bearer other")),
        (403, await send(part, may="worklist")),
        (406, await send(part, accept="application/dicom+xml")),
        (406, await send(part, accept="application/dicom+json;q=0, text/html")),
        (400, await send(part, path=f"{STUDIES}/not-a-uid")),
        (400, await send(part, path=f"{STUDIES}/{'1.' * 40}1")),
        (415, await send(part, content_type="application/dicom")),
        (415, await send(part, content_type=f'{related}; type="application/dicom+json"')),
        (415, await send(part, kind="application/dicom+json")),
        (415, await send(part, content_encoding="gzip")),
        (400, await send(part, content_type='multipart/related; type="application/dicom"')),
        (400, await send(part, content_type=f"{related}{'x' * 200}")),
        (400, await send(part, body=b"--other\r\n\r\n--other--")),
        (400, await send(part, body=multipart(part)[:-10])),
        (400, await send(part, body=b"--next--\r\n")),
        (400, await send(part, body=b"--next\r\n\r\n" + part + b"\r\n--next--")),
        (400, await send(*[b"x"] * (MAX_PARTS + 1))),
        (413, await send(b"x" * (2 * MAX_SIZE))),
    ]
    for status, response in refused:
        assert response.status_code == status, response.text
        assert response.headers["content-type"] == "application/problem+json"
    assert received_messages(hospital) == []


async def test_the_parts_before_a_broken_one_are_not_stored(hospital: Hospital, send: Send) -> None:
    """A request that is malformed anywhere is refused as a whole."""
    body = multipart(file_of(report())).removesuffix(b"--next--\r\n") + b"--next\r\nno end"
    assert (await send(body=body)).status_code == 400
    assert received_messages(hospital) == []
