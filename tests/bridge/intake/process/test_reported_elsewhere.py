"""Orders that another system has reported: they leave the list of unread orders, and come back."""

from pathlib import Path
from typing import Any

import pytest

from bridge.admin.orders.unread import read_reported, return_order
from bridge.contract import OrderKey
from config import Settings
from tests.bridge.delivery.fixtures import SITE
from tests.bridge.delivery.whole_bridge import Hospital
from tests.bridge.intake.messages import order_group, order_message

A1 = OrderKey(SITE, "M1", "A1")


def status_group(control: str, result: str, *, status: str = "CM", number: str = "1") -> str:
    """Build a group with ORC-5 and OBR-25."""
    orc = f"ORC|{control}|P{number}|F{number}||{status}\r"
    obr = f"OBR|1|P{number}|F{number}|X^CT Head^L||||||||||||||A{number}||||||CT|{result}\r"
    return orc + obr


def new_order(number: str = "1") -> str:
    return order_group("NW", f"P{number}", f"F{number}", accession=f"A{number}")


async def listed(hospital: Hospital, **query: Any) -> set[str]:
    """Return the accessions of the API's worklist."""
    rows = (await hospital.client.worklist(SITE, **query)).items
    return {order["Accession"] for row in rows for order in row["orders"]}


async def marks(hospital: Hospital, accession: str, member: str = "status") -> list[str]:
    """Return a member of the marks of an order's report: the result status by default."""
    (row,) = (await hospital.client.worklist(SITE, accession=accession)).items
    return [mark[member] for mark in row["reportedElsewhere"]]


def state(hospital: Hospital) -> list[str]:
    return [row for (row,) in hospital.rows("SELECT state FROM bridge_order ORDER BY id")]


@pytest.mark.parametrize("control", ["SC", "XO"])
@pytest.mark.parametrize("result", ["F", "C", "f"])
async def test_a_status_message_takes_an_unread_order_off_the_list(
    hospital: Hospital, control: str, result: str
) -> None:
    """The order stays visible to a search, and the other order stays on the list."""
    await hospital.send(order_message(new_order("1"), sent=1))
    await hospital.send(order_message(new_order("2"), sent=1))
    await hospital.send(order_message(status_group(control, result), sent=2))
    assert await hospital.descriptions() == {"A2": "CT Head"}
    assert await listed(hospital, accession="A1") == {"A1"}
    assert await listed(hospital, text="A1") == {"A1"}
    assert await listed(hospital, mrn="M1") == {"A1", "A2"}
    assert await marks(hospital, "A1") == [result]
    assert await marks(hospital, "A1", "sender") == ["RIS"]
    assert state(hospital) == ["reported", "ordered"]
    assert hospital.last_message() == ("done", "")


@pytest.mark.parametrize("result", ["", "P", "I", "R", "S", "X"])
async def test_another_result_status_takes_nothing_off(hospital: Hospital, result: str) -> None:
    await hospital.send(order_message(new_order(), sent=1))
    await hospital.send(order_message(status_group("SC", result), sent=2))
    assert await hospital.descriptions() == {"A1": "CT Head"}


@pytest.mark.parametrize("prelim", [False, True])
async def test_a_begun_report_is_kept_with_an_exception(
    hospital: Hospital, *, prelim: bool
) -> None:
    """Nothing is removed, a person is told, and the mark is on the page."""
    await hospital.send(order_message(new_order(), sent=1))
    page = await hospital.page("A1")
    await page("save", text="Dictated.")
    if prelim:
        await hospital.client.prelim(A1, "Night", "CT")
    await hospital.send(order_message(status_group("SC", "F"), sent=2))
    assert hospital.last_message() == ("done", "reported_elsewhere_begun")
    assert await hospital.client.content(A1) == "Dictated."
    assert await listed(hospital) == {"A1"}
    shown = await page("save", text="Dictated, and more.")
    assert [mark["accession"] for mark in shown["reportedElsewhere"]] == ["A1"]


async def test_a_report_that_is_signed_here_is_not_reported_elsewhere(hospital: Hospital) -> None:
    """The message may repeat the result that the bridge sent."""
    await hospital.send(order_message(new_order(), sent=1))
    await hospital.read_and_sign("A1", "Normal.")
    await hospital.send(order_message(status_group("SC", "F"), sent=2))
    assert hospital.last_message() == ("done", "")
    assert await marks(hospital, "A1") == []
    assert state(hospital) == ["ordered"]


