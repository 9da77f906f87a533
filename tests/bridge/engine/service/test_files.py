"""Structured reports and key images: stored once, and used as text while the report is unedited."""

import hashlib
from dataclasses import replace

import pytest
from sqlmodel import select

from bridge.engine.errors import RuleBroken
from bridge.engine.launch import Attachment
from bridge.engine.records.tables import ReportFile
from bridge.engine.rules.lifecycle import FileKind
from bridge.engine.service.launch.report_updates import open_for
from bridge.engine.service.reports.files import UpdateMode, update_structured_reports
from bridge.engine.service.reports.linking import link_orders
from bridge.engine.service.signing.sign import sign
from tests.bridge.engine.service.harness import ServiceHarness


def measured(text: str, uid: str) -> Attachment:
    """Return a parsed structured report."""
    data = text.encode()
    return Attachment(
        FileKind.STRUCTURED_REPORT,
        hashlib.sha256(data).hexdigest(),
        data,
        "application/dicom",
        sop_instance_uid=uid,
        details={"text": text},
    )


def stored_files(harness: ServiceHarness) -> list[bytes]:
    """Return the stored files."""
    with harness.work() as work:
        return [row.data for row in work.session.exec(select(ReportFile).order_by("pk"))]


def test_replace_and_append(harness: ServiceHarness) -> None:
    """Replace swaps files, append adds them; the same instance is stored once."""
    order = harness.draft("A1", text="")
    one, two = measured("one", "1.2"), measured("two", "1.3")

    harness.do(update_structured_reports, order, [one, one], UpdateMode.REPLACE)
    harness.do(update_structured_reports, order, [two, one], UpdateMode.APPEND)
    assert stored_files(harness) == [b"one", b"two"]
    assert harness.content(order) == "one\n\ntwo"
    harness.do(update_structured_reports, order, [two], UpdateMode.REPLACE)

    assert stored_files(harness) == [b"two"]
    assert harness.content(order) == "two"


def test_edited_text_is_never_replaced(harness: ServiceHarness) -> None:
    """The text of a file does not overwrite edited text."""
    order = harness.draft("A1", text="")
    harness.on_report(order, lambda _, report: setattr(report, "content_text", "dictated"))

    harness.do(update_structured_reports, order, [measured("one", "1.2")], UpdateMode.REPLACE)

    assert harness.content(order) == "dictated"


def test_an_order_keeps_its_files_and_stays_empty(harness: ServiceHarness) -> None:
    """Files of an Ordered report do not count as content; opening the report uses their text."""
    one, two = harness.order("A1"), harness.order("A2")
    harness.do(update_structured_reports, two, [measured("measured", "1.2")], UpdateMode.REPLACE)
    assert not harness.record(two).has_content

    harness.do(link_orders, [one, two])
    harness.on_report(one, open_for, harness.ann)

    assert harness.content(one) == "measured"


def test_refusals(harness: ServiceHarness) -> None:
    """V62d: an empty list, and a signed report: 400."""
    order = harness.draft("A1")
    with pytest.raises(RuleBroken) as empty:
        harness.do(update_structured_reports, order, [], UpdateMode.REPLACE)
    harness.do(sign, order)
    with pytest.raises(RuleBroken) as signed:
        harness.do(update_structured_reports, order, [measured("x", "1")], UpdateMode.APPEND)

    assert (empty.value.code, signed.value.code) == ("no_files", "report_signed")


def test_a_file_of_another_patient_is_set_aside(harness: ServiceHarness) -> None:
    """The file is stored separately, replaces no file, and its text is not used."""
    order = harness.draft("A1", text="", PatientBirthDate="19700102")
    own = replace(measured("own", "1.2"), tags={"PatientBirthDate": "19700102"})
    other = replace(measured("other", "1.3"), tags={"PatientBirthDate": "19710203"})
    harness.do(update_structured_reports, order, [own], UpdateMode.REPLACE)

    with harness.work() as work:
        done = update_structured_reports(work, order, [other], UpdateMode.REPLACE)

    assert [each.contradicts for each in done.set_aside] == [("PatientBirthDate",)]
    assert harness.content(order) == "own"
    assert stored_files(harness) == [b"own", b"other"]
