"""Link and unlink orders: each rule of the interface document, and all or nothing."""

import pytest

from bridge.engine.errors import ReportNotFound, RuleBroken
from bridge.engine.rules.identity import OrderId
from bridge.engine.service.launch.first_text import write_first_text
from bridge.engine.service.report_lookup import lock_report
from bridge.engine.service.report_status import ReportStatusRecord
from bridge.engine.service.reports.deletion import reset_order
from bridge.engine.service.reports.linking import link_orders, unlink_orders
from bridge.engine.service.reports.patients import merge_patients
from bridge.engine.service.signing.prelims import prelim
from bridge.engine.service.signing.sign import sign
from bridge.engine.service.worklist.assignment import open_for, unassign
from tests.bridge.engine.service.ward import Ward


def accessions(record: ReportStatusRecord) -> list[str]:
    """Return the accessions of a record, anchor first."""
    return [each.accession for each in record.orders]


def refused(ward: Ward, *orders: OrderId) -> tuple[str, str]:
    """Link, expect a refusal with 400, return its code and place; nothing may have changed."""
    before = len(ward.changes())
    with pytest.raises(RuleBroken) as error:
        ward.do(link_orders, list(orders))
    assert error.value.status == 400
    assert len(ward.changes()) == before
    return error.value.code, error.value.pointer


def test_linking_moves_the_orders_to_the_anchors_report(ward: Ward) -> None:
    """The others' accessions are added to the anchor's report, their own reports are removed."""
    orders = [ward.order(each) for each in ("A1", "A2", "A3")]
    anchor = ward.record(orders[0]).report_id

    (record,) = ward.do(link_orders, [orders[0], orders[2], orders[1]])

    assert record.report_id == anchor
    assert accessions(record) == ["A1", "A3", "A2"]
    assert {ward.record(each).report_id for each in orders} == {anchor}
    assert ward.events()[-1] == "orders_linked"
    assert len(ward.changes()[-1]["removed"]) == 2


def test_rule_1_the_anchor_may_be_a_draft_with_content(ward: Ward) -> None:
    """Rule 1: the anchor may be Ordered or Draft."""
    anchor, other = ward.draft("A1"), ward.order("A2")

    (record,) = ward.do(link_orders, [anchor, other])

    assert (record.status, accessions(record)) == ("Draft", ["A1", "A2"])
    assert ward.content(other) == "Clear lungs."


def test_rule_1_the_anchor_is_not_preliminary(ward: Ward) -> None:
    """Rule 1: a Preliminary anchor is refused."""
    anchor, other = ward.draft("A1"), ward.order("A2")
    ward.do(prelim, anchor, "G", "T")

    assert refused(ward, anchor, other) == ("anchor_not_ordered_or_draft", "/clinicalInfo/0")


def test_rule_2_signed_reports_cannot_be_linked(ward: Ward) -> None:
    """Rule 2: signed reports, including the anchor, cannot be linked."""
    signed, other = ward.draft("A1"), ward.order("A2")
    ward.do(sign, signed)

    assert refused(ward, signed, other) == ("report_signed", "/clinicalInfo/0")
    assert refused(ward, other, signed) == ("report_signed", "/clinicalInfo/1")


def test_rule_3_the_anchor_is_no_member_of_another_group(ward: Ward) -> None:
    """Rule 3: the anchor cannot be a non-anchor member of another group."""
    orders = [ward.order(each) for each in ("A1", "A2", "A3")]
    ward.do(link_orders, orders[:2])

    assert refused(ward, orders[1], orders[2]) == ("anchor_in_another_group", "/clinicalInfo/0")


def test_rule_4_a_group_comes_along_whole(ward: Ward) -> None:
    """Rule 4: linking an order already in a group brings the whole group along."""
    orders = [ward.order(each) for each in ("A1", "A2", "A3", "A4")]
    ward.do(link_orders, orders[1:3])
    ward.do(link_orders, [orders[1], orders[3]])

    (record,) = ward.do(link_orders, [orders[0], orders[3]])

    assert accessions(record) == ["A1", "A2", "A3", "A4"]


@pytest.mark.parametrize(
    ("name", "born", "linked"),
    [
        ("Example Ada", "1970-01-02", True),
        ("EXAMPLE^ADA^^", "19700102", True),
        ("EXAMPLE^EVE", "19700102", False),
        ("EXAMPLE^ADA", "19700103", False),
        ("", "19700102", False),
        ("EXAMPLE^ADA", "", False),
    ],
)
def test_rule_5_other_patients(ward: Ward, name: str, born: str, linked: bool) -> None:
    """Rule 5: different PatientMRN only when PatientName and PatientBirthDate match."""
    one = ward.order("A1")
    two = ward.order("A2", mrn="M2", PatientName=name, PatientBirthDate=born)

    if linked:
        assert len(ward.do(link_orders, [one, two])[0].orders) == 2
    else:
        assert refused(ward, one, two) == ("patients_differ", "/clinicalInfo/1")


def test_rule_5_one_patient_needs_no_match(ward: Ward) -> None:
    """Rule 5 asks nothing of orders with one PatientMRN."""
    one = ward.order("A1", PatientBirthDate="")
    two = ward.order("A2", PatientName="", PatientBirthDate="")

    assert len(ward.do(link_orders, [one, two])[0].orders) == 2