@pytest.mark.parametrize(
    "later",
    [new_order(), order_group("RL", "P1", "F1", accession="A1"), status_group("SC", "")],
    ids=["ordered again", "released", "examined again"],
)
async def test_a_later_message_returns_the_order(hospital: Hospital, later: str) -> None:
    await hospital.send(order_message(new_order(), sent=1))
    await hospital.send(order_message(status_group("SC", "F"), sent=2))
    await hospital.send(order_message(later, sent=3))
    assert await hospital.descriptions() == {"A1": "CT Head"}
    assert await marks(hospital, "A1") == []
    assert state(hospital) == ["ordered"]
    # and another report takes it off again
    await hospital.send(order_message(status_group("SC", "C"), sent=4))
    assert await hospital.descriptions() == {}


async def test_a_repetition_does_not_undo_what_a_person_decided(
    hospital: Hospital, tmp_path: Path
) -> None:
    """The order is to be read here until a message that was sent later says otherwise."""
    await hospital.send(order_message(new_order(), sent=1))
    await hospital.send(order_message(status_group("SC", "F"), sent=3))
    order = read_reported(hospital.database, 1)
    settings = Settings(home=tmp_path)
    await return_order(settings, hospital.database, hospital.client, order)
    for sent in (3, 2):
        await hospital.send(order_message(status_group("SC", "F"), sent=sent))
        assert await hospital.descriptions() == {"A1": "CT Head"}
        assert state(hospital) == ["ordered"]
        assert hospital.last_message()[0] == "done"
    await hospital.send(order_message(status_group("SC", "C"), sent=4))
    assert await hospital.descriptions() == {}
    assert state(hospital) == ["reported"]


async def test_a_reader_decides_that_it_is_read_here(hospital: Hospital) -> None:
    """Both sides return all orders of the report, and a later message reports one again."""
    await hospital.send(order_message(new_order("1"), new_order("2"), sent=1))
    for number in "12":
        await hospital.send(order_message(status_group("SC", "F", number=number), sent=2))
    await (await hospital.page("A1"))("unread")
    assert await marks(hospital, "A1") == []
    await hospital.follow()
    assert state(hospital) == ["ordered", "ordered"]
    await hospital.send(order_message(status_group("SC", "F"), sent=2))
    assert state(hospital) == ["ordered", "ordered"]
    await hospital.send(order_message(status_group("SC", "C"), sent=3))
    assert state(hospital) == ["reported", "ordered"]


async def test_a_later_report_counts_if_the_decision_is_read_late(hospital: Hospital) -> None:
    """The feed may be behind: a message that was sent after the decision's mark stays."""
    await hospital.send(order_message(new_order(), sent=1))
    await hospital.send(order_message(status_group("SC", "F"), sent=2))
    await (await hospital.page("A1"))("unread")
    await hospital.send(order_message(status_group("SC", "C"), sent=3))
    await hospital.follow()
    assert state(hospital) == ["reported"]
    assert await marks(hospital, "A1") == ["C"]


@pytest.mark.parametrize(
    "earlier",
    [new_order(), status_group("SC", ""), order_group("XO", "P1", "F1", accession="A1")],
    ids=["order", "examination", "change"],
)
async def test_an_earlier_message_that_arrives_late_does_not_return_it(
    hospital: Hospital, earlier: str
) -> None:
    """The order itself may arrive after the message that it was reported."""
    await hospital.send(order_message(status_group("SC", "F"), sent=5))
    await hospital.send(order_message(earlier, sent=3))
    assert await hospital.descriptions() == {}
    assert await listed(hospital, accession="A1") == {"A1"}


async def test_a_report_message_from_before_the_newest_order_has_no_effect(
    hospital: Hospital,
) -> None:
    await hospital.send(order_message(new_order(), sent=5))
    await hospital.send(order_message(status_group("SC", "F"), sent=3))
    assert await hospital.descriptions() == {"A1": "CT Head"}
    assert hospital.last_message() == ("done", "superseded")


