"""Earlier messages to a receiver determine the next one: documents, corrections, withdrawals."""

import base64
from pathlib import Path

import httpx
import pytest
from striprtf.striprtf import rtf_to_text

from bridge.contract import OrderKey
from bridge.queue.deliveries import DeliveryRequest
from bridge.store.database import Database
from mappings.compiler import DEFINITIONS, compile_sources, read_folder
from mappings.hl7.message import Message
from mappings.language.definition_files import overlay_settings
from mappings.outbound.definition import OutboundMapping
from mappings.outbound.results import ResultEvent
from tests.bridge.delivery.fixtures import SITE, destination
from tests.bridge.delivery.test_order_to_result import sign_addendum, texts
from tests.bridge.delivery.whole_bridge import open_hospital
from tests.bridge.intake.fixture import order
from tests.eventually import eventually_async

A1 = OrderKey(SITE, "M1", "A1")
DELAY = 60
RESULTS = frozenset({ResultEvent.PRELIMINARY, ResultEvent.FINAL, ResultEvent.ADDENDUM})
STATUS = frozenset({ResultEvent.ORDER_STATUS})
GONE = [("ignored", "gone")]
UNSENT = "SELECT count(*) FROM delivery WHERE state IN ('queued', 'claimed')"


def compiled(name: str, **parameters: object) -> tuple[OutboundMapping, ...]:
    made = compile_sources(
        *overlay_settings(read_folder(DEFINITIONS), name, parameters, "destination ris")
    )
    assert isinstance(made, OutboundMapping)
    return (made,)


async def test_a_report_as_documents(tmp_path: Path, database: Database) -> None:
    """The bridge sends T02 (unavailable), T08 and T04 of one document, then T06 below it."""
    ris = destination(mappings=compiled("mdm"), events=RESULTS)
    async with open_hospital(tmp_path, database, ris) as hospital:
        await hospital.send(order("ID1", "A1"))
        page = await hospital.page("A1")
        await page("save", text="First look.")
        await hospital.client.prelim(A1, "Residents", "R1")
        await hospital.follow()
        await hospital.delivered(1)
        await hospital.client.prelim(A1, "Residents", "R2")
        await hospital.follow()
        await hospital.delivered(2)
        await page("sign")
        await sign_addendum(page, "More.")
        await sign_addendum(page, "And more.")
        await hospital.follow()
        sent = [Message.parse(message) for message in await hospital.delivered(5)]
    assert [m.value("MSH-9.2") for m in sent] == ["T02", "T08", "T04", "T06", "T06"]
    assert [m.value("TXA-19") for m in sent] == ["UN", "UN", "AV", "AV", "AV"]
    numbers = [m.value("TXA-12") for m in sent]
    assert len(set(numbers[:3])) == 1
    assert [m.value("TXA-13") for m in sent] == ["", "", "", numbers[0], numbers[0]]
    assert len(set(numbers[2:])) == 3
    assert all(len(number) <= 30 for number in numbers)
    assert [s.value("OBX-5") for s in sent[4].named("OBX")][-1] == "And more."
    assert not any(s.value("OBX-5") == "More." for s in sent[4].named("OBX"))


async def test_a_preliminary_report_that_is_edited_while_it_waits(
    tmp_path: Path, database: Database
) -> None:
    """Each read is sent with its own text, and later text is not sent."""
    ris = destination(mappings=compiled("results", content=["text", "rtf"]), events=RESULTS)
    async with open_hospital(tmp_path, database, ris) as hospital:
        hospital.couriers[0].pause()
        await hospital.send(order("ID1", "A1"))
        page = await hospital.page("A1")
        for number in (1, 2):
            await page("save", text=f"Read {number}.")
            await hospital.client.prelim(A1, "Residents", f"R{number}")
            hospital.time.leap += 1000
        await page("save", text="Not read yet.")
        await hospital.follow()
        hospital.couriers[0].resume()
        sent = [Message.parse(item) for item in await hospital.delivered(2)]
    for number, message in enumerate(sent, start=1):
        text, rtf = message.named("OBX")
        assert (text.value("OBX-5"), text.value("OBX-11")) == (f"Read {number}.", "P")
        content = rtf_to_text(base64.b64decode(rtf.value("OBX-5.5"), validate=True).decode())
        assert f"Read {number}." in content
        assert "Not read yet." not in content