def test_rule_6_all_or_nothing(ward: Ward) -> None:
    """Rule 6: if any order fails, none is linked; an unknown one is 404."""
    one, two, three = ward.order("A1"), ward.order("A2"), ward.draft("A3")

    assert refused(ward, one, two, three) == ("order_not_ordered", "/clinicalInfo/2")
    with pytest.raises(ReportNotFound) as missing:
        ward.do(link_orders, [one, two, ward.identity("NOWHERE")])

    assert missing.value.pointer == "/clinicalInfo/2"
    assert len(ward.record(one).orders) == len(ward.record(two).orders) == 1


def test_rule_7_drafts_and_unassigned_orders_are_reset_first(ward: Ward) -> None:
    """Rule 7: Draft orders other than the anchor, and unassigned orders, must first be reset."""
    one, two = ward.order("A1"), ward.order("A2")
    ward.on_report(two, open_for, ward.ann)
    assert refused(ward, one, two) == ("order_not_ordered", "/clinicalInfo/1")
    with ward.work() as work:
        write_first_text(work, lock_report(work, two).report, "some text")
    ward.do(unassign, two)
    assert refused(ward, one, two) == ("order_has_content", "/clinicalInfo/1")
    assert refused(ward, two, one) == ("anchor_has_content", "/clinicalInfo/0")

    ward.do(reset_order, two)

    assert len(ward.do(link_orders, [two, one])[0].orders) == 2


def test_rule_8_linked_already(ward: Ward) -> None:
    """Rule 8: if all share one report, nothing changes and that report is returned, signed too."""
    one, two = ward.draft("A1"), ward.order("A2")
    ward.do(link_orders, [one, two])
    ward.do(sign, one)
    before = len(ward.changes())

    (record,) = ward.do(link_orders, [two, one])

    assert accessions(record) == ["A1", "A2"]
    assert len(ward.changes()) == before


def test_fewer_than_two_different_orders(ward: Ward) -> None:
    """Minimum 2: repeats and two names of one merged patient's order count once."""
    one = ward.order("A1", mrn="OLD")
    ward.do(merge_patients, "SITE1", "M1", "OLD")

    assert refused(ward, one, one) == ("too_few_orders", "/clinicalInfo")
    assert refused(ward, one, ward.identity("A1")) == ("too_few_orders", "/clinicalInfo")


def group(ward: Ward, *names: str) -> list[OrderId]:
    """Link new orders."""
    orders = [ward.order(name) for name in names]
    ward.do(link_orders, orders)
    return orders


def test_unlinking_makes_a_new_empty_ordered_report(ward: Ward) -> None:
    """Each removed order returns as a new empty Ordered report; the others keep theirs."""
    orders = group(ward, "A1", "A2", "A3")
    old = ward.record(orders[0]).report_id

    surviving, removed = ward.do(unlink_orders, [orders[1]])

    assert (surviving.report_id, accessions(surviving)) == (old, ["A1", "A3"])
    assert accessions(removed) == ["A2"]
    assert removed.report_id != old
    assert (removed.status, removed.has_content, removed.user_email) == ("Ordered", False, "")


def test_unlinking_the_anchor(ward: Ward) -> None:
    """If the anchor is removed, the earliest-linked remaining order becomes anchor."""
    orders = group(ward, "A1", "A3", "A2")
    old = ward.record(orders[0]).report_id

    surviving, removed = ward.do(unlink_orders, [orders[0]])

    assert (surviving.report_id, accessions(surviving)) == (old, ["A3", "A2"])
    assert accessions(removed) == ["A1"]
    (record,) = ward.do(link_orders, [ward.identity("A3"), ward.identity("A1")])
    assert accessions(record) == ["A3", "A2", "A1"]


def test_unlinking_all(ward: Ward) -> None:
    """V62h: when all are removed, each gets a new report and the old id is gone."""
    orders = group(ward, "A1", "A2")
    old = ward.record(orders[0]).report_id

    records = ward.do(unlink_orders, [orders[1], orders[0]])

    assert [accessions(each) for each in records] == [["A2"], ["A1"]]
    assert old not in {each.report_id for each in records}


def test_unlinking_leaves_ungrouped_orders_untouched(ward: Ward) -> None:
    """Reports of requested orders that were not in a group are returned, whatever their status."""
    orders = group(ward, "A1", "A2", "A3")
    alone = ward.draft("A9")
    ward.do(sign, alone)

    records = ward.do(unlink_orders, [alone, orders[2], orders[1]])

    assert [accessions(each) for each in records] == [["A1"], ["A3"], ["A2"], ["A9"]]


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("Draft", "group_not_ordered"),
        ("Ordered", "group_has_content"),
        ("Final", "report_signed"),
    ],
)
def test_a_group_that_was_begun_stays_together(ward: Ward, state: str, code: str) -> None:
    """Rule 1: a group can be unlinked only while Ordered and empty; rule 2: all or nothing."""
    good = group(ward, "B1", "B2")
    anchor, other = ward.draft("A1"), ward.order("A2")
    ward.do(link_orders, [anchor, other])
    if state == "Ordered":
        ward.do(unassign, anchor)
    if state == "Final":
        ward.do(sign, anchor)

    with pytest.raises(RuleBroken) as error:
        ward.do(unlink_orders, [good[1], other])

    assert (error.value.code, error.value.pointer) == (code, "/clinicalInfo/1")
    assert len(ward.record(good[0]).orders) == 2


def test_a_reset_group_can_be_unlinked(ward: Ward) -> None:
    """V62b: the whole group is reset and stays linked; then it can be taken apart."""
    orders = group(ward, "A1", "A2")
    ward.on_report(orders[1], open_for, ward.ann)

    ward.do(reset_order, orders[1])

    assert len(ward.record(orders[0]).orders) == 2
    assert len(ward.do(unlink_orders, orders)) == 2
