"""Outside reports: what becomes of ORU^R01 and MDM."""

import base64
import json
from collections.abc import Mapping

import pytest

from mappings.authoring.edits import SetRule, edit_rule
from mappings.authoring.trial import try_message
from mappings.compiler import compile_sources
from mappings.hl7.header import peek
from mappings.hl7.message import Message
from mappings.hl7.refusals import ValueTooLong
from mappings.inbound.definition import InboundMapping, refusal_for
from mappings.inbound.events import OrderAction, OrderEvent, OutsideReport
from mappings.inbound.trace import trace
from mappings.language.diagnostics import MappingErrors
from tests.mappings.definitions import DEFAULTS, SHIPPED

LISTED = "include: outside-reports.yaml\naccept: {senders: [{application: NIGHT}]}\n"
PID = "PID|1||M1^^^NORTH^MR||Doe^Jane||19800102|F"
ORC, OBX = "ORC|RE|P1|F1||CM", "OBX|1|TX|R||No acute finding.||||||F"


def mapping(text: str = LISTED) -> InboundMapping:
    compiled = compile_sources({**SHIPPED, "mine.yaml": text}, "mine")
    assert isinstance(compiled, InboundMapping)
    return compiled


def message(*segments: str, kind: str = "ORU^R01", sender: str = "NIGHT") -> Message:
    head = f"MSH|^~\\&|{sender}|NORTH|BRIDGE|SITE1|20261128220100+0100||{kind}|1|P|2.5.1"
    return Message.parse("\r".join((head, *segments)).encode())


def obr(status: str = "F", number: str = "F1", time: str = "", accession: str = "A1") -> str:
    fields = {2: "P1", 3: number, 4: "CT^CT chest", 18: accession, 22: time, 24: "CT", 25: status}
    return "OBR|1|" + "|".join(fields.get(field, "") for field in range(2, 26))


def txa(
    completion: str = "AU", number: str = "D1", parent: str = "", availability: str = ""
) -> str:
    fields = {2: "DI^Diagnostic imaging", 6: "20261128210000", 9: "7^Night^Nora", 12: number}
    fields |= {13: parent, 17: completion, 19: availability}
    return "TXA|1|" + "|".join(fields.get(field, "") for field in range(2, 20))


def events(*segments: str, kind: str = "ORU^R01") -> list[OrderEvent]:
    return mapping().apply(message(*segments, kind=kind), DEFAULTS)


def report(*segments: str, kind: str = "ORU^R01") -> OutsideReport:
    (event,) = events(*segments, kind=kind)
    assert event.action is OrderAction.OUTSIDE_REPORT
    assert event.outside is not None
    return event.outside


def test_a_result() -> None:
    """An ORU is a report of its patient and order; its number is the filler number."""
    (event,) = events(PID, ORC, obr(time="20261128215900+0100"), OBX)
    assert (event.site, event.mrn, event.accession, event.filler) == ("SITE1", "M1", "A1", "F1")
    assert event.outside == OutsideReport(
        sender="NIGHT|NORTH",
        number="F1",
        parent="",
        status="final",
        code="F",
        at=1795899540000,
        title="CT chest",
        author="",
        text="No acute finding.",
        pdfs=(),
        omitted=(),
    )


@pytest.mark.parametrize("kind", ["MDM^T02", "MDM^T04", "MDM^T08", "MDM^T10"])
def test_a_document(kind: str) -> None:
    """The TXA of an MDM names the document, its parent, its time and its author."""
    found = report("EVN||20261128", PID, "PV1|1|O", txa(parent="D0"), OBX, kind=kind)
    assert (found.number, found.parent, found.status) == ("D1", "D0", "final")
    assert (found.title, found.author) == ("Diagnostic imaging", "Nora Night")
    assert found.at is not None


def test_a_document_of_several_orders_is_one_report() -> None:
    assert report(PID, ORC, obr(), ORC, obr(number="F2"), txa(), OBX, kind="MDM^T02").number == "D1"


@pytest.mark.parametrize(
    ("segment", "expected"),
    [
        (obr("P"), "preliminary"),
        (obr("F"), "final"),
        (obr("C"), "corrected"),
        (obr("X"), "withdrawn"),
        (txa("DI"), "preliminary"),
        (txa("LA"), "final"),
        (txa("CA"), "withdrawn"),
        (txa("AU", availability="CA"), "withdrawn"),
        (txa("AU", availability="AV"), "final"),
    ],
)
def test_status(segment: str, expected: str) -> None:
    assert report(PID, ORC, segment, OBX).status == expected