async def test_a_deleted_preliminary_report_is_cancelled(
    tmp_path: Path, database: Database
) -> None:
    """Receivers that got the report get a cancellation. Others get nothing."""
    informed = destination("informed", events=RESULTS)
    documents = destination("documents", mappings=compiled("mdm"), events=RESULTS)
    finals = destination("finals")
    async with open_hospital(tmp_path, database, informed, documents, finals) as hospital:
        await hospital.send(order("ID1", "A1"))
        page = await hospital.page("A1")
        await page("save", text="First look.")
        await hospital.client.prelim(A1, "Residents", "R1")
        await hospital.follow()
        await hospital.delivered(1, "informed")
        await hospital.delivered(1, "documents")
        await hospital.client.delete(A1)
        await hospital.send(order("ID2", "A2"))
        other = await hospital.page("A2")
        await other("save", text="Never sent.")
        await hospital.client.prelim(OrderKey(SITE, "M1", "A2"), "Residents", "R1")
        await hospital.client.delete(OrderKey(SITE, "M1", "A2"))
        await hospital.follow()
        await eventually_async(lambda: hospital.rows(UNSENT) == [(0,)])
        sent = {name: item.sent for name, item in hospital.receivers.items()}
        assert hospital.rows(
            "SELECT code, count(*) FROM delivery WHERE state = 'ignored' GROUP BY code ORDER BY 1"
        ) == [("gone", 2), ("never_told", 2)]
    assert sent["finals"] == []
    first, cancellation = map(Message.parse, sent["informed"])
    assert (first.value("OBR-25"), cancellation.value("OBR-25"), cancellation.value("OBX-11")) == (
        "P",
        "X",
        "X",
    )
    assert b"First look." not in sent["informed"][1]
    document, cancelled = map(Message.parse, sent["documents"])
    assert (cancelled.value("MSH-9"), cancelled.value("TXA-19")) == ("MDM^T11^MDM_T01", "CA")
    assert cancelled.value("TXA-12") == document.value("TXA-12")


async def test_a_deleted_report_cancels_its_order(tmp_path: Path, database: Database) -> None:
    """The order is cancelled with or without a started report, unless it is on hold or replaced."""
    ris = destination("ris", mappings=compiled("status"), events=STATUS)
    async with open_hospital(tmp_path, database, ris) as hospital:
        for number in range(1, 7):
            await hospital.send(order(f"ID{number}", f"A{number}"))
        page = await hospital.page("A1")
        await page("save", text="First look.")
        await hospital.client.delete(A1)
        await hospital.client.delete(OrderKey(SITE, "M1", "A2"))
        await hospital.send(order("ID6", "A3").replace(b"ORC|NW", b"ORC|CA"))
        for number, control in enumerate((b"HD", b"CA", b"CA")):
            message = order(f"IDH{number}", "A6").replace(b"ORC|NW", b"ORC|" + control)
            await hospital.send(message)
        await hospital.send(order("ID7", "A4").replace(b"ORC|NW", b"ORC|HD"))
        group = order("ID8", "A5").split(b"ORC|NW")[1]
        replaced = order("ID8", "A5").replace(b"ORC|NW", b"ORC|RP") + b"ORC|RO" + group
        await hospital.send(replaced)
        await hospital.follow()
        await eventually_async(lambda: hospital.rows(UNSENT) == [(0,)])
        sent = [Message.parse(payload) for payload in hospital.receivers["ris"].sent]
    cancelled = {m.value("OBR-18"): (m.value("ORC-5"), m.value("OBR-25")) for m in sent}
    assert cancelled == dict.fromkeys(("A1", "A2", "A3", "A6"), ("CA", "X"))
    assert [m.value("OBR-18") for m in sent].count("A6") == 1


@pytest.mark.parametrize("name", ["results", "mdm"])
async def test_a_final_text_after_a_retraction_corrects(
    tmp_path: Path, database: Database, name: str
) -> None:
    """A report with an early addendum is recalled and signed again: withdrawn, then corrected."""
    ris = destination(mappings=compiled(name))
    async with open_hospital(tmp_path, database, ris, sign_delay=DELAY) as hospital:
        await hospital.send(order("ID1", "A1"))
        page = await hospital.read_and_sign("A1", "Report.")
        await sign_addendum(page, "Addition.")
        await hospital.client.release_addendum(A1)
        await hospital.follow()
        await hospital.delivered(1)
        await page("unsign")
        await page("save", text="Better.")
        await page("sign")
        await hospital.client.sign(A1, ignore_sign_delay=True)
        await hospital.follow()
        sent = [Message.parse(message) for message in await hospital.delivered(3)]
    if name == "results":
        assert [m.value("OBR-25") for m in sent] == ["C", "C", "C"]
        assert [m.named("OBX")[-1].value("OBX-11") for m in sent] == ["C", "W", "C"]
    else:
        assert [m.value("MSH-9.2") for m in sent] == ["T06", "T10", "T10"]
        numbers = [m.value("TXA-12") for m in sent]
        assert sent[2].value("TXA-13") == numbers[1]
        assert [(m.value("TXA-17"), m.value("TXA-22") != "") for m in sent[1:]] == [
            ("DO", False),
            ("LA", True),
        ]
        assert len(set(numbers)) == 3
    assert not any(s.value("OBX-5") == "Report." for m in sent[1:] for s in m.named("OBX"))
    assert [s.value("OBX-5") for s in sent[2].named("OBX")][-1] == "Better."


