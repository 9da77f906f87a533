"""Stored orders reach the report engine, with the real engine behind ASGI."""

from collections.abc import Sequence
from itertools import count

import pytest
from sqlalchemy import text

from bridge.contract import MAX_REPORT_ORDERS, OrderKey, ReportStatus
from bridge.contract.responses import StatusRecordBody
from bridge.queue.inbox import settlements
from tests.bridge.delivery.fixtures import SITE
from tests.bridge.delivery.whole_bridge import Hospital

IDS = count(1)
UID = "1.2.826.0.1.3680043.1"


def message(
    *groups: str, mrn: str = "M1", name: str = "TESTER^TILDA", sent: str = "20261121120000"
) -> bytes:
    """Build an order message of these ORC/OBR groups."""
    head = (
        f"MSH|^~\\&|RIS|MAIN|BRIDGE|RAD|{sent}||ORM^O01|C{next(IDS)}|P|2.3.1\r"
        f"PID|1||{mrn}||{name}||19700101|F\r"
    )
    return (head + "".join(groups)).encode()


def group(
    accession: str = "A1",
    control: str = "NW",
    status: str = "SC",
    *,
    uid: str = "",
    placer_group: str = "",
    parent: str = "",
    description: str = "CT Head",
) -> str:
    lines = [
        f"ORC|{control}|P{accession}|{accession}|{placer_group}|{status}|||{parent}",
        f"OBR|1|P{accession}|{accession}|CT1^{description}^L|||20261121113000|||||||||||{accession}||||||CT|||||{parent}",
    ]
    if uid:
        lines.append(f"ZDS|{uid}^A^Application^DICOM")
    return "\r".join(lines) + "\r"


async def accessions(hospital: Hospital, accession: str) -> Sequence[str]:
    """Return all accessions in the report of one order, anchor first."""
    record = await hospital.report(accession)
    return [order.accession for order in record.orders] if record else []


def notes(hospital: Hospital) -> str:
    """Return the notes of the last message."""
    return str(hospital.rows("SELECT notes FROM message ORDER BY id DESC LIMIT 1")[0][0])


async def test_pages_get_a_hint_when_a_message_was_applied(hospital: Hospital) -> None:
    """Those of its site; a message that contradicts its order is of no site."""

    def applied() -> list[int]:
        with hospital.database.read() as connection:
            return [settlements(connection, sites) for sites in ([SITE], [""], ["SITE9"])]

    await hospital.send(message(group()))
    await hospital.send(message(group(control="XO")))
    assert applied() == [2, 0, 0]
    await hospital.send(message(group(), name="OTHER^PERSON", sent="20261121120100"))
    assert applied() == [2, 1, 0]


async def test_a_new_order(hospital: Hospital) -> None:
    """The order is on the worklist, empty and unassigned, with its tags."""
    await hospital.send(message(group()))
    (row,) = (await hospital.client.worklist(SITE, status="Ordered")).items
    assert "CT Head" in str(row)
    assert await accessions(hospital, "A1") == ["A1"]
    assert hospital.states() == {"done"}


STORIES = {
    "NW": "NW 0",
    "NW NW": "NW 1",
    "XO": "XO 0",
    "XO XO": "XO 1",
    "NW XO XO": "XO 2",
    "NW CA": None,
    "CA NW": "NW 1",
    "NW CA XO": None,
    "NW DC": None,
    "NW CA NW": "NW 2",
    "NW HD": None,
    "NW HD RL": "RL 2",
    "NW HD XO RL": "RL 3",
    "CA": None,
    "NW OK": "NW 0",
    "NW CA RL": None,
    "SN": "SN 0",
    "NW SC": "SC 1",
}


async def test_stories(hospital: Hospital) -> None:
    """The worklist shows the state that the last effective message gives, at equal times."""
    for number, story in enumerate(STORIES):
        for place, control in enumerate(story.split()):
            status = "CA" if control in {"CA", "DC"} else "SC"
            one = group(f"A{number}", control, status, description=f"{control} {place}")
            await hospital.hand_over(message(one, mrn=f"M{number}"))
    await hospital.applied()
    found = await hospital.descriptions()
    assert {item: found.get(f"A{number}") for number, item in enumerate(STORIES)} == STORIES


