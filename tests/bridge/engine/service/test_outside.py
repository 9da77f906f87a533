"""Outside reports: whose priors they are, which version is shown, and what has none of them."""

from itertools import permutations
from typing import Any

import pytest

from bridge.contract import OrderKey, OutsideStatus
from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError
from bridge.engine.service.report_lookup import key_of, lock_report, orders_of
from bridge.engine.service.reports.outside import (
    PREFIX,
    OutsideDocument,
    add_version,
    find_outside,
    list_outside,
    read_outside,
    read_pdf,
)
from bridge.engine.service.reports.patients import merge_patients, undo_merge
from bridge.engine.service.worklist import WorklistQuery, read_worklist
from tests.bridge.engine.service.harness import PATIENT, SITE, ServiceHarness

PDF = b"%PDF-1.7\n%%EOF\n"


def document(number: str = "F1", **values: Any) -> OutsideDocument:
    known: dict[str, Any] = {
        "site_id": SITE,
        "mrn": "M1",
        "accession": "",
        "sender": "NIGHT|NORTH",
        "parent": "",
        "status": OutsideStatus.FINAL,
        "code": "F",
        "at": None,
        "sent_at": 1,
        "title": "CT chest",
        "author": "Nora Night",
        "tags": PATIENT,
        "omitted": (),
        "text": "No acute finding.",
        "pdfs": (),
    }
    return OutsideDocument(number=number, **{**known, **values})


def add(harness: ServiceHarness, *args: Any, **values: Any) -> None:
    harness.do(add_version, document(*args, **values))


def shown(harness: ServiceHarness, order: OrderKey) -> list[dict[str, Any]]:
    """Return the outside reports of an order's patient, with all versions."""
    with harness.work() as work:
        report = lock_report(work, order).report
        orders = orders_of(work.session, key_of(report))
        return [
            read_outside(work.session, found)
            for found in list_outside(work.session, report, orders)
        ]


def texts(prior: dict[str, Any]) -> list[str]:
    """Return the texts of all versions, the newest first."""
    return [
        "\n".join(
            "".join(part["text"] for part in block["content"])
            for block in version["document"]["content"]
        )
        for version in prior["versions"]
    ]


def test_a_report_waits_for_its_patient(harness: ServiceHarness) -> None:
    """A report of an unknown patient is a prior as soon as an order with the number arrives."""
    add(harness, at=1_700_000_000_000)
    (prior,) = shown(harness, harness.order("A1"))
    assert prior["reportId"].startswith(PREFIX)
    assert prior["outside"] == {
        "sender": "NIGHT NORTH",
        "status": "final",
        "versions": 1,
        "withdrawn": False,
    }
    assert (prior["signedBy"], prior["signedAt"]) == ("Nora Night", 1_700_000_000_000)
    assert texts(prior) == ["No acute finding."]
    assert shown(harness, harness.order("A2", "M2")) == []


def test_a_report_without_patient_number_waits_for_its_order(harness: ServiceHarness) -> None:
    add(harness, mrn="", accession="A1")
    assert shown(harness, harness.order("A2", "M2")) == []
    assert len(shown(harness, harness.order("A1"))) == 1
    assert len(shown(harness, harness.order("A3"))) == 1, "a later order of the same patient"


def test_an_accession_of_two_patients_is_nobodys(harness: ServiceHarness) -> None:
    add(harness, mrn="", accession="A1", tags={})
    one, other = harness.order("A1"), harness.order("A1", "M2")
    assert shown(harness, one) == shown(harness, other) == []


@pytest.mark.parametrize(
    "tags", [{"PatientName": "OTHER^EVE"}, {"PatientBirthDate": "19800102"}], ids=["name", "born"]
)
def test_another_person_with_the_accession(harness: ServiceHarness, tags: dict[str, str]) -> None:
    """Without a patient number, one difference refuses the report; it is never shown."""
    add(harness, "early", mrn="", accession="A1", tags={**PATIENT, **tags})
    order = harness.order("A1")
    assert shown(harness, order) == []
    with pytest.raises(EngineError) as refused:
        add(harness, mrn="", accession="A1", tags={**PATIENT, **tags})
    assert refused.value.code is ErrorCode.PATIENT_NAME_MISMATCH


def test_another_person_with_the_number(harness: ServiceHarness) -> None:
    """With the patient's number, name and birth date must both differ: one may be an error."""
    other = {"PatientName": "OTHER^EVE", "PatientBirthDate": "19800102"}
    add(harness, "early", tags=other)
    order = harness.order("A1")
    assert shown(harness, order) == []
    with pytest.raises(EngineError):
        add(harness, tags=other)
    add(harness, tags={**PATIENT, "PatientName": "OTHER^EVE"})
    assert len(shown(harness, order)) == 1


