"""Messages with wrong or ambiguous times, or times of another sender's clock."""

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from bridge.intake.process.jobs import sent_at
from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.orders.times import is_earlier
from tests.bridge.delivery.fixtures import SITE
from tests.bridge.delivery.whole_bridge import Hospital
from tests.bridge.intake.messages import adt, order_group, order_message

BERLIN = ListenerPolicy("ris", (), "SITE1", time_zone="Europe/Berlin")
ARRIVED = round(datetime(2026, 11, 1, 12, tzinfo=UTC).timestamp() * 1000)


def head(time: str, application: str = "RIS", facility: str = "MAIN") -> bytes:
    return f"MSH|^~\\&|{application}|{facility}|BRIDGE|RAD|{time}||ORM^O01|1|P|2.5.1\r".encode()


def at(time: str, message: bytes, application: str = "RIS") -> bytes:
    """Return a message with another MSH-7 and MSH-3."""
    fields = message.split(b"|", 7)
    fields[2], fields[6] = application.encode(), time.encode()
    return b"|".join(fields)


def from_now(**ahead: float) -> str:
    return (datetime.now(UTC) + timedelta(**ahead)).strftime("%Y%m%d%H%M%S+0000")


def codes(hospital: Hospital) -> list[str]:
    found = [code for (code,) in hospital.rows("SELECT code FROM message ORDER BY id")]
    exceptions = [code for (code,) in hospital.rows("SELECT code FROM exception ORDER BY row_id")]
    assert [item for item in found if item] == exceptions
    return found


AHEAD = (365 * 70, 1, 5 / 24 / 60, 30 / 24 / 3600)
"""Days."""


async def test_a_time_in_the_future_stops_no_later_cancellation(hospital: Hospital) -> None:
    """The next cancellation cancels an order of a sender whose clock is ahead."""
    for number, (ahead, control) in enumerate(product(AHEAD, ("CA", "DC", "RP", "HD"))):
        name, mrn = (f"P{number}", f"F{number}"), f"M{number}"
        new = order_message(order_group("NW", *name), mrn=mrn)
        await hospital.send(at(from_now(days=ahead), new))
        assert set(await hospital.descriptions()) == {name[1]}
        cancel = order_message(order_group(control, *name, what=""), mrn=mrn)
        await hospital.send(at(from_now(seconds=-1), cancel))
        assert await hospital.descriptions() == {}, (ahead, control)
    assert set(codes(hospital)) == {""}


async def test_a_time_in_the_future_stops_no_later_change(hospital: Hospital) -> None:
    """The next change is applied."""
    await hospital.send(at("20990101120000", order_message(order_group("NW", "P1", "F1"))))
    await hospital.send(
        at(from_now(seconds=-1), order_message(order_group("XO", "P1", "F1", what="MR Head")))
    )
    assert await hospital.descriptions() == {"F1": "MR Head"}


async def test_a_correction_dated_tomorrow_stops_no_correct_one(hospital: Hospital) -> None:
    """Corrections with unreliable times count in their order of arrival."""
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
    await hospital.send(at(from_now(days=1), adt("A08", "M1", name="WRONG^WANDA")))
    await hospital.send(at(from_now(seconds=-1), adt("A08", "M1", name="RIGHT^RITA")))
    await hospital.send(order_message(order_group("XO", "P1", "F1"), sent=2, name=""))
    (row,) = (await hospital.client.worklist(SITE)).items
    assert [order["PatientName"] for order in row["orders"]] == ["RIGHT^RITA"]


@pytest.mark.parametrize("control", ["CA", "XO"])
async def test_times_of_two_senders_are_not_compared(hospital: Hospital, control: str) -> None:
    """The order of arrival counts, because the clocks of two senders may differ by ten minutes."""
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=10))
    late = order_message(order_group(control, "P1", "F1", what="MR Head"), sent=0)
    await hospital.send(at("202611210800", late, application="PACS"))
    assert await hospital.descriptions() == ({} if control == "CA" else {"F1": "MR Head"})
    assert codes(hospital) == ["", ""]


