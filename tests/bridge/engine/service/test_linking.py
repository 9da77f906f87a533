"""Link and unlink orders: each rule of the interface document, and all or nothing."""

import pytest

from bridge.engine.errors import ReportNotFound, RuleBroken
from bridge.engine.rules.order import OrderId
from bridge.engine.service.launch.creation import write_first_text
from bridge.engine.service.launch.report_updates import open_for, unassign
from bridge.engine.service.report_lookup import lock_report
from bridge.engine.service.report_status import ReportStatusRecord
from bridge.engine.service.reports.deletion import reset_order
from bridge.engine.service.reports.linking import link_orders, unlink_orders
from bridge.engine.service.reports.patients import merge_patients
from bridge.engine.service.signing.prelims import prelim
from bridge.engine.service.signing.sign import sign
from tests.bridge.engine.service.harness import ServiceHarness


def accessions(record: ReportStatusRecord) -> list[str]:
    """Return the accessions of a record, anchor first."""
    return [each.accession for each in record.orders]


def refused(harness: ServiceHarness, *orders: OrderId) -> tuple[str, str]:
    """Link and expect a refusal with 400 that changes nothing; return its code and place."""
    before = len(harness.changes())
    with pytest.raises(RuleBroken) as error:
        harness.do(link_orders, list(orders))
    assert error.value.status == 400
    assert len(harness.changes()) == before
    return error.value.code, error.value.pointer


def test_linking_moves_the_orders_to_the_anchors_report(harness: ServiceHarness) -> None:
    """The other accessions are added to the anchor's report; their own reports are removed."""
    orders = [harness.order(each) for each in ("A1", "A2", "A3")]
    anchor = harness.record(orders[0]).report_id

    (record,) = harness.do(link_orders, [orders[0], orders[2], orders[1]])

    assert record.report_id == anchor
    assert accessions(record) == ["A1", "A3", "A2"]
    assert {harness.record(each).report_id for each in orders} == {anchor}
    assert harness.events()[-1] == "orders_linked"
    assert len(harness.changes()[-1]["removed"]) == 2


def test_rule_1_the_anchor_may_be_a_draft_with_content(harness: ServiceHarness) -> None:
    """Rule 1: the anchor may be Ordered or Draft."""
    anchor, other = harness.draft("A1"), harness.order("A2")

    (record,) = harness.do(link_orders, [anchor, other])

    assert (record.status, accessions(record)) == ("Draft", ["A1", "A2"])
    assert harness.content(other) == "Clear lungs."


def test_rule_1_the_anchor_is_not_preliminary(harness: ServiceHarness) -> None:
    """Rule 1: a Preliminary anchor is refused."""
    anchor, other = harness.draft("A1"), harness.order("A2")
    harness.do(prelim, anchor, "G", "T")

    assert refused(harness, anchor, other) == ("anchor_not_ordered_or_draft", "/clinicalInfo/0")


def test_rule_2_signed_reports_cannot_be_linked(harness: ServiceHarness) -> None:
    """Rule 2: signed reports, including the anchor, cannot be linked."""
    signed, other = harness.draft("A1"), harness.order("A2")
    harness.do(sign, signed)

    assert refused(harness, signed, other) == ("report_signed", "/clinicalInfo/0")
    assert refused(harness, other, signed) == ("report_signed", "/clinicalInfo/1")


def test_rule_3_the_anchor_is_no_member_of_another_group(harness: ServiceHarness) -> None:
    """Rule 3: the anchor cannot be a non-anchor member of another group."""
    orders = [harness.order(each) for each in ("A1", "A2", "A3")]
    harness.do(link_orders, orders[:2])

    assert refused(harness, orders[1], orders[2]) == ("anchor_in_another_group", "/clinicalInfo/0")


def test_rule_4_a_group_is_linked_as_a_whole(harness: ServiceHarness) -> None:
    """Rule 4: linking one order of a group links all of its orders."""
    orders = [harness.order(each) for each in ("A1", "A2", "A3", "A4")]
    harness.do(link_orders, orders[1:3])
    harness.do(link_orders, [orders[1], orders[3]])

    (record,) = harness.do(link_orders, [orders[0], orders[3]])

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
def test_rule_5_other_patients(harness: ServiceHarness, name: str, born: str, linked: bool) -> None:
    """Rule 5: different PatientMRN only when PatientName and PatientBirthDate match."""
    one = harness.order("A1")
    two = harness.order("A2", mrn="M2", PatientName=name, PatientBirthDate=born)

    if linked:
        assert len(harness.do(link_orders, [one, two])[0].orders) == 2
    else:
        assert refused(harness, one, two) == ("patients_differ", "/clinicalInfo/1")


def test_rule_5_one_patient_needs_no_match(harness: ServiceHarness) -> None:
    """Rule 5 does not apply to orders with the same PatientMRN."""
    one = harness.order("A1", PatientBirthDate="")
    two = harness.order("A2", PatientName="", PatientBirthDate="")

    assert len(harness.do(link_orders, [one, two])[0].orders) == 2


def test_rule_6_all_or_nothing(harness: ServiceHarness) -> None:
    """Rule 6: if any order fails, none is linked; an unknown one is 404."""
    one, two, three = harness.order("A1"), harness.order("A2"), harness.draft("A3")

    assert refused(harness, one, two, three) == ("order_not_ordered", "/clinicalInfo/2")
    with pytest.raises(ReportNotFound) as missing:
        harness.do(link_orders, [one, two, harness.identity("NOWHERE")])

    assert missing.value.pointer == "/clinicalInfo/2"
    assert len(harness.record(one).orders) == len(harness.record(two).orders) == 1


