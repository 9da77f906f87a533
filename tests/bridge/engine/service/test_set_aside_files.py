"""Two contents of one SOP instance in a request: one belongs to another patient."""

import pytest
from sqlalchemy import select

from bridge.engine.launch import Attachment
from bridge.engine.records.tables import Report
from bridge.engine.rules.lifecycle import FileKind
from bridge.engine.service.report_lookup import key_of, orders_of
from bridge.engine.service.reports.files import FILES, attach
from bridge.engine.service.work import Work
from tests.bridge.engine.service.harness import ServiceHarness

STORED = Attachment(
    FileKind.STRUCTURED_REPORT, "a", b"", sop_instance_uid="1.2", details={"text": "Of another."}
)
ASIDE = Attachment(
    FileKind.SET_ASIDE, "a", b"", sop_instance_uid="1.2", details={"contradicts": ["PatientName"]}
)
CORRECTED = Attachment(
    FileKind.STRUCTURED_REPORT, "b", b"", sop_instance_uid="1.2", details={"text": "Corrected."}
)


def add(work: Work, report: Report, files: list[Attachment]) -> list[tuple[str, str]]:
    attach(work, report, files, orders_of(work.session, key_of(report))[0])
    query = select(FILES.c.kind, FILES.c.sha256).where(FILES.c.report_pk == key_of(report))
    return sorted((row.kind, row.sha256) for row in work.connection.execute(query))


@pytest.mark.parametrize("files", [[ASIDE, CORRECTED], [CORRECTED, ASIDE]], ids=["first", "last"])
@pytest.mark.parametrize("stored", [[], [STORED]], ids=["new", "known"])
def test_one_instance_with_two_contents(
    harness: ServiceHarness, stored: list[Attachment], files: list[Attachment]
) -> None:
    order = harness.draft("A1")
    harness.on_report(order, add, stored)
    found = harness.on_report(order, add, files)
    assert found == [("dicomSR", "b"), ("setAside", "a")]
