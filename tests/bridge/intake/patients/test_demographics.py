"""Demographics of orders and corrections in any order of arrival."""

from typing import Any

import pytest

from tests.bridge.delivery.fixtures import SITE
from tests.bridge.delivery.whole_bridge import Hospital
from tests.bridge.intake.messages import adt, order_group, order_message

OLD, NEW = "TESTER^TILDA", "BETTER^TILDA"
AFTER = 300  # minutes of the day, after the noon of `adt`


async def listed(hospital: Hospital, tag: str = "PatientName") -> dict[str, Any]:
    """Return a tag of the patient by accession on the worklist. No message may be parked."""
    assert not hospital.rows("SELECT id FROM message WHERE state = 'parked'")
    rows = (await hospital.client.worklist(SITE)).items
    orders = [order for row in rows for order in row["orders"]]
    return {order["Accession"]: order.get(tag) for order in orders}


async def test_an_order_without_a_name_keeps_the_corrected_one(hospital: Hospital) -> None:
    """A change without demographics does not restore old values."""
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
    await hospital.send(adt("A08", "M1", name=NEW).replace(b"19700101", b"19800101"))
    change = order_message(order_group("XO", "P1", "F1"), sent=AFTER, name="").replace(
        b"19700101", b""
    )
    await hospital.send(change)
    assert await listed(hospital) == {"F1": NEW}
    assert await listed(hospital, "PatientBirthDate") == {"F1": "19800101"}


async def test_a_held_order_is_corrected_too(hospital: Hospital) -> None:
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
    await hospital.send(order_message(order_group("HD", "P1", "F1"), sent=2))
    await hospital.send(adt("A08", "M1", name=NEW))
    await hospital.send(order_message(order_group("RL", "P1", "F1"), sent=AFTER, name=""))
    assert await listed(hospital) == {"F1": NEW}


@pytest.mark.parametrize("control", ["NW", "XO"])
async def test_an_order_sent_before_the_correction(hospital: Hospital, control: str) -> None:
    """An order that arrives later with the old name gets the new one."""
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
    await hospital.send(adt("A08", "M1", name=NEW))
    other = "1" if control == "XO" else "2"
    await hospital.send(order_message(order_group(control, "P" + other, "F" + other), sent=2))
    assert set((await listed(hospital)).values()) == {NEW}


async def test_a_correction_that_was_overtaken(hospital: Hospital) -> None:
    """Of two corrections the one sent later counts."""
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
    await hospital.send(adt("A08", "M1", name=NEW))
    late = adt("A31", "M1", name="OLDER^TILDA")
    await hospital.send(late.replace(b"20261121120000", b"20261121110000"))
    assert await listed(hospital) == {"F1": NEW}


async def test_pid_of_a_merge_is_the_survivor(hospital: Hospital) -> None:
    """PID of a merge is the survivor: the next order under the number has the same patient."""
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
    await hospital.send(adt("A40", "M2", "M1", name=NEW))
    await hospital.send(
        order_message(order_group("NW", "P2", "F2"), mrn="M2", sent=AFTER, name=NEW)
    )
    await hospital.send(order_message(order_group("XO", "P1", "F1"), mrn="M2", sent=AFTER, name=""))
    assert await listed(hospital) == {"F1": NEW, "F2": NEW}


async def test_a_null_deletes(hospital: Hospital) -> None:
    """`""` in a correction deletes a value, except the name."""
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
    null = adt("A08", "M1", name='""').replace(b"19700101", b'""')
    await hospital.send(null)
    assert await listed(hospital) == {"F1": OLD}
    assert await listed(hospital, "PatientBirthDate") == {"F1": None}
    await hospital.send(
        order_message(order_group("XO", "P1", "F1"), sent=AFTER).replace(b"19700101", b"")
    )
    assert await listed(hospital, "PatientBirthDate") == {"F1": None}


async def test_identifier_of_a_moved_order(
    hospital: Hospital,
) -> None:
    """Results have the authority and type of the survivor's number. Other fields stay."""
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
    merge = adt("A40", "M2^^^MAIN&1.2.3&ISO^MR~77^^^GOV^NI", "M1")
    await hospital.send(merge)
    ((echo,),) = hospital.rows("SELECT echo FROM bridge_order")
    assert "PID|1||M2^^^MAIN&1.2.3&ISO^MR~77^^^GOV^NI||TESTER^TILDA||19700101" in echo


async def test_an_order_without_a_name(hospital: Hospital) -> None:
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
    await hospital.send(adt("A08", "M1", name=NEW))
    await hospital.send(order_message(order_group("NW", "P2", "F2"), sent=AFTER, name=""))
    assert await listed(hospital) == {"F1": NEW, "F2": NEW}


@pytest.mark.parametrize("merge", [False, True])
async def test_an_order_with_the_new_name_waits_for_the_correction(
    hospital: Hospital, *, merge: bool
) -> None:
    """The order is parked while the service has another name, and applied after the correction."""
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
    await hospital.send(order_message(order_group("NW", "P2", "F2"), sent=AFTER, name=NEW))
    assert hospital.states() == {"done", "parked"}
    if merge:
        await hospital.send(adt("A40", "M3", "M1", name=NEW))
        assert await listed(hospital) == {"F1": NEW, "F2": NEW}
        return
    await hospital.send(adt("A08", "M2", name=NEW))
    await hospital.send(adt("A08", "M1"))
    assert hospital.states() == {"done", "parked"}
    await hospital.send(adt("A31", "M1", name=NEW))
    assert await listed(hospital) == {"F1": NEW, "F2": NEW}