async def test_a_preliminary_report_signed_before_it_was_sent(
    tmp_path: Path, database: Database
) -> None:
    """A signed text that can be recalled is not sent as a preliminary one."""
    ris = destination(events=RESULTS)
    async with open_hospital(tmp_path, database, ris, sign_delay=DELAY) as hospital:
        await hospital.send(order("ID1", "A1"))
        page = await hospital.page("A1")
        await page("save", text="First look.")
        await hospital.client.prelim(A1, "Residents", "R1")
        await page("save", text="Signed words.")
        await page("sign")
        await hospital.follow()
        await eventually_async(lambda: hospital.rows("SELECT state, code FROM delivery") == GONE)
        assert hospital.receivers["ris"].sent == []


async def test_a_result_whose_report_is_not_signed(tmp_path: Path, database: Database) -> None:
    """A text without a signature is not sent as a final one; an operator sees the delivery."""
    async with open_hospital(tmp_path, database, destination()) as hospital:
        await hospital.send(order("ID1", "A1"))
        await (await hospital.page("A1"))("save", text="Not signed.")
        final = {"orders": [A1.tags()], "status": "Final", "addenda": 0}
        with database.write() as connection:
            release = DeliveryRequest("ris", "R1", "K1", "final", 0, final)
            hospital.outbox.enqueue(connection, [release], 0)
        query = "SELECT state, code FROM delivery"
        await eventually_async(lambda: hospital.rows(query) == [("parked", "not_signed")])
        assert hospital.receivers["ris"].sent == []


async def test_an_addendum_recalled_before_it_was_sent(tmp_path: Path, database: Database) -> None:
    """Neither the addendum nor its retraction is sent, and the next release is."""
    ris = destination(mappings=compiled("results", content=["text", "pdf"]))
    async with open_hospital(tmp_path, database, ris, sign_delay=DELAY) as hospital:
        await hospital.send(order("ID1", "A1"))
        page = await hospital.read_and_sign("A1", "Report.")
        await sign_addendum(page, "Addition.")
        await hospital.client.release_addendum(A1)
        await page("unsign")
        await hospital.follow()
        await eventually_async(lambda: hospital.rows(UNSENT) == [(0,)])
        assert hospital.receivers["ris"].sent == []
        await page("sign")
        await hospital.client.sign(A1, ignore_sign_delay=True)
        await hospital.follow()
        (message,) = map(Message.parse, await hospital.delivered(1))
        assert hospital.rows("SELECT code FROM delivery WHERE state = 'ignored' ORDER BY id") == [
            ("gone",),
            ("never_told",),
        ]
    assert message.value("OBR-25") == "F"


@pytest.mark.parametrize("style", ["child", "mdm"])
async def test_separate_messages_are_withdrawn_separately(
    tmp_path: Path, database: Database, style: str
) -> None:
    """Early addenda sent as child orders or documents are withdrawn one by one."""
    own = compiled("results", addenda="child") if style == "child" else compiled("results")
    documents = compiled("mdm")[0].restricted_to({ResultEvent.ADDENDUM, ResultEvent.RETRACTION})
    ris = destination(mappings=own if style == "child" else (documents, *own))
    async with open_hospital(tmp_path, database, ris, sign_delay=DELAY) as hospital:
        await hospital.send(order("ID1", "A1"))
        page = await hospital.read_and_sign("A1", "Report.")
        for content in ("One.", "Two."):
            await sign_addendum(page, content)
            await hospital.client.release_addendum(A1)
            await hospital.follow()
        await hospital.delivered(2)
        await page("unsign")
        await hospital.follow()
        sent = [Message.parse(message) for message in await hospital.delivered(4)]
    place = {"child": "OBR-3", "mdm": "TXA-12"}[style]
    about = [message.value(place) for message in sent]
    if style == "child":
        assert about == ["A1-A1", "A1-A2", "A1-A1", "A1-A2"]
        assert [m.named("OBX")[-1].value("OBX-4") for m in sent] == ["2", "3", "2", "3"]
    else:
        assert [m.value("TXA-13") for m in sent[2:]] == about[:2]
    assert [m.named("OBX")[-1].value("OBX-11") for m in sent[2:]] == ["W", "W"]