async def test_a_cancel_never_destroys_a_report(hospital: Hospital) -> None:
    """A dictated report stays, with a note."""
    await hospital.send(message(group()))
    page = await hospital.page("A1")
    await page("save", text="Dictated.")
    await hospital.send(message(group(control="CA", status="")))
    record = await hospital.report("A1")
    assert record is not None
    assert record.status is ReportStatus.DRAFT
    export = await hospital.client.export_json(OrderKey(SITE, "M1", "A1"))
    assert export.report.content == "Dictated."
    assert "report_kept" in notes(hospital)


async def test_a_held_order_is_off_the_list_until_released(hospital: Hospital) -> None:
    """HD removes the order from the worklist, a change is stored, RL restores it."""
    await hospital.send(message(group(description="CT Chest")))
    await hospital.send(message(group(control="HD", status="HD", description="CT Chest")))
    assert await hospital.report("A1") is None
    await hospital.send(message(group(control="XO", description="CT Spine")))
    assert await hospital.report("A1") is None
    release = "ORC|RL|PA1|A1\rOBR|1|PA1|A1|||||||||||||||A1\r"
    await hospital.send(message(release))
    (row,) = (await hospital.client.worklist(SITE, accession="A1")).items
    assert row["orders"][0]["StudyDescription"] == "CT Spine"


LINKED = {
    "same study UID": ((group("A1", uid=UID),), (group("A2", uid=UID),)),
    "groups of one message": ((group("A1"), group("A2")),),
    "printset": (
        (group("A1", placer_group="G1", parent="PRINTSET: CT"),),
        (group("A2", placer_group="G1", parent="Printset:CT"),),
    ),
}

ALONE = {
    "other study UID": ((group("A1", uid=UID),), (group("A2", uid=UID + "1"),)),
    "groups whose ORC-4 differ": (
        (group("A1", placer_group="G1"), group("A2", placer_group="G2")),
    ),
    "ORC-4 alone": ((group("A1", placer_group="G1"),), (group("A2", placer_group="G1"),)),
    "examset": (
        (group("A1", placer_group="G1", parent="EXAMSET: CT"),),
        (group("A2", placer_group="G1", parent="EXAMSET: CT"),),
    ),
}


@pytest.mark.parametrize("messages", LINKED.values(), ids=LINKED)
async def test_linked_orders(hospital: Hospital, messages: Sequence[Sequence[str]]) -> None:
    """Orders with a common signal share a report. The first one is its anchor."""
    for groups in messages:
        await hospital.send(message(*groups))
    assert await accessions(hospital, "A1") == ["A1", "A2"]


async def test_a_group_of_one_message_is_linked_at_its_launch(hospital: Hospital) -> None:
    """The orders of a group are never separate on the worklist, because the launch links them."""
    await hospital.send(message(group("A1"), group("A2"), group("A3")))
    assert await accessions(hospital, "A1") == ["A1", "A2", "A3"]
    with hospital.engine_database.read() as connection:
        actions = connection.execute(text("SELECT action FROM engine_audit_event")).scalars()
        assert "link" not in " ".join(actions)


@pytest.mark.parametrize("messages", ALONE.values(), ids=ALONE)
async def test_orders_that_are_not_linked(
    hospital: Hospital, messages: Sequence[Sequence[str]]
) -> None:
    """Signals that are off by default or differ link no orders."""
    for groups in messages:
        await hospital.send(message(*groups))
    assert await accessions(hospital, "A1") == ["A1"]
    assert await accessions(hospital, "A2") == ["A2"]


async def test_a_third_order_joins_at_the_anchor(hospital: Hospital) -> None:
    """An order that shares a signal with one member joins the whole group."""
    await hospital.send(message(group("A1"), group("A2", uid=UID)))
    await hospital.send(message(group("A0", uid=UID)))
    assert await accessions(hospital, "A0") == ["A1", "A2", "A0"]


async def test_other_patients_are_never_linked(hospital: Hospital) -> None:
    """Orders of two patients are not linked by a study UID."""
    await hospital.send(message(group("A1", uid=UID)))
    await hospital.send(message(group("A2", uid=UID), mrn="M2", name="OTHER^OLE"))
    assert await accessions(hospital, "A1") == ["A1"]