@pytest.mark.parametrize("merge", [False, True])
async def test_a_correction_without_news_releases_no_order(
    hospital: Hospital, *, merge: bool
) -> None:
    """A correction with the known name does not release an order of another person."""
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
    await hospital.send(order_message(order_group("NW", "P2", "F2"), sent=2, name="OTHER^OLGA"))
    assert hospital.states() == {"done", "parked"}
    await hospital.send(adt("A47", "M2", "M1") if merge else adt("A01", "M1"))
    assert hospital.states() == {"done", "parked"}
    await hospital.send(order_message(order_group("NW", "P3", "F3"), sent=3, name="OTHER^OLGA"))
    rows = (await hospital.client.worklist(SITE)).items
    assert [order["Accession"] for row in rows for order in row["orders"]] == ["F1"]


async def test_a_middle_name_is_a_spelling_variant(hospital: Hospital) -> None:
    """An order with a middle name is applied with the known name. A correction changes nothing."""
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
    await hospital.send(order_message(order_group("NW", "P2", "F2"), sent=2, name=OLD + "^T"))
    assert await listed(hospital) == {"F1": OLD, "F2": OLD}
    await hospital.send(adt("A08", "M1"))
    assert await listed(hospital) == {"F1": OLD, "F2": OLD}


async def test_a_parked_order_of_a_merged_patient(hospital: Hospital) -> None:
    """The correction has the survivor's number, the order the merged one."""
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
    await hospital.send(adt("A40", "M2", "M1"))
    await hospital.send(order_message(order_group("NW", "P2", "F2"), sent=AFTER, name=NEW))
    assert hospital.states() == {"done", "parked"}
    await hospital.send(adt("A08", "M2", name=NEW))
    assert await listed(hospital) == {"F1": NEW, "F2": NEW}


@pytest.mark.parametrize("sent", [2, None])
async def test_a_cancel_of_a_parked_order(hospital: Hospital, *, sent: int | None) -> None:
    """A cancel that arrives after a parked order cancels it, whatever the times."""
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
    await hospital.send(order_message(order_group("NW", "P2", "F2"), sent=sent, name=NEW))
    await hospital.send(order_message(order_group("CA", "P2", "F2"), sent=sent, name=NEW))
    await hospital.send(adt("A08", "M1", name=NEW))
    assert await listed(hospital) == {"F1": NEW}


@pytest.mark.parametrize("event", ["A08", "A28"])
async def test_a_correction_before_the_first_order(hospital: Hospital, event: str) -> None:
    """A correction before the first order corrects that order, which has the old name."""
    await hospital.send(adt(event, "M1", name=NEW))
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=2))
    assert await listed(hospital) == {"F1": NEW}


async def test_orders_that_a_merge_brings_are_corrected(hospital: Hospital) -> None:
    """The survivor was corrected after the merge was sent, and before it arrived."""
    await hospital.send(adt("A08", "M2", name=NEW))
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
    late = adt("A40", "M2", "M1").replace(b"20261121120000", b"20261121110000")
    await hospital.send(late)
    assert await listed(hospital) == {"F1": NEW}


async def test_an_order_with_the_old_number_and_name(hospital: Hospital) -> None:
    """An order with the old number and name is the survivor's, with the survivor's name."""
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=1))
    await hospital.send(adt("A40", "M2", "M1", name=NEW))
    await hospital.send(order_message(order_group("NW", "P2", "F2"), sent=AFTER))
    assert await listed(hospital) == {"F1": NEW, "F2": NEW}


async def test_a_merge_into_a_merged_patient(hospital: Hospital) -> None:
    """The merge has no demographics of the final survivor."""
    await hospital.send(order_message(order_group("NW", "P1", "F1"), mrn="M3", name=NEW, sent=1))
    await hospital.send(adt("A40", "M3", f"M2||||||{OLD}", name=NEW))
    late = adt("A40", "M2", "M1", name=OLD).replace(b"20261121120000", b"20261121110000")
    await hospital.send(late)
    await hospital.send(order_message(order_group("NW", "P2", "F2"), mrn="M1", name=OLD, sent=1))
    assert await listed(hospital) == {"F1": NEW, "F2": NEW}


async def test_the_name_before_a_merge_is_that_of_mrg_7(hospital: Hospital) -> None:
    """An order with the name of MRG-7 is the survivor's. With any other name it is parked."""
    await hospital.send(order_message(order_group("NW", "P1", "F1"), mrn="M2", name=NEW, sent=1))
    await hospital.send(adt("A40", "M2", f"M1||||||{OLD}", name=NEW))
    await hospital.send(order_message(order_group("NW", "P2", "F2"), sent=AFTER))
    assert await listed(hospital) == {"F1": NEW, "F2": NEW}
    await hospital.send(order_message(order_group("NW", "P3", "F3"), name="OTHER^OLGA", sent=AFTER))
    assert hospital.states() == {"done", "parked"}


async def test_a_date_of_birth_under_a_merged_identifier(hospital: Hospital) -> None:
    """A sender that does not know the merge does not know the later correction either."""
    await hospital.send(adt("A40", "M2", "M1"))
    right = adt("A08", "M2").replace(b"19700101", b"19800101")
    await hospital.send(right.replace(b"20261121120000", b"20261121123000"))
    await hospital.send(order_message(order_group("NW", "P1", "F1"), sent=AFTER))
    assert await listed(hospital, "PatientBirthDate") == {"F1": "19800101"}