@pytest.mark.parametrize(
    ("kind", "segment", "expected"),
    [
        ("MDM^T06", txa(parent="D0", number="D2"), "addendum"),
        ("MDM^T06", txa(parent="D0", availability="CA"), "withdrawn"),
        ("MDM^T11", txa(), "withdrawn"),
        ("ORU^R01", obr() + "|T&L|||^F0", "addendum"),
        ("ORU^R01", obr("X") + "|T&L|||^F0", "withdrawn"),
        ("ORU^R01", "ORC|CA\r" + obr(), "withdrawn"),
        ("ORU^R01", obr("Final"), "final"),
        ("ORU^R01", obr("ADDENDED"), "corrected"),
    ],
)
def test_status_of_other_senders(kind: str, segment: str, expected: str) -> None:
    """Addenda are documents or child orders of their own; some senders write words."""
    assert report(PID, *segment.split("\r"), OBX, kind=kind).status == expected


@pytest.mark.parametrize("status", ["F", "C"])
def test_a_final_result_without_text(status: str) -> None:
    """It hides no text that came before; its order is reported."""
    (event,) = events(PID, ORC, obr(status))
    assert (event.outside, event.note, event.result_status) == (None, "no content", status)


def test_procedures_with_one_number_are_one_version() -> None:
    """Their texts have the procedures as headings; an equal text and file is there once."""
    more = "OBR|2|P1|F1|AB^CT abdomen||||||||||||||A1|||||||F"
    pdf = f"OBX|2|ED|R||^application^PDF^Base64^{base64.b64encode(b'%PDF-1.7 %%EOF').decode()}"
    first, second = events(PID, ORC, obr(), OBX, pdf, more, OBX.replace("finding", "stone"), pdf)
    assert first.outside is not None
    assert first.outside.text == "CT chest\nNo acute finding.\n\nCT abdomen\nNo acute stone."
    assert (first.outside.title, len(first.outside.pdfs)) == ("CT chest, CT abdomen", 1)
    assert (second.outside, second.result_status) == (None, "F")
    same, _ = events(PID, ORC, obr(), OBX, more, OBX)
    assert same.outside is not None
    assert same.outside.text == "No acute finding."


def test_a_part_that_is_not_final() -> None:
    """The version is preliminary, and no order is reported."""
    open_part = "OBR|2|P1|F1|AB^CT abdomen||||||||||||||A1|||||||P"
    first, second = events(PID, ORC, obr(), OBX, open_part, OBX)
    assert first.outside is not None
    assert first.outside.status == "preliminary"
    assert (first.result_status, second.result_status) == ("", "")


def test_parts_above_the_limit_of_a_report() -> None:
    """Each part is small enough, and all together are not."""
    long = "OBX|1|TX|R||" + "x" * 600_000
    more = "OBR|2|P1|F1|AB^CT abdomen||||||||||||||A1|||||||F"
    (refusal,) = mapping().pre_check(message(PID, ORC, obr(), long, more, long), DEFAULTS).refusals
    assert (type(refusal), refusal.place) == (ValueTooLong, "OBX[2]-5")


@pytest.mark.parametrize("code", ["D", "W"])
def test_a_report_whose_text_is_deleted(code: str) -> None:
    """It is withdrawn, and its order is not reported; with other text the rest stays."""
    deleted = OBX.replace("|F", f"|{code}")
    (event,) = events(PID, ORC, obr(), deleted)
    assert event.outside is not None
    assert (event.outside.status, event.result_status) == ("withdrawn", "")
    rest = report(PID, ORC, obr("C"), deleted, OBX.replace("acute", "new"))
    assert (rest.status, rest.text) == ("corrected", "No new finding.")


def test_status_of_the_text() -> None:
    """Without OBR-25, OBX-11 is the status."""
    assert report(PID, ORC, obr(""), OBX.replace("|F", "|P")).status == "preliminary"


def test_no_result_yet() -> None:
    """A message that announces an order has no report."""
    (event,) = events(PID, ORC, obr("S"))
    assert (event.action, event.outside) == (OrderAction.IGNORE, None)


def test_an_order_without_text_beside_one_with_text() -> None:
    """One report for two orders: the second group names its order only."""
    first, second = events(PID, ORC, obr(), OBX, ORC, obr(number="F2", accession="A2"))
    assert first.outside is not None
    assert (second.outside, second.accession, second.result_status) == (None, "A2", "F")


@pytest.mark.parametrize(
    ("status", "expected"), [("F", "F"), ("C", "C"), ("Final", "Final"), ("P", ""), ("X", "")]
)
def test_reported(status: str, expected: str) -> None:
    """A final or corrected result says that its order is reported."""
    (event,) = events(PID, ORC, obr(status), OBX)
    assert event.result_status == expected