async def test_messages_after_the_signature(hospital: Hospital) -> None:
    """A signed report keeps its orders and their data; later messages are no error."""
    await hospital.send(message(group("A1", uid=UID)))
    await hospital.read_and_sign("A1", "Signed.")
    await hospital.send(message(group("A2", uid=UID)))
    assert await accessions(hospital, "A1") == ["A1"]
    assert await accessions(hospital, "A2") == ["A2"]
    await hospital.send(message(group("A1", "XO", description="Too late")))
    (row,) = (await hospital.client.worklist(SITE, accession="A1")).items
    assert row["orders"][0]["StudyDescription"] == "CT Head"
    assert hospital.states() == {"done"}


async def test_a_cancelled_member_leaves_its_group(hospital: Hospital) -> None:
    """Cancel of a linked order unlinks it. The others stay linked."""
    await hospital.send(message(group("A1"), group("A2"), group("A3")))
    await hospital.send(message(group("A1", "CA", "")))
    assert await accessions(hospital, "A2") == ["A2", "A3"]
    assert await hospital.report("A1") is None
    await hospital.send(message(group("A3", "CA", "")))
    assert await accessions(hospital, "A2") == ["A2"]


async def test_a_removed_signal_unlinks(hospital: Hospital) -> None:
    """A change to another study unlinks the order. Other changes do not."""
    await hospital.send(message(group("A1", uid=UID)))
    await hospital.send(message(group("A2", uid=UID)))
    await hospital.send(message(group("A2", "XO", description="CT Neck")))
    assert await accessions(hospital, "A2") == ["A1", "A2"]
    await hospital.send(message(group("A2", "XO", uid=UID + "9")))
    assert await accessions(hospital, "A2") == ["A2"]
    assert await accessions(hospital, "A1") == ["A1"]


async def test_a_refused_order_in_a_batch(hospital: Hospital) -> None:
    """An order that the service refuses is parked. Others of the batch are applied."""
    await hospital.send(message(group("B0"), mrn="M0"))
    bad = message(group("B1", description="x"), mrn="M0", name="SOMEBODY^ELSE")
    for payload in (
        message(group("B2"), mrn="M2"),
        bad,
        message(group("B3"), mrn="M3"),
    ):
        await hospital.hand_over(payload)
    await hospital.applied()
    states = hospital.rows("SELECT state, code FROM message ORDER BY id")
    assert states == [
        ("done", ""),
        ("done", ""),
        ("parked", "patient_name_mismatch"),
        ("done", ""),
    ]


ADT = (
    "MSH|^~\\&|ADT|MAIN|BRIDGE|RAD|20261121120000||ADT^{event}|D{id}|P|2.3.1\r"
    "EVN|{event}|20261121\r"
)


async def test_a_service_without_batches(hospital: Hospital) -> None:
    """After 405 of the batch endpoint the bridge launches orders one by one."""
    from bridge.engine_client.errors import EngineFailure  # noqa: PLC0415
    from bridge.errors import FailureKind  # noqa: PLC0415

    calls = []

    async def no_batch(launches: object) -> object:
        calls.append(launches)
        raise EngineFailure("batch", FailureKind.PERMANENT, "http_405", 405)

    hospital.client.launch_batch = no_batch  # type: ignore[method-assign,assignment]
    await hospital.send(message(group("A1"), group("A2")))
    await hospital.send(message(group("A3"), group("A4")))
    assert await accessions(hospital, "A3") == ["A3", "A4"]
    assert len(calls) == 1


async def test_more_orders_than_a_report_may_have(hospital: Hospital) -> None:
    """They get several reports. Each order of a group asks for the orders of its report at most."""
    asked: list[int] = []
    status = hospital.client.status

    async def counted(orders: Sequence[OrderKey]) -> Sequence[StatusRecordBody]:
        asked.append(len(orders))
        return await status(orders)

    hospital.client.status = counted  # type: ignore[method-assign,assignment]
    names = [f"A{number:03}" for number in range(MAX_REPORT_ORDERS + 2)]
    await hospital.send(message(*map(group, names)))
    assert sum(asked) < 5 * MAX_REPORT_ORDERS
    assert await accessions(hospital, names[0]) == names[:MAX_REPORT_ORDERS]
    assert await accessions(hospital, names[-1]) == names[MAX_REPORT_ORDERS:]
