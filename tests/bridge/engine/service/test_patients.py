"""Patient update and merge over all reports of a site."""

import pytest
from sqlmodel import col, select

from bridge.contract import OrderKey
from bridge.contract.errors import ErrorCode
from bridge.contract.requests import ReturnedOrder
from bridge.engine.errors import EngineError
from bridge.engine.records.tables import IssuedLink, PatientPointer, ReportFile, Site
from bridge.engine.rules.lifecycle import FileKind
from bridge.engine.rules.order import PATIENT, link_target
from bridge.engine.service.launch.registration import OrderInput
from bridge.engine.service.launch.report_updates import unassign
from bridge.engine.service.report_lookup import REFUSE_MERGED, key_of, lock_report
from bridge.engine.service.reports.deletion import delete_report
from bridge.engine.service.reports.order_links import link_orders
from bridge.engine.service.reports.patients import merge_patients, undo_merge, update_patient
from bridge.engine.service.signing.sign import sign
from tests.bridge.engine.refusals import refused
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
            report.accession: lock_report(work, report).order.tags["PatientName"]
            for report in (signed, ordered, other)
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
    assert [(order.mrn, order.accession) for order in record.orders] == [("M1", "B1")]
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
    with pytest.raises(EngineError) as cycle:
        harness.do(merge_patients, SITE, "A", "C")
    assert cycle.value.code == "merge_cycle"
    with pytest.raises(EngineError) as other:
        harness.do(merge_patients, SITE, "D", "A")
    assert other.value.code == "merged_elsewhere"
    with pytest.raises(EngineError) as same:
        harness.do(merge_patients, SITE, "D", "D")
    assert same.value.code == "same_patient"


def test_an_undone_merge(harness: ServiceHarness) -> None:
    """The number and those merged into it are their own again; reports stay. It may be repeated."""
    harness.order("A1", mrn="B")
    for survivor, prior in (("B", "A"), ("C", "B"), ("C", "D")):
        harness.do(merge_patients, SITE, survivor, prior)

    for _ in range(2):
        harness.do(undo_merge, SITE, "C", "B")

    with harness.work() as work:
        pointers = {row.prior_mrn: row.mrn for row in work.session.exec(select(PatientPointer))}
    assert pointers == {"A": "B", "D": "C"}
    assert harness.record(harness.identity("A1", "C")).orders[0].mrn == "C"
    assert harness.do(register, SITE, OrderInput("B", "B1", tags={"Modality": "CT"})).report_id
    assert harness.record(harness.identity("B1", "A")).orders[0].mrn == "B"
    with pytest.raises(EngineError) as other:
        harness.do(undo_merge, SITE, "X", "D")
    assert other.value.code == "merged_elsewhere"


def returned(*accessions: str, name: str = "FREED^IDA") -> list[ReturnedOrder]:
    """Return the orders that an undone merge gives back, with their former demographics."""
    return [ReturnedOrder(Accession=each, PatientName=name) for each in accessions]


def patient_tags(harness: ServiceHarness, order: OrderKey) -> dict[str, str]:
    with harness.work() as work:
        tags = lock_report(work, order).order.tags
    return {name: value for name, value in tags.items() if name in PATIENT}


def test_an_undone_merge_of_a_chain_gives_orders_back(harness: ServiceHarness) -> None:
    """Merges are undone in any order: an order has what it had under the number that it gets."""
    names = {"A": "FREED^IDA", "B": "MIDDLE^MIA", "C": "SURVIVOR^EVA"}
    for mrn, name in names.items():
        harness.order(f"{mrn}1", mrn=mrn, PatientName=name)
    before = {mrn: patient_tags(harness, harness.identity(f"{mrn}1", mrn)) for mrn in "AB"}
    for undos in ([("C", "A"), ("C", "B")], [("C", "B"), ("B", "A")]):
        harness.do(merge_patients, SITE, "B", "A")
        harness.do(merge_patients, SITE, "C", "B")
        for survivor, freed in undos:
            wanted = returned("A1") if freed == "A" else returned("A1", "B1")
            harness.do(undo_merge, SITE, survivor, freed, wanted)
            if (survivor, freed) == ("C", "B") and undos[0] == (survivor, freed):
                tags = patient_tags(harness, harness.identity("A1", "B"))
                assert tags["PatientName"] == names["B"]
        after = {mrn: patient_tags(harness, harness.identity(f"{mrn}1", mrn)) for mrn in "AB"}
        assert after == before