async def test_a_former_name_of_another_sender(hospital: Hospital) -> None:
    """An order that arrives after an ADT correction with the former name is accepted."""
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
    corrected = adt("A08", "M1", name="BETTER^TILDA")
    await hospital.send(at("20261121120000", corrected, application="ADT"))
    await hospital.send(order_message(order_group("NW", "P2", "F2"), sent=2))
    rows = (await hospital.client.worklist(SITE)).items
    names = {order["Accession"]: order["PatientName"] for row in rows for order in row["orders"]}
    assert names == {"F1": "BETTER^TILDA", "F2": "BETTER^TILDA"}


async def test_messages_without_effect_are_exceptions(hospital: Hospital) -> None:
    """An outdated cancellation or change and one of a cancelled order are exceptions."""
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=10))
    await hospital.send(order_message(order_group("CA", "P1", "F1"), sent=5))
    await hospital.send(order_message(order_group("XO", "P1", "F1", what="MR Head"), sent=6))
    assert await hospital.descriptions() == {"F1": "CT Head"}
    await hospital.send(order_message(order_group("CA", "P1", "F1"), sent=20))
    await hospital.send(order_message(order_group("XO", "P1", "F1"), sent=30))
    await hospital.send(order_message(order_group("CA", "P7", "F7", what=""), sent=30))
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=11))
    assert await hospital.descriptions() == {}
    assert codes(hospital) == [
        *("", "superseded", "superseded", "", "order_cancelled", "order_unknown", "superseded"),
    ]


async def test_an_outdated_correction_is_an_exception(hospital: Hospital) -> None:
    """An outdated correction changes nothing, and is an exception."""
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
    await hospital.send(at("20261121120000", adt("A08", "M1", name="NEWER^NELL")))
    await hospital.send(at("20261121110000", adt("A08", "M1", name="OLDER^OLGA")))
    assert codes(hospital) == ["", "", "superseded"]


async def test_a_cancellation_under_a_foreign_accession(hospital: Hospital) -> None:
    """Its numbers are those of an open order, its accession differs: nothing is cancelled."""
    await hospital.send(order_message(order_group("NW", "P1", "F1", accession="A1"), sent=1))
    foreign = order_group("CA", "P1", "", accession="X9")
    await hospital.send(order_message(foreign, sent=2))
    assert await hospital.descriptions() == {"A1": "CT Head"}
    assert codes(hospital) == ["", "other_accession"]


@pytest.mark.parametrize(
    ("earlier", "later", "proves"),
    [
        ("20261101100000", "20261101100001", True),
        ("202611011000", "20261101100030", False),  # both may be in the same minute
        ("202611011000", "20261101100130", True),
        ("20261101100000", "20261101100000.500", False),
        ("20261025023000", "20261025040000", False),  # 02:30 occurs twice that night
        ("20261025023000+0200", "20261025023000+0100", True),
        ("20260329023000", "20260329040000", False),  # 02:30 does not exist that night
        ("2026110110", "20261101110000", False),
        ("20261101120000", "20261101130003", True),
        ("20261101120000", "20261101130010", False),  # ten seconds later than its arrival
        ("20261101120000", "20261101125900+0100", False),  # possibly in other zones
        ("", "20261101100000", False),
    ],
)
def test_which_times_prove_an_order(earlier: str, later: str, *, proves: bool) -> None:
    """Only precise, unambiguous times before their arrival prove the order."""
    one, other = (sent_at(head(item), BERLIN, ARRIVED) for item in (earlier, later))
    assert is_earlier(one, other) is proves
    assert not is_earlier(other, one)


@pytest.mark.parametrize(
    "other", [("RIS", "SOUTH"), ("PACS", "MAIN"), ("RIS^1.2.3^ISO", "MAIN"), ("", "")]
)
def test_each_application_has_its_clock(other: tuple[str, str]) -> None:
    """Senders with different MSH-3 or MSH-4 have different clocks."""
    one = sent_at(head("20261101100000"), BERLIN, ARRIVED)
    two = sent_at(head("20261101110000", *other), BERLIN, ARRIVED)
    assert not is_earlier(one, two)
    assert is_earlier(one, sent_at(head("20261101110000"), BERLIN, ARRIVED))