async def test_an_earlier_report_message_that_arrives_late_needs_no_attention(
    hospital: Hospital,
) -> None:
    """The order is reported already: nothing is lost."""
    await hospital.send(order_message(new_order(), sent=1))
    await hospital.send(order_message(status_group("SC", "C"), sent=5))
    await hospital.send(order_message(status_group("SC", "F"), sent=3))
    assert state(hospital) == ["reported"]
    assert hospital.last_message() == ("done", "")


async def test_a_change_updates_it_and_it_stays_off_the_list(hospital: Hospital) -> None:
    await hospital.send(order_message(new_order(), sent=1))
    await hospital.send(order_message(status_group("SC", "F"), sent=2))
    changed = order_group("XO", "P1", "F1", accession="A1", what="CT Body")
    await hospital.send(order_message(changed, sent=3))
    assert await hospital.descriptions() == {}
    (row,) = (await hospital.client.worklist(SITE, accession="A1")).items
    assert row["orders"][0]["StudyDescription"] == "CT Body"


async def test_a_cancellation_removes_it(hospital: Hospital) -> None:
    await hospital.send(order_message(new_order(), sent=1))
    await hospital.send(order_message(status_group("SC", "F"), sent=2))
    await hospital.send(order_message(order_group("CA", "P1", "F1", accession="A1"), sent=3))
    assert await listed(hospital, accession="A1") == set()
    assert state(hospital) == ["cancelled"]


async def test_a_cancelled_order_is_not_reported(hospital: Hospital) -> None:
    await hospital.send(order_message(new_order(), sent=1))
    await hospital.send(order_message(order_group("CA", "P1", "F1", accession="A1"), sent=2))
    await hospital.send(order_message(status_group("SC", "F"), sent=3))
    assert await listed(hospital, accession="A1") == set()
    assert hospital.last_message() == ("done", "order_cancelled")


async def test_a_held_order_is_visible_again_as_reported(hospital: Hospital) -> None:
    await hospital.send(order_message(new_order(), sent=1))
    await hospital.send(order_message(order_group("HD", "P1", "F1", accession="A1"), sent=2))
    await hospital.send(order_message(status_group("SC", "F"), sent=3))
    assert await hospital.descriptions() == {}
    assert await listed(hospital, accession="A1") == {"A1"}


async def test_one_of_two_orders_of_a_report(hospital: Hospital) -> None:
    """The report is read until all its orders are reported elsewhere."""
    await hospital.send(order_message(new_order("1"), new_order("2"), sent=1))
    assert (await hospital.report("A1")) == (await hospital.report("A2"))
    await hospital.send(order_message(status_group("SC", "F", number="1"), sent=2))
    assert set(await hospital.descriptions()) == {"A1", "A2"}
    assert await marks(hospital, "A2") == ["F"]
    await hospital.send(order_message(status_group("SC", "F", number="2"), sent=3))
    assert await hospital.descriptions() == {}


async def test_a_reader_reads_it_anyway(hospital: Hospital) -> None:
    """It can be opened, read and signed; the result is what was written here."""
    await hospital.send(order_message(new_order(), sent=1))
    await hospital.send(order_message(status_group("SC", "F"), sent=2))
    await hospital.read_and_sign("A1", "Second opinion.")
    assert await hospital.client.content(A1) == "Second opinion."


async def test_cancelling_what_is_left_of_one_orc_with_two_obr(hospital: Hospital) -> None:
    """One ORC, two OBR with own accessions; one is cancelled by OBR, the other by ORC alone."""
    orc, obr = "ORC|{}|PG1|FG1||{}\r", "OBR|{0}|PG1|FG1|X^CT {0}^L||||||||||||||A{0}||||||CT\r"
    both = orc.format("NW", "SC") + obr.format(1) + obr.format(2)
    await hospital.send(order_message(both, sent=1))
    assert set(await hospital.descriptions()) == {"A1", "A2"}
    await hospital.send(order_message(orc.format("CA", "CA") + obr.format(2), sent=2))
    assert set(await hospital.descriptions()) == {"A1"}
    await hospital.send(order_message(orc.format("CA", "CA"), sent=3))
    assert await hospital.descriptions() == {}
    assert hospital.last_message() == ("done", "")