def test_an_undone_merge_gives_orders_back(harness: ServiceHarness) -> None:
    """
    They have their former demographics, and keep their text. One that was registered since the
    merge has those that are given. A repetition answers the same.
    """
    own = harness.order("A1", PatientAge="046Y")
    harness.draft("B1", mrn="OLD", text="begun", PatientName="FREED^IDA", PatientSex="F")
    signed = harness.draft("B2", mrn="OLD", PatientName="FREED^IDA")
    harness.do(sign, signed)
    harness.order("B3", mrn="OLD", PatientName="FREED^IDA")
    before = [patient_tags(harness, harness.identity(each, "OLD")) for each in ("B1", "B2")]
    harness.later(1)
    harness.do(merge_patients, SITE, "M1", "OLD")
    harness.order("B4", PatientName="SURVIVOR^EVA")
    harness.later(1)
    wanted = returned("B1", "B2", "B4", "B9", name="FREED^ADA")

    for _ in range(2):
        done = harness.do(undo_merge, SITE, "M1", "OLD", wanted)
        assert ([order.accession for order in done.moved], done.kept) == (["B1", "B2", "B4"], ())

    assert harness.content(harness.identity("B1", "OLD")) == "begun"
    assert harness.status(harness.identity("B2", "OLD")) == "Final"
    assert [patient_tags(harness, harness.identity(each, "OLD")) for each in ("B1", "B2")] == before
    tags = patient_tags(harness, harness.identity("B4", "OLD"))
    assert tags == {"PatientName": "FREED^ADA"}
    assert harness.record(own).orders[0].mrn == "M1"
    assert harness.record(harness.identity("B3")).orders[0].mrn == "M1"
    with refused(ErrorCode.REPORT_NOT_FOUND):
        harness.do(lock_report, harness.identity("B1"))


def test_what_stays_when_a_merge_is_undone(harness: ServiceHarness) -> None:
    """A text that was signed under the survivor's name, and one that has the survivor's order."""
    for accession in ("B1", "B3", "B4"):
        harness.order(accession, mrn="OLD")
    harness.draft("B2", mrn="OLD")
    harness.order("A1")
    harness.order("A3")
    harness.later(1)
    harness.do(merge_patients, SITE, "M1", "OLD")
    harness.later(1)
    harness.do(sign, harness.identity("B2"))
    harness.do(link_orders, [*map(harness.identity, ("B3", "A3", "B4"))])
    harness.do(link_orders, [harness.draft("A4"), harness.identity("B1")])

    done = harness.do(undo_merge, SITE, "M1", "OLD", returned("B1", "B2", "B3", "B4"))

    assert {order.accession: order.reason for order in done.kept} == {
        "B1": "shared",
        "B2": "signed",
    }
    back = [harness.identity(accession, "OLD") for accession in ("B3", "B4")]
    assert {order.report_id for order in done.moved} == {harness.record(back[0]).report_id}
    assert harness.group(back[0]) == back
    assert harness.group(harness.identity("A3")) == [harness.identity("A3")]


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
    with refused(ErrorCode.MERGE_CONFLICT):
        harness.do(merge_patients, SITE, "M1", "X")
    assert harness.record(harness.identity("C1", "X")).orders[0].mrn == "X"


def test_a_merge_keeps_the_text_of_an_unassigned_report(harness: ServiceHarness) -> None:
    """It is Ordered again, and its text is more than an empty order."""
    harness.do(unassign, harness.draft("A1", mrn="OLD", text="begun"))
    harness.order("A1")

    harness.do(merge_patients, SITE, "M1", "OLD")

    assert harness.content(harness.identity("A1")) == "begun"


def test_a_merge_leaves_other_sites_as_they_are(harness: ServiceHarness) -> None:
    """Pointers and orders of another site with the same identifiers do not change."""
    with harness.database.session() as session:
        session.add(Site(site_id="SITE2", name="Other Clinic", created_at=harness.now))
    for mrn in ("A", "B"):
        harness.do(register, "SITE2", OrderInput(mrn, f"{mrn}1"))
    harness.do(merge_patients, "SITE2", "B", "A")

    harness.do(merge_patients, SITE, "C", "B")
    harness.do(merge_patients, SITE, "D", "A")

    for accession in ("A1", "B1"):
        record = harness.record(OrderKey("SITE2", "A", accession))
        assert [order.mrn for order in record.orders] == ["B"]


def test_an_update_under_a_merged_identifier(harness: ServiceHarness) -> None:
    """An update under the prior identifier changes the orders of the survivor."""
    harness.order("A1", mrn="OLD")
    harness.do(merge_patients, SITE, "M1", "OLD")

    assert harness.do(update_patient, SITE, "OLD", {"PatientName": "EXAMPLE^EVE"}) == 1

    assert harness.changes()[-1]["orders"][0]["PatientName"] == "EXAMPLE^EVE"


