"""Patient update and merge over all reports of a site."""

import pytest
from sqlmodel import select

from bridge.engine.errors import MergeConflict, RuleBroken
from bridge.engine.records.tables import PatientPointer, Site
from bridge.engine.service.launch.creation import OrderInput
from bridge.engine.service.report_lookup import REFUSE_MERGED, lock_report
from bridge.engine.service.reports.patients import merge_patients, update_patient
from bridge.engine.service.signing.sign import sign
from tests.bridge.engine.registrations import register
from tests.bridge.engine.service.harness import SITE, ServiceHarness


def test_update_changes_all_orders_of_the_patient(harness: ServiceHarness) -> None:
    """Signed orders change too; their text and hash stay. A repeated update changes nothing."""
    signed, ordered, other = harness.draft("A1"), harness.order("A2"), harness.order("A3", mrn="M2")
    harness.do(sign, signed)
    with harness.work() as work:
        fingerprint = lock_report(work, signed).report.content_hash

    assert (
        harness.do(update_patient, SITE, "M1", {"PatientName": "EXAMPLE^ADA^B", "Notes": "x"}) == 2
    )
    assert harness.do(update_patient, SITE, "M1", {"PatientName": "EXAMPLE^ADA^B"}) == 0

    with harness.work() as work:
        names = {
            each.accession: lock_report(work, each).order.tags["PatientName"]
            for each in (signed, ordered, other)
        }
        assert names == {"A1": "EXAMPLE^ADA^B", "A2": "EXAMPLE^ADA^B", "A3": "EXAMPLE^ADA"}
        assert lock_report(work, signed).report.content_hash == fingerprint
        assert "Notes" not in lock_report(work, ordered).order.tags
    assert harness.events()[-2:] == ["patient_updated", "patient_updated"]
    assert harness.releases() == [("final", 1)]


def test_merge_moves_the_orders_to_the_survivor(harness: ServiceHarness) -> None:
    """They get its MRN and demographics, and the prior MRN still finds them."""
    harness.order("A1")
    harness.order("B1", mrn="OLD", PatientName="EXAMPLE^A")

    assert harness.do(merge_patients, SITE, "M1", "OLD") == 1
    assert harness.do(merge_patients, SITE, "M1", "OLD") == 0

    record = harness.record(harness.identity("B1", "OLD"))
    assert [(each.mrn, each.accession) for each in record.orders] == [("M1", "B1")]
    assert harness.changes()[-1]["orders"][0]["PatientName"] == "EXAMPLE^ADA"
    done = harness.do(register, SITE, OrderInput("OLD", "B1", tags={"Modality": "CT"}))
    assert done.report_id == record.report_id


def test_merges_never_chain(harness: ServiceHarness) -> None:
    """A into B, then B into C: both point to C; C into A is refused as a cycle."""
    harness.order("A1", mrn="A")

    harness.do(merge_patients, SITE, "B", "A")
    harness.do(merge_patients, SITE, "C", "B")

    with harness.work() as work:
        pointers = {row.prior_mrn: row.mrn for row in work.session.exec(select(PatientPointer))}
    assert pointers == {"A": "C", "B": "C"}
    assert harness.record(harness.identity("A1", "A")).orders[0].mrn == "C"
    with pytest.raises(RuleBroken) as cycle:
        harness.do(merge_patients, SITE, "A", "C")
    assert cycle.value.code == "merge_cycle"
    with pytest.raises(RuleBroken) as other:
        harness.do(merge_patients, SITE, "D", "A")
    assert other.value.code == "merged_elsewhere"
    with pytest.raises(RuleBroken) as same:
        harness.do(merge_patients, SITE, "D", "D")
    assert same.value.code == "same_patient"


def test_a_merge_of_patients_with_the_same_accession(harness: ServiceHarness) -> None:
    """The report with content replaces the empty order; two reports with content are refused."""
    harness.order("A1")
    harness.draft("A1", mrn="OLD", text="begun")
    harness.draft("A2")
    harness.order("A2", mrn="OLD")

    harness.do(merge_patients, SITE, "M1", "OLD")

    assert harness.content(harness.identity("A1")) == "begun"
    assert harness.content(harness.identity("A2")) == "Clear lungs."
    harness.draft("C1", mrn="X")
    harness.draft("C1")
    with pytest.raises(MergeConflict):
        harness.do(merge_patients, SITE, "M1", "X")
    assert harness.record(harness.identity("C1", "X")).orders[0].mrn == "X"


def test_a_site_may_refuse_merged_identifiers(harness: ServiceHarness) -> None:
    """Site policy: a prior identifier is refused instead of resolved."""
    harness.order("A1", mrn="OLD")
    harness.do(merge_patients, SITE, "M1", "OLD")
    with harness.work() as work:
        site = work.session.get(Site, SITE)
        assert site is not None
        site.settings = {REFUSE_MERGED: True}

    with pytest.raises(RuleBroken) as refused:
        harness.record(harness.identity("A1", "OLD"))

    assert refused.value.code == "identifier_merged"
    assert harness.record(harness.identity("A1")).status == "Ordered"
