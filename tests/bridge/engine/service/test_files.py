"""Structured reports and key images: kept once, and read where nobody has written yet."""

import hashlib
from dataclasses import replace

import pytest
from sqlmodel import select

from bridge.engine.errors import RuleBroken
from bridge.engine.launch.request import Attachment
from bridge.engine.records.tables import ReportFile
from bridge.engine.rules.status import FileKind
from bridge.engine.service.reports.files import UpdateMode, update_structured_reports
from bridge.engine.service.reports.linking import link_orders
from bridge.engine.service.signing.sign import sign
from bridge.engine.service.worklist.assignment import open_for
from tests.bridge.engine.service.ward import Ward


def measured(text: str, uid: str) -> Attachment:
    """Make a structured report that was read."""
    data = text.encode()
    return Attachment(
        FileKind.STRUCTURED_REPORT,
        hashlib.sha256(data).hexdigest(),
        data,
        "application/dicom",
        sop_instance_uid=uid,
        details={"text": text},
    )


def kept(ward: Ward) -> list[bytes]:
    """Return the files there are."""
    with ward.work() as work:
        return [row.data for row in work.session.exec(select(ReportFile).order_by("pk"))]


def test_replace_and_append(ward: Ward) -> None:
    """Replace swaps, append adds, the same instance is kept once."""
    order = ward.draft("A1", text="")
    one, two = measured("one", "1.2"), measured("two", "1.3")

    ward.do(update_structured_reports, order, [one, one], UpdateMode.REPLACE)
    ward.do(update_structured_reports, order, [two, one], UpdateMode.APPEND)
    assert kept(ward) == [b"one", b"two"]
    assert ward.content(order) == "one\n\ntwo"
    ward.do(update_structured_reports, order, [two], UpdateMode.REPLACE)

    assert kept(ward) == [b"two"]
    assert ward.content(order) == "two"


def test_written_text_is_never_replaced(ward: Ward) -> None:
    """Findings of a file do not overwrite what somebody dictated."""
    order = ward.draft("A1", text="")
    ward.on_report(order, lambda _, report: setattr(report, "content_text", "dictated"))

    ward.do(update_structured_reports, order, [measured("one", "1.2")], UpdateMode.REPLACE)

    assert ward.content(order) == "dictated"


def test_an_order_keeps_its_files_and_stays_empty(ward: Ward) -> None:
    """Files of an Ordered report are no content: it can be linked, and they are read at opening."""
    one, two = ward.order("A1"), ward.order("A2")
    ward.do(update_structured_reports, two, [measured("measured", "1.2")], UpdateMode.REPLACE)
    assert not ward.record(two).has_content

    ward.do(link_orders, [one, two])
    ward.on_report(one, open_for, ward.ann)

    assert ward.content(one) == "measured"


def test_refusals(ward: Ward) -> None:
    """V62d: an empty list, and a signed report: 400."""
    order = ward.draft("A1")
    with pytest.raises(RuleBroken) as empty:
        ward.do(update_structured_reports, order, [], UpdateMode.REPLACE)
    ward.do(sign, order)
    with pytest.raises(RuleBroken) as signed:
        ward.do(update_structured_reports, order, [measured("x", "1")], UpdateMode.APPEND)

    assert (empty.value.code, signed.value.code) == ("no_files", "report_signed")


def test_a_file_of_another_patient_is_set_aside(ward: Ward) -> None:
    """It is kept beside the report, and neither replaces a file nor brings its text."""
    order = ward.draft("A1", text="", PatientBirthDate="19700102")
    own = replace(measured("own", "1.2"), tags={"PatientBirthDate": "19700102"})
    other = replace(measured("other", "1.3"), tags={"PatientBirthDate": "19710203"})
    ward.do(update_structured_reports, order, [own], UpdateMode.REPLACE)

    with ward.work() as work:
        done = update_structured_reports(work, order, [other], UpdateMode.REPLACE)

    assert [each.contradicts for each in done.set_aside] == [("PatientBirthDate",)]
    assert ward.content(order) == "own"
    assert kept(ward) == [b"own", b"other"]