def test_the_newest_demographics_of_the_survivor_count(harness: ServiceHarness) -> None:
    """The prior's orders get the demographics of the survivor's order that changed last."""
    for accession, name in (("A1", "ONE"), ("A2", "TWO"), ("A1", "THREE")):
        harness.order(accession, PatientName=f"EXAMPLE^{name}")
        harness.later(1)
    harness.order("B1", mrn="OLD")

    harness.do(merge_patients, SITE, "M1", "OLD")

    with harness.work() as work:
        moved = lock_report(work, harness.identity("B1")).order
    assert moved.tags["PatientName"] == "EXAMPLE^THREE"


def test_an_order_of_a_group_is_no_duplicate(harness: ServiceHarness) -> None:
    """A merge deletes no group of linked orders because of one accession."""
    harness.draft("A1")
    group = [harness.order(accession, mrn="OLD") for accession in ("A1", "A2")]
    harness.do(link_orders, group)

    with refused(ErrorCode.MERGE_CONFLICT):
        harness.do(merge_patients, SITE, "M1", "OLD")

    assert harness.group(group[1]) == group


def test_files_of_a_duplicate_do_not_change_a_signed_report(harness: ServiceHarness) -> None:
    """The files of a deleted duplicate go to an unsigned report only."""
    signed, draft = harness.draft("A1"), harness.draft("A2")
    harness.do(sign, signed)
    for accession in ("A1", "A2"):
        order = harness.order(accession, mrn="OLD")
        with harness.work() as work:
            own = key_of(lock_report(work, order).report)
            kind, digest = FileKind.KEY_IMAGE, accession
            file = ReportFile(report_pk=own, kind=kind, sha256=digest, data=b"x", created_at=1)
            work.session.add(file)

    harness.do(merge_patients, SITE, "M1", "OLD")

    with harness.work() as work:
        owner = key_of(lock_report(work, draft).report)
        files = [(row.report_pk, row.sha256) for row in work.session.exec(select(ReportFile))]
    assert files == [(owner, "A2")]


def issue_link(harness: ServiceHarness, name: str, order: OrderKey) -> None:
    with harness.work() as work:
        work.session.add(
            IssuedLink(
                handle_hash=name,
                purpose="launch",
                site_id=SITE,
                key_id="k",
                sealed=b"x",
                target=link_target(order),
                created_at=harness.now,
                expires_at=harness.now + 1,
            )
        )


def revocations(harness: ServiceHarness) -> list[int | None]:
    with harness.work() as work:
        links = work.session.exec(select(IssuedLink).order_by(col(IssuedLink.pk)))
        return [link.revoked_at for link in links]


def test_a_deletion_after_a_merge_revokes_the_links(harness: ServiceHarness) -> None:
    """Links that were issued under a prior identifier, before or after the merge, are revoked."""
    order = harness.order("A1", mrn="OLD")
    issue_link(harness, "before", order)
    harness.do(merge_patients, SITE, "M1", "OLD")
    issue_link(harness, "after", order)
    issue_link(harness, "other order", harness.identity("A2", "OLD"))

    assert harness.do(delete_report, harness.identity("A1"))

    assert revocations(harness) == [harness.now, harness.now, None]


@pytest.mark.parametrize("mrn", ["M1", "OLD"])
def test_a_deletion_of_an_order_without_report_revokes_the_links(
    harness: ServiceHarness, mrn: str
) -> None:
    """Links of an order without report are revoked under all identifiers, and only once."""
    for accession in ("M1", "OLD"):
        issue_link(harness, accession, harness.identity("A1", accession))
    harness.do(merge_patients, SITE, "M1", "OLD")
    first = harness.now

    for _ in range(2):
        assert not harness.do(delete_report, harness.identity("A1", mrn))
        harness.later(1)

    assert revocations(harness) == [first, first]


def test_a_site_may_refuse_merged_identifiers(harness: ServiceHarness) -> None:
    """Site policy: a prior identifier is refused instead of resolved."""
    harness.order("A1", mrn="OLD")
    harness.do(merge_patients, SITE, "M1", "OLD")
    with harness.work() as work:
        site = work.session.get(Site, SITE)
        assert site is not None
        site.settings = {REFUSE_MERGED: True}

    with pytest.raises(EngineError) as refused:
        harness.record(harness.identity("A1", "OLD"))

    assert refused.value.code == "identifier_merged"
    assert harness.record(harness.identity("A1")).status == "Ordered"