def test_rule_7_drafts_and_unassigned_orders_are_reset_first(harness: ServiceHarness) -> None:
    """Rule 7: Draft orders other than the anchor, and unassigned orders, must first be reset."""
    one, two = harness.order("A1"), harness.order("A2")
    harness.on_report(two, open_for, harness.ann)
    assert refused(harness, one, two) == ("order_not_ordered", "/clinicalInfo/1")
    with harness.work() as work:
        write_first_text(work, lock_report(work, two).report, "some text")
    harness.do(unassign, two)
    assert refused(harness, one, two) == ("order_has_content", "/clinicalInfo/1")
    assert refused(harness, two, one) == ("anchor_has_content", "/clinicalInfo/0")

    harness.do(reset_order, two)

    assert len(harness.do(link_orders, [two, one])[0].orders) == 2


def test_rule_8_linked_already(harness: ServiceHarness) -> None:
    """Rule 8: if all share one report, nothing changes and that report is returned, signed too."""
    one, two = harness.draft("A1"), harness.order("A2")
    harness.do(link_orders, [one, two])
    harness.do(sign, one)
    before = len(harness.changes())

    (record,) = harness.do(link_orders, [two, one])

    assert accessions(record) == ["A1", "A2"]
    assert len(harness.changes()) == before


def test_fewer_than_two_different_orders(harness: ServiceHarness) -> None:
    """Repeated orders, and two identifiers of a merged patient's order, count once."""
    one = harness.order("A1", mrn="OLD")
    harness.do(merge_patients, "SITE1", "M1", "OLD")

    assert refused(harness, one, one) == ("too_few_orders", "/clinicalInfo")
    assert refused(harness, one, harness.identity("A1")) == ("too_few_orders", "/clinicalInfo")


def group(harness: ServiceHarness, *names: str) -> list[OrderId]:
    """Link new orders."""
    orders = [harness.order(name) for name in names]
    harness.do(link_orders, orders)
    return orders


def test_unlinking_makes_a_new_empty_ordered_report(harness: ServiceHarness) -> None:
    """Each removed order returns as a new empty Ordered report; the others keep theirs."""
    orders = group(harness, "A1", "A2", "A3")
    old = harness.record(orders[0]).report_id

    surviving, removed = harness.do(unlink_orders, [orders[1]])

    assert (surviving.report_id, accessions(surviving)) == (old, ["A1", "A3"])
    assert accessions(removed) == ["A2"]
    assert removed.report_id != old
    assert (removed.status, removed.has_content, removed.user_email) == ("Ordered", False, "")


def test_unlinking_the_anchor(harness: ServiceHarness) -> None:
    """If the anchor is removed, the earliest-linked remaining order becomes anchor."""
    orders = group(harness, "A1", "A3", "A2")
    old = harness.record(orders[0]).report_id

    surviving, removed = harness.do(unlink_orders, [orders[0]])

    assert (surviving.report_id, accessions(surviving)) == (old, ["A3", "A2"])
    assert accessions(removed) == ["A1"]
    (record,) = harness.do(link_orders, [harness.identity("A3"), harness.identity("A1")])
    assert accessions(record) == ["A3", "A2", "A1"]


def test_unlinking_all(harness: ServiceHarness) -> None:
    """V62h: when all are removed, each gets a new report and the old id is gone."""
    orders = group(harness, "A1", "A2")
    old = harness.record(orders[0]).report_id

    records = harness.do(unlink_orders, [orders[1], orders[0]])

    assert [accessions(each) for each in records] == [["A2"], ["A1"]]
    assert old not in {each.report_id for each in records}


def test_unlinking_leaves_ungrouped_orders_untouched(harness: ServiceHarness) -> None:
    """Reports of requested orders that were not in a group are returned, whatever their status."""
    orders = group(harness, "A1", "A2", "A3")
    alone = harness.draft("A9")
    harness.do(sign, alone)

    records = harness.do(unlink_orders, [alone, orders[2], orders[1]])

    assert [accessions(each) for each in records] == [["A1"], ["A3"], ["A2"], ["A9"]]


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("Draft", "group_not_ordered"),
        ("Ordered", "group_has_content"),
        ("Final", "report_signed"),
    ],
)
def test_a_group_with_content_cannot_be_unlinked(
    harness: ServiceHarness, state: str, code: str
) -> None:
    """Rule 1: a group can be unlinked only while Ordered and empty; rule 2: all or nothing."""
    good = group(harness, "B1", "B2")
    anchor, other = harness.draft("A1"), harness.order("A2")
    harness.do(link_orders, [anchor, other])
    if state == "Ordered":
        harness.do(unassign, anchor)
    if state == "Final":
        harness.do(sign, anchor)

    with pytest.raises(RuleBroken) as error:
        harness.do(unlink_orders, [good[1], other])

    assert (error.value.code, error.value.pointer) == (code, "/clinicalInfo/1")
    assert len(harness.record(good[0]).orders) == 2


def test_a_reset_group_can_be_unlinked(harness: ServiceHarness) -> None:
    """V62b: reset applies to the whole group and keeps it linked; then it can be unlinked."""
    orders = group(harness, "A1", "A2")
    harness.on_report(orders[1], open_for, harness.ann)

    harness.do(reset_order, orders[1])

    assert len(harness.record(orders[0]).orders) == 2
    assert len(harness.do(unlink_orders, orders)) == 2