@pytest.mark.parametrize("addenda", ["child", "whole"])
async def test_a_later_addendum_that_is_released_early(
    tmp_path: Path, database: Database, addenda: str
) -> None:
    """Each addendum is sent once, in the order of signing."""
    ris = destination(mappings=compiled("results", addenda=addenda))
    async with open_hospital(tmp_path, database, ris, sign_delay=DELAY) as hospital:
        await hospital.send(order("ID1", "A1"))
        page = await hospital.read_and_sign("A1", "Report.")
        await hospital.client.sign(A1, ignore_sign_delay=True)
        await sign_addendum(page, "One.")
        await sign_addendum(page, "Two.")
        await hospital.client.release_addendum(A1)
        await hospital.follow()
        sent = await hospital.delivered(3)
        await eventually_async(lambda: hospital.rows(UNSENT) == [(0,)])
    found = [[text for text in texts(one) if text in ("One.", "Two.")] for one in sent]
    assert found == [[], ["One."], ["Two."] if addenda == "child" else ["One.", "Two."]]


async def test_files_beside_the_text(tmp_path: Path, database: Database) -> None:
    """PDF and RTF in base64 have the text of the message, without an addendum in its delay."""
    ris = destination(mappings=compiled("results", content=["text", "pdf", "rtf"]))
    async with open_hospital(tmp_path, database, ris, sign_delay=DELAY) as hospital:
        await hospital.send(order("ID1", "A1"))
        page = await hospital.read_and_sign("A1", "Report.")
        await sign_addendum(page, "Released.")
        await hospital.client.sign(A1, ignore_sign_delay=True)
        await hospital.client.release_addendum(A1)
        await sign_addendum(page, "Cooling.")
        await hospital.follow()
        first, second = map(Message.parse, await hospital.delivered(2))
    kinds = [s.value("OBX-2") for s in second.named("OBX") if s.value("OBX-11") != "O"]
    assert kinds == ["TX", "TX", "TX", "ED", "ED"]
    pdf, rtf = (s for s in second.named("OBX") if s.value("OBX-2") == "ED")
    assert [pdf.value(f"OBX-5.{n}") for n in (1, 2, 3, 4)] == ["", "Application", "PDF", "Base64"]
    assert base64.b64decode(pdf.value("OBX-5.5"), validate=True).startswith(b"%PDF-")
    text = rtf_to_text(base64.b64decode(rtf.value("OBX-5.5"), validate=True).decode())
    assert "Report." in text
    assert "Released." in text
    assert "Cooling." not in text
    assert [s.value("OBX-4") for s in first.named("OBX") if s.value("OBX-2") == "ED"] == [
        pdf.value("OBX-4"),
        rtf.value("OBX-4"),
    ]


async def test_a_report_that_changes_while_its_file_is_read(
    tmp_path: Path, database: Database
) -> None:
    """Text and file are read again until both are of one version."""
    paths: list[str] = []

    async def change(request: httpx.Request) -> None:
        if "/export/" in request.url.path:
            paths.append(request.url.path.rpartition("/")[2])
            if paths == ["json", "rtf"]:
                await sign_addendum(page, "Meanwhile.")

    ris = destination(mappings=compiled("results", content=["text", "rtf"]))
    async with open_hospital(tmp_path, database, ris) as hospital:
        await hospital.send(order("ID1", "A1"))
        page = await hospital.read_and_sign("A1", "Report.")
        hospital.http.event_hooks["request"].append(change)
        await hospital.follow()
        await hospital.delivered(1)
        assert paths == ["json", "rtf", "json", "rtf", "json"]


async def test_a_file_alone(tmp_path: Path, database: Database) -> None:
    """A receiver configured for PDF only gets only the PDF."""
    ris = destination(mappings=compiled("mdm", content=["pdf"], metadata={"*": "none"}))
    async with open_hospital(tmp_path, database, ris) as hospital:
        await hospital.send(order("ID1", "A1"))
        await hospital.read_and_sign("A1", "Report.")
        await hospital.follow()
        (message,) = map(Message.parse, await hospital.delivered(1))
    assert [s.value("OBX-2") for s in message.named("OBX") if s.value("OBX-11") != "O"] == ["ED"]
    assert message.value("TXA-3") == "AP", "other application data (table 0191)"
