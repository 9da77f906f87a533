"""Files with a high cost are refused, and other requests do not wait for them."""

import asyncio
import base64
import struct
from typing import Any

import httpx
import pytest

from parsers.limits import META_INFORMATION, STRUCTURED_REPORT, TABLE, TEMPLATE
from tests.bridge.engine.http.engine_service import ADMIN, Service, launch_body

PREAMBLE = bytes(128) + b"DICM"
UNDEFINED = 0xFFFFFFFF


def element(group: int, number: int, kind: bytes, value: bytes) -> bytes:
    """An element in Explicit VR Little Endian."""
    head = struct.pack("<HH2s", group, number, kind)
    if kind in (b"SQ", b"UT", b"UN"):
        return head + struct.pack("<HI", 0, len(value)) + value
    return head + struct.pack("<H", len(value)) + value


def item(value: bytes) -> bytes:
    return struct.pack("<HHI", 0xFFFE, 0xE000, len(value)) + value


META = element(2, 0x10, b"UI", b"1.2.840.10008.1.2.1\0")
HEAD = element(8, 0x16, b"UI", b"1.2.840.10008.5.1.4.1.1.88.11\0") + element(
    8, 0x18, b"UI", b"1.2.3\0"
)
OPEN = struct.pack("<HH2sHI", 0x11, 0x1010, b"SQ", 0, UNDEFINED) + struct.pack(
    "<HHI", 0xFFFE, 0xE000, UNDEFINED
)
EMPTY = element(0x11, 0x1011, b"LO", b"")

FILES = {
    "group 0002": (PREAMBLE + META + EMPTY.replace(b"\x11\0", b"\2\0", 1) * META_INFORMATION),
    "nested in group 0002": (PREAMBLE + OPEN.replace(b"\x11\0", b"\2\0", 1) * 50_000),
    "nested privately": (PREAMBLE + META + HEAD + OPEN * 10_000),
    "elements": (PREAMBLE + META + HEAD + EMPTY * (STRUCTURED_REPORT.count + 1)),
    "elements of an item": (
        PREAMBLE + META + HEAD + element(0x40, 0xA730, b"SQ", item(EMPTY * 1_100_000))
    ),
}


def with_file(data: bytes) -> dict[str, Any]:
    return launch_body(dicomSR=[{"fileData": base64.b64encode(data).decode()}])


@pytest.mark.parametrize("data", FILES.values(), ids=FILES)
def test_a_costly_sr_file_is_refused(service: Service, data: bytes) -> None:
    """With one of the codes of unreadable SR files, and with its place."""
    refused = service.call("POST", "/api/report/launch/clinical", json=with_file(data))
    assert refused.status_code == 400, refused.text
    assert refused.json()["code"].startswith("sr_")
    assert refused.json()["errors"][0]["pointer"] == "/dicomSR/0/fileData"


def test_other_requests_do_not_wait_for_a_costly_sr_file(service: Service) -> None:
    data = FILES["elements of an item"]

    async def both() -> list[str]:
        order: list[str] = []

        async def send(name: str, body: dict[str, Any]) -> httpx.Response:
            token = {"x-access-token": service.tokens[ADMIN]}
            found = await service.http.post("/api/report/launch/clinical", json=body, headers=token)
            order.append(name)
            return found

        costly = asyncio.ensure_future(send("costly", with_file(data)))
        others = [asyncio.ensure_future(send("other", launch_body())) for _ in range(3)]
        assert {each.status_code for each in await asyncio.gather(*others)} == {200}
        assert (await costly).status_code == 400
        return order

    assert service.runner.run(both())[0] == "other"


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 190_000,
        "<p>" + "<b>x" * 40_000,
        "<h1>" + "x<i>y</i>" * 40_000,
        "<select>" + "<option>x" * 100_000,
        "<!--" * 240_000,
        "<![CDATA[" * 110_000,
        "<a " + "b=c " * 240_000 + ">",
        "&" * TEMPLATE.size,
        "<" * TEMPLATE.size,
    ],
    ids=range(9),
)
def test_a_hostile_template_is_refused_or_read(service: Service, html: str) -> None:
    """It causes no server error."""
    path = "/api/admin/sites/SITE1/templates/7/mrrt"
    response = service.call("PUT", path, json={"html": html})
    assert response.status_code in (200, 400), response.text
    if "<div>" in html:
        assert response.json()["code"] == "bad_template"


@pytest.mark.parametrize(
    "csv",
    [
        "system,match,code" + ",x" * 1_000_000 + "\n",
        "system,match,code\n" + "cpt,a,1\n" * (TABLE.count + 1),
        'system,match,code\n"' + "x" * 1_000_000,
        "system,match,code\ncpt,a\0,1\0",
    ],
    ids=["columns", "rows", "open quotes", "NUL"],
)
def test_a_hostile_code_map_is_refused(service: Service, csv: str) -> None:
    """400 or 413, without a server error."""
    response = service.call("PUT", "/api/admin/sites/SITE1/code-map", json={"csv": csv})
    assert response.status_code in (400, 413), response.text


def test_an_image_that_unpacks_to_many_pixels_is_refused(service: Service) -> None:
    """The size of an image is checked before its pixels are decoded."""
    head = struct.pack(">II5B", 60_000, 60_000, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + head + bytes(4)
    image = {"imageData": base64.b64encode(data).decode(), "contentType": "image/png"}
    response = service.call(
        "POST", "/api/report/launch/clinical", json=launch_body(keyImages=[image])
    )
    assert response.status_code == 400
    assert response.json()["code"].startswith("image_")