@pytest.mark.parametrize(
    ("segments", "place"),
    [
        ((PID, ORC, obr("Q"), OBX), "OBR-25"),
        ((PID.replace("M1^^^NORTH^MR", ""), "ORC|RE", txa(), OBX), "PID-3.1"),
        ((PID, "ORC|RE", "OBR|1|||X^Y", OBX), "OBR-3.1"),
        ((PID, ORC, obr("XX"), txa("QQ"), OBX), "TXA-17"),
        ((PID,), "OBR"),
        ((PID, ORC, obr(), "OBX|1|ED|R||^application^PDF^Base64^%%%"), "OBX-5"),
    ],
)
def test_refusals(segments: tuple[str, ...], place: str) -> None:
    """A refusal names its place."""
    (refusal,) = mapping().pre_check(message(*segments), DEFAULTS).refusals
    assert refusal.place == place


def test_without_patient_number() -> None:
    """A report with an accession needs no number of its patient."""
    (event,) = events("PID|1||||Doe^Jane||19800102|F", ORC, obr(), OBX)
    assert (event.mrn, event.accession) == ("", "A1")


@pytest.mark.parametrize("senders", ["", "accept: {senders: [{application: OTHER}]}\n"])
def test_only_listed_senders(senders: str) -> None:
    """Messages of senders that are not listed are refused as such (AR 103)."""
    definition = mapping("include: outside-reports.yaml\n" + senders)
    header = peek(message(PID, ORC, obr(), OBX).raw)
    assert not definition.accepts(header)
    refusal = refusal_for(header, [definition.acceptance])
    assert (refusal.ack_code, refusal.error_code, refusal.place) == ("AR", "103", "MSH-3")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"report_status": "null"}, "report_status"),
        ({"report": "{status: OBR-25}"}, "number"),
        ({"tags": "{SiteID: {default: listener}}"}, "PatientMRN"),
        ({"report": "{number: OBR-3, status: OBR-25, texts: OBX-5}"}, "texts"),
        ({"report_status": "{F: done}"}, "done"),
        ({"accept": "{messages: [ORU^R01, ORM^O01]}"}, "mine.yaml:2:30: error"),
        ({"accept": "{messages: [ADT^*]}"}, "mine.yaml:2:21: error"),
    ],
)
def test_mistakes(change: Mapping[str, str], error: str) -> None:
    """A definition with a mistake does not compile, and the error names it."""
    parts = {
        "kind": "outside-reports",
        "accept": "{messages: [ORU^R01]}",
        "tags": "{SiteID: {default: listener}, PatientMRN: PID-3.1}",
        "report": "{number: OBR-3, status: OBR-25}",
        "report_status": "{F: final}",
        **change,
    }
    text = "".join(f"{key}: {value}\n" for key, value in parts.items() if value != "null")
    with pytest.raises(MappingErrors) as found:
        mapping(text)
    assert error in str(found.value)


def test_the_trace_explains_each_value() -> None:
    """The trace has the sources of the report's number and status, and the row of its status."""
    found = trace(mapping(), message(PID, ORC, obr(), OBX), DEFAULTS)
    (event,) = found.events
    assert (event.action, event.accession) == ("outside-report", "A1")
    assert event.row is not None
    assert (event.row.key, event.row.text) == ("F", "final")
    values = {target.target: target.value for target in event.targets if target.present}
    assert (values["report:number"], values["report:status"]) == ("F1", "F")
    assert all(target.explained for target in event.targets)


def test_a_trial_shows_the_report() -> None:
    """`bridge mapping try` shows the text, and only the size of a PDF."""
    data = base64.b64encode(b"%PDF-1.7\n").decode()
    ed = f"OBX|2|ED|R||^application^PDF^Base64^{data}"
    (event,) = try_message(mapping(), message(PID, ORC, obr(), OBX, ed).raw, DEFAULTS).events
    assert event["outside"]["text"] == "No acute finding."
    assert event["outside"]["pdfs"] == ["9 bytes"]
    assert json.dumps(event)


@pytest.mark.parametrize(
    ("target", "text", "expected"),
    [
        ("report:title", "OBR-4.1", "report:\n  title: OBR-4.1"),
        ("report-status:F", "corrected", "report_status:\n  F: corrected"),
    ],
)
def test_a_form_writes_the_rules(target: str, text: str, expected: str) -> None:
    """A change by a form is a rule of the own file."""
    edited = edit_rule({**SHIPPED, "mine.yaml": LISTED}, "mine", target, SetRule(text))
    (edit,) = edited.edits
    assert edit.insert.endswith(expected)
    assert edited.issues == ()