def test_a_retransmission_is_no_version(harness: ServiceHarness) -> None:
    order = harness.order("A1")
    for sent_at in (1, 1, 2):
        add(harness, sent_at=sent_at)
    (prior,) = shown(harness, order)
    assert prior["outside"]["versions"] == 1


VERSIONS = [
    document(status=OutsideStatus.PRELIMINARY, at=10, text="1"),
    document(at=10, sent_at=2, text="2"),
    document("F2", parent="F1", status=OutsideStatus.CORRECTED, at=30, text="3"),
    document("F3", parent="F2", status=OutsideStatus.CORRECTED, at=40, text="4"),
]


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_versions_in_any_order(harness: ServiceHarness, order: tuple[int, ...]) -> None:
    """Versions are one report in the order of their times, in whatever order they arrive."""
    known = harness.order("A1")
    for index in order:
        harness.do(add_version, VERSIONS[index])
        harness.do(add_version, VERSIONS[index])
    (prior,) = shown(harness, known)
    assert texts(prior) == ["4", "3", "2", "1"]
    assert prior["outside"]["status"] == "corrected"


def test_the_status_decides_between_equal_times(harness: ServiceHarness) -> None:
    order = harness.order("A1")
    add(harness, status=OutsideStatus.FINAL, text="final")
    add(harness, status=OutsideStatus.PRELIMINARY, text="preliminary")
    (prior,) = shown(harness, order)
    assert texts(prior) == ["final", "preliminary"]


def test_an_addendum_is_compared_with_the_text_that_it_completes(harness: ServiceHarness) -> None:
    order = harness.order("A1")
    add(harness, at=10)
    add(harness, "F2", parent="F1", status=OutsideStatus.ADDENDUM, at=20, text="Added.")
    (prior,) = shown(harness, order)
    assert texts(prior) == ["Added.", "No acute finding."]
    assert (prior["added"], prior["document"]) == (1, prior["versions"][1]["document"])


def test_a_withdrawn_report(harness: ServiceHarness) -> None:
    """It is marked; its former text can be read."""
    order = harness.order("A1")
    add(harness, at=10)
    add(harness, status=OutsideStatus.WITHDRAWN, code="X", at=20, text="")
    (prior,) = shown(harness, order)
    assert prior["outside"]["withdrawn"]
    assert texts(prior) == ["", "No acute finding."]


def test_two_senders_with_one_number(harness: ServiceHarness) -> None:
    order = harness.order("A1")
    add(harness)
    add(harness, sender="DAY|NORTH")
    assert len(shown(harness, order)) == 2


def test_a_number_of_another_patient(harness: ServiceHarness) -> None:
    """A version never moves a report to another patient."""
    add(harness)
    with pytest.raises(EngineError) as refused:
        add(harness, mrn="M2", text="Other.")
    assert refused.value.code is ErrorCode.OUTSIDE_OF_OTHER_PATIENT


def test_merge_and_undo(harness: ServiceHarness) -> None:
    """A merge shows the reports of both numbers, and its undo separates them."""
    survivor, prior = harness.order("A1", "M1"), harness.order("A2", "M2")
    add(harness, "one", mrn="M1")
    add(harness, "two", mrn="M2")
    harness.do(merge_patients, SITE, "M1", "M2")
    assert len(shown(harness, survivor)) == 2
    add(harness, "two", mrn="M1", at=50, text="Of the survivor.")
    harness.do(undo_merge, SITE, "M1", "M2")
    assert [found["signedAt"] for found in shown(harness, survivor)] == [1]
    assert len(shown(harness, harness.order("A3", "M2"))) == 1
    assert prior


def test_pdf(harness: ServiceHarness) -> None:
    order = harness.order("A1")
    add(harness, pdfs=(PDF,))
    (prior,) = shown(harness, order)
    (version,) = prior["versions"]
    assert version["pdfs"] == 1
    with harness.work() as work:
        report = lock_report(work, order).report
        found = find_outside(
            work.session, report, orders_of(work.session, key_of(report)), prior["reportId"]
        )
        assert read_pdf(work.session, found, version["version"], 1) == PDF
        with pytest.raises(EngineError):
            read_pdf(work.session, found, version["version"] + 1, 1)


def test_no_list_and_no_change_has_it(harness: ServiceHarness) -> None:
    """Outside reports are in no worklist, in no change and in no release."""
    harness.order("A1")
    before = harness.events()
    add(harness, accession="A1")
    assert harness.events() == before
    assert harness.releases() == []
    with harness.work() as work:
        items = read_worklist(work.session, WorklistQuery(SITE), harness.now).items
    assert len(items) == 1


def test_another_site_has_its_own(harness: ServiceHarness) -> None:
    add(harness)
    order = harness.order("A1")
    with harness.work() as work:
        report = lock_report(work, order).report
        report_orders = orders_of(work.session, key_of(report))
        work.session.expunge(report)
        report.site_id = "OTHER"
        assert list_outside(work.session, report, report_orders) == []
