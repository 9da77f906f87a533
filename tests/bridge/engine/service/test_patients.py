"""Patient update and merge over all reports of a site."""

import pytest
from sqlmodel import select

from bridge.engine.errors import MergeConflict, RuleBroken
from bridge.engine.records.tables import PatientPointer, Site
from bridge.engine.service.launch.creation import OrderInput
from bridge.engine.service.launch.registration import register
from bridge.engine.service.report_lookup import REFUSE_MERGED, lock_report
from bridge.engine.service.reports.patients import merge_patients, update_patient
from bridge.engine.service.signing.sign import sign
from tests.bridge.engine.service.ward import SITE, Ward


def test_update_reaches_every_report_signed_ones_too(ward: Ward) -> None:
    """V12: all orders of the MRN; the signed text and its hash stay; repeated, nothing changes."""
    signed, ordered, other = ward.draft("A1"), ward.order("A2"), ward.order("A3", mrn="M2")
    ward.do(sign, signed)
    with ward.work() as work:
        fingerprint = lock_report(work, signed).report.content_hash

    assert ward.do(update_patient, SITE, "M1", {"PatientName": "EXAMPLE^ADA^B", "Notes": "x"}) == 2
    assert ward.do(update_patient, SITE, "M1", {"PatientName": "EXAMPLE^ADA^B"}) == 0

    with ward.work() as work:
        names = {
            each.accession: lock_report(work, each).order.tags["PatientName"]
            for each in (signed, ordered, other)
        }
        assert names == {"A1": "EXAMPLE^ADA^B", "A2": "EXAMPLE^ADA^B", "A3": "EXAMPLE^ADA"}
        assert lock_report(work, signed).report.content_hash == fingerprint
        assert "Notes" not in lock_report(work, ordered).order.tags
    assert ward.events()[-2:] == ["patient_updated", "patient_updated"]
    assert ward.releases() == [("final", 1)]


def test_merge_moves_the_orders_and_points_on(ward: Ward) -> None:
    """Orders move to the survivor's MRN and demographics; the prior MRN still leads to them."""
    ward.order("A1")
    ward.order("B1", mrn="OLD", PatientName="EXAMPLE^A")

    assert ward.do(merge_patients, SITE, "M1", "OLD") == 1
    assert ward.do(merge_patients, SITE, "M1", "OLD") == 0

    record = ward.record(ward.identity("B1", "OLD"))
    assert [(each.mrn, each.accession) for each in record.orders] == [("M1", "B1")]
    assert ward.changes()[-1]["orders"][0]["PatientName"] == "EXAMPLE^ADA"
    done = ward.do(register, SITE, OrderInput("OLD", "B1", tags={"Modality": "CT"}))
    assert done.report_id == record.report_id


def test_merges_never_chain(ward: Ward) -> None:
    """A into B, then B into C: both lead to C; C into A would be a circle."""
    ward.order("A1", mrn="A")

    ward.do(merge_patients, SITE, "B", "A")
    ward.do(merge_patients, SITE, "C", "B")

    with ward.work() as work:
        pointers = {row.prior_mrn: row.mrn for row in work.session.exec(select(PatientPointer))}
    assert pointers == {"A": "C", "B": "C"}
    assert ward.record(ward.identity("A1", "A")).orders[0].mrn == "C"
    with pytest.raises(RuleBroken) as circle:
        ward.do(merge_patients, SITE, "A", "C")
    assert circle.value.code == "merge_cycle"
    with pytest.raises(RuleBroken) as elsewhere:
        ward.do(merge_patients, SITE, "D", "A")
    assert elsewhere.value.code == "merged_elsewhere"
    with pytest.raises(RuleBroken) as same:
        ward.do(merge_patients, SITE, "D", "D")
    assert same.value.code == "same_patient"


def test_one_accession_of_both_patients(ward: Ward) -> None:
    """An unopened order gives way to the other's; of two begun reports nothing moves."""
    ward.order("A1")
    ward.draft("A1", mrn="OLD", text="begun")
    ward.draft("A2")
    ward.order("A2", mrn="OLD")

    ward.do(merge_patients, SITE, "M1", "OLD")

    assert ward.content(ward.identity("A1")) == "begun"
    assert ward.content(ward.identity("A2")) == "Clear lungs."
    ward.draft("C1", mrn="X")
    ward.draft("C1")
    with pytest.raises(MergeConflict):
        ward.do(merge_patients, SITE, "M1", "X")
    assert ward.record(ward.identity("C1", "X")).orders[0].mrn == "X"


def test_a_site_may_refuse_merged_identifiers(ward: Ward) -> None:
    """Site policy: a prior identifier is refused instead of followed."""
    ward.order("A1", mrn="OLD")
    ward.do(merge_patients, SITE, "M1", "OLD")
    with ward.work() as work:
        site = work.session.get(Site, SITE)
        assert site is not None
        site.settings = {REFUSE_MERGED: True}

    with pytest.raises(RuleBroken) as refused:
        ward.record(ward.identity("A1", "OLD"))

    assert refused.value.code == "identifier_merged"
    assert ward.record(ward.identity("A1")).status == "Ordered"
