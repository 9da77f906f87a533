"""Rendering of results: echoes, statuses, layouts, escapes."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mappings.compiler import check_sources
from mappings.hl7.message import Message
from mappings.language.code_tables import UnmappedCode
from mappings.language.diagnostics import CodeRefused, NotRenderable
from mappings.outbound.results import ResultEvent, ResultOrder, SignedAddendum, Signer
from tests.mappings.definitions import MSH, SHIPPED
from tests.mappings.results import (
    CONTEXT,
    NOW,
    ORDER,
    ORDERS,
    SHIPPED_RESULTS,
    TAGS,
    rendered,
    results,
    valid,
)

STATUSES = {
    ResultEvent.PRELIMINARY: ("P", "P"),
    ResultEvent.FINAL: ("F", "F"),
    ResultEvent.ADDENDUM: ("C", "C"),
    ResultEvent.CORRECTION: ("C", "C"),
    ResultEvent.RETRACTION: ("C", "W"),
}


@pytest.mark.parametrize(("event", "codes"), STATUSES.items())
def test_statuses(event: ResultEvent, codes: tuple[str, str]) -> None:
    """Each event has its OBR-25 and OBX-11 (HL7 v2.5.1 tables 0123, 0085)."""
    message = rendered(replace(CONTEXT, event=event))
    assert (message.value("OBR-25"), message.value("OBX-11")) == codes
    assert message.value("OBR-22").startswith("20260302153000")  # required with OBR-25


def test_an_event_without_message() -> None:
    """An event that is not listed raises NotRenderable."""
    assert ResultEvent.RECALL not in SHIPPED_RESULTS.events
    with pytest.raises(NotRenderable, match="recall"):
        SHIPPED_RESULTS.render(replace(CONTEXT, event=ResultEvent.RECALL))


def test_merge_changes_the_number() -> None:
    """After a merge the result has the number of the surviving patient."""
    merged = replace(ORDER, tags={**TAGS, "PatientMRN": "M9", "PatientName": "Roe^Jane"})
    message = rendered(replace(CONTEXT, orders=(merged,)))
    assert (message.value("PID-3.1"), message.value("PID-5")) == ("M9", "Roe^Jane")


CODED = "2106-3^White^HL70005" + "|" * 12 + "N^Not Hispanic^HL70189"
"""PID-10 and PID-22 of an order."""


@pytest.mark.parametrize(
    ("race", "ethnicity", "expected"),
    [
        ("White", "Not Hispanic", ["2106-3^White^HL70005", "N^Not Hispanic^HL70189"]),
        ("Asian", "Hispanic", ["^Asian", "^Hispanic"]),
    ],
    ids=["as in the order", "corrected"],
)
def test_race_and_ethnicity(race: str, ethnicity: str, expected: list[str]) -> None:
    """The fields of the order return with their codes until the patient's values change."""
    (order,) = result_of(f"PID|1||M1||Doe^Jane|||||{CODED}", "ORC|NW|P1", "OBR|1|P1||X")
    tags = {**TAGS, "Race": race, "Ethnicity": ethnicity}
    message = rendered(replace(CONTEXT, orders=(replace(order, tags=tags),)))
    assert [message.value("PID-10"), message.value("PID-22")] == expected


def test_without_echo() -> None:
    """An order that was not created by HL7 has a valid result from its tags."""
    bare = ResultOrder({**TAGS, "Modality": "CT", "StudyDescription": "CT & more"})
    raw = SHIPPED_RESULTS.render(replace(CONTEXT, orders=(bare,)))
    message = Message.parse(raw)
    assert valid(raw)
    assert message.value("OBR-3.1") == "A1"
    assert message.value("OBR-4.2") == "CT & more"
    assert message.value("PV1-2") == "U"


def test_nulls_are_not_repeated() -> None:
    orders = result_of(
        'PID|1||""~M1^^^NORTH^MR||Doe^Jane^""||""|""', "ORC|NW|P1", 'OBR|1|P1||X^""|||""|||||||||""'
    )
    raw = SHIPPED_RESULTS.render(replace(CONTEXT, orders=orders))
    assert b'""' not in raw
    assert Message.parse(raw).value("PID-3") == "M1^^^NORTH^MR"


def result_of(*segments: str) -> tuple[ResultOrder, ...]:
    """Return the order of a message as a report has it."""
    return (replace(ORDER, echo=(MSH, *segments)),)


def test_the_parts_of_a_name() -> None:
    """A DICOM name has its prefix before its suffix, an HL7 name after it."""
    named = ResultOrder({**TAGS, "PatientName": "Doe^Jane^Mae^Dr^Jr"})
    message = rendered(replace(CONTEXT, orders=(named,)))
    assert message.value("PID-5") == "Doe^Jane^Mae^Jr^Dr"


FORMS = "山田^太郎^^^^^L^I~やまだ^たろう^^^^^L^P~Yamada^Tarou^^^^^L^A~Sato^Tarou^^^^^M"
"""PID-5 of an order: the forms of one name, and the maiden name."""


def test_the_forms_of_a_name() -> None:
    """They return as the sender repeated them, or after a correction in the order of DICOM."""
    tags = {**TAGS, "PatientName": "Yamada^Tarou=山田^太郎=やまだ^たろう"}
    (order,) = result_of(f"PID|1||M1||{FORMS}", "ORC|NW|P1", "OBR|1|P1||X")
    returned = rendered(replace(CONTEXT, orders=(replace(order, tags=tags),)))
    assert "~".join(returned.values("PID-5")) == FORMS
    for name, expected in {
        "Tanaka^Tarou=田中^太郎": "Tanaka^Tarou^^^^^L^A~田中^太郎^^^^^L^I",
        "=田中^太郎^^Dr=たなか^たろう": "田中^太郎^^^Dr^^L^I~たなか^たろう^^^^^L^P",
    }.items():
        named = replace(order, tags={**tags, "PatientName": name})
        message = rendered(replace(CONTEXT, orders=(named,)))
        assert "~".join(message.values("PID-5")) == expected


def test_rows_and_counts_end_with_their_loop() -> None:
    """A segment after a loop has no row; set ids below an order start again."""
    mine = """
        segments:
          - MSH: {9: [ORU, R01], 10: $control_id, 11: [P], 12: ["2.5.1"]}
          - each: orders
            segments:
              - OBR: {1: $set_id}
              - each: metadata
                segments:
                  - NTE: {1: $set_id, 3: $value}
              - ZMD: {1: $set_id, 2: $key}
    """
    order = replace(ORDER, metadata={"Room": "12", "Bed": "3"})
    message = rendered(replace(CONTEXT, orders=(order, order)), results(mine))
    notes = ["NTE|1||12", "NTE|2||3"]
    assert [s.text() for s in message.segments[1:]] == [
        *("OBR|1", *notes, "ZMD|1"),
        *("OBR|2", *notes, "ZMD|2"),
    ]


def test_zds_is_repeated() -> None:
    """A Z segment is repeated as a whole at the end."""
    message = rendered(CONTEXT)
    assert message.segments[-1].text() == "ZDS|1.2.3^A&B"


def test_signer() -> None:
    """OBR-32 is the signer as NDL; with addenda it is the signer of the last one."""
    assert rendered(CONTEXT).value("OBR-32") == "R1&Berg&Dr. Anna"
    late = replace(CONTEXT, addenda=(SignedAddendum("more", NOW, Signer("Late^Bea")),))
    assert rendered(late).value("OBR-32") == "&Late&Bea"


class TestText:
    """Layouts and addenda."""

    CONTEXT = replace(
        CONTEXT,
        event=ResultEvent.ADDENDUM,
        report_text="one\n\n  two",
        addenda=(
            SignedAddendum("late\nnews", NOW, Signer("Bea")),
            SignedAddendum("later", NOW, Signer("Bob")),
        ),
    )

    def lines(self, text: str) -> list[tuple[str, str]]:
        """Return OBX-4 and OBX-5 of the text."""
        message = rendered(self.CONTEXT, results(text))
        found = [s for s in message.named("OBX") if s.value("OBX-3.1") == "18748-4"]
        return [(s.value("OBX-4"), s.value("OBX-5")) for s in found]

    def test_lines(self) -> None:
        """Each line is an OBX, a blank line has one blank, each section has one sub-id."""
        assert self.lines("") == [
            ("1", "one"),
            ("1", " "),
            ("1", "  two"),
            ("2", "ADDENDUM 1 (2026-03-02 15:30, Bea)"),
            ("2", "late"),
            ("2", "news"),
            ("3", "ADDENDUM 2 (2026-03-02 15:30, Bob)"),
            ("3", "later"),
        ]

    def test_newest_addendum_alone(self) -> None:
        """The addendum alone has the sub-id of the whole text."""
        assert self.lines("text: {addenda: newest, heading: 'No. {number}'}") == [
            ("3", "No. 2"),
            ("3", "later"),
        ]

    def test_formatted(self) -> None:
        """Each section is an OBX; lines end with .br."""
        assert self.lines("text: {layout: formatted, addenda: none}") == [("1", "one\n\n  two")]

    def test_repetitions(self) -> None:
        """Each section is an OBX; lines are repetitions."""
        message = rendered(self.CONTEXT, results("text: {layout: repetitions, addenda: none}"))
        assert message.values("OBX-5") == ["one", " ", "  two"]

    def test_heading_placeholders(self) -> None:
        """Only the known placeholders are accepted, without attributes of objects."""
        mine = "include: results.yaml\ntext: {heading: '{number.__class__} {signed}'}\n"
        (issue,) = check_sources({**SHIPPED, "mine.yaml": mine}, ["mine"], tables=False)[:1]
        assert issue.code == "unknown-placeholder"


@pytest.mark.parametrize("version", ["2.3", "2.5.1"])
def test_one_obr_names_all_orders(version: str) -> None:
    """`orders: repeated`: the n-th repetition is about the n-th order; the text is sent once."""
    numbers = [("P1", "F1"), ("", "F2"), ("P3", "F3")]
    found = [
        ResultOrder({**TAGS, "Accession": f"A{number}"}, {}, placer, filler)
        for number, (placer, filler) in enumerate(numbers, start=1)
    ]
    mapping = results(f"orders: repeated\nversion: '{version}'")
    sent = Message.parse(mapping.render(replace(CONTEXT, orders=tuple(found))))
    assert mapping.combined
    assert [segment.id for segment in sent.segments].count("OBR") == 1
    assert [segment.id for segment in sent.segments].count("ORC") == 1
    (obr,) = sent.named("OBR")
    assert obr.field_text(2) == "P1~~P3"
    assert obr.field_text(3) == "F1~F2~F3"
    assert sent.value("ORC-1") == "RE"
    (one,) = found[:1]
    alone = Message.parse(mapping.render(replace(CONTEXT, orders=(one,))))
    assert alone.value("OBR-2") == "P1"
    texts = [segment.value("5") for segment in sent.named("OBX")]
    assert texts == [segment.value("5") for segment in alone.named("OBX")]


def test_combined_report() -> None:
    """Linked orders in one message: CN, then RE with the text; each has its accession."""
    second = ResultOrder({**TAGS, "Accession": "A2"}, {"Dose": "3"}, "P2", "F2")
    message = rendered(replace(CONTEXT, orders=(ORDER, second)))
    assert [s.value("ORC-1") for s in message.named("ORC")] == ["CN", "RE"]
    assert [s.value("OBR-1") for s in message.named("OBR")] == ["1", "2"]
    last = [s.id for s in message.segments].index("OBR", 5)
    assert [s.value("OBX-5") for s in message.segments[last:] if s.id == "OBX"] == [
        "All well.",
        "3",
    ]
    assert not SHIPPED_RESULTS.combined
    assert results("orders: combined").combined


class TestMetadata:
    """Metadata is sent according to the definition."""

    CONTEXT = replace(CONTEXT, orders=(replace(ORDER, metadata={"Room": "12", "Z": {"a": 1}}),))

    def test_as_obx(self) -> None:
        """Each key is an OBX with status O; values other than texts are JSON."""
        found = [s for s in rendered(self.CONTEXT).named("OBX") if s.value("OBX-3.1") == "METADATA"]
        assert [(s.value("OBX-3.2"), s.value("OBX-5"), s.value("OBX-11")) for s in found] == [
            ("Room", "12", "O"),
            ("Z", '{"a": 1}', "O"),
        ]

    def test_as_nte_and_z_segment(self) -> None:
        """Metadata is sent as notes or in a Z segment."""
        mine = """
            metadata: {send: [Room]}
            segments:
              - MSH: {9: [ORU, R01], 10: $control_id, 11: [P], 12: ["2.5.1"]}
              - each: metadata
                segments:
                  - NTE: {1: $set_id, 3: $value}
                  - ZMD: {1: $set_id, 2: $key, 3: $value}
        """
        message = rendered(self.CONTEXT, results(mine))
        assert [s.text() for s in message.segments[1:]] == ["NTE|1||12", "ZMD|1|Room|12"]

    def test_each_key_its_own_place(self) -> None:
        """Conditions on the key select the segment."""
        mine = """
            segments:
              - MSH: {9: [ORU, R01], 10: $control_id, 11: [P], 12: ["2.5.1"]}
              - each: metadata
                segments:
                  - NTE: {1: $set_id, 3: $value}
                    when: {$key: Room}
                  - ZMD: {1: $key, 2: $value}
                    when: {$key: {not: Room}}
        """
        message = rendered(self.CONTEXT, results(mine))
        assert [s.text() for s in message.segments[1:]] == ["NTE|1||12", 'ZMD|Z|{"a": 1}']

    @pytest.mark.parametrize(
        ("when", "written"),
        [
            ("{not: {$key: Room}}", ["Z"]),
            ("{any: [{$key: Room}, {$key: Z}]}", ["Room", "Z"]),
            ("{any: [{$key: X}, {not: {$key: {matches: oo}}}]}", ["Z"]),
            ("{not: {any: [{$key: Room}, {$key: Z}]}}", []),
            ("{not: {$key: Room}, $value: 12}", []),
        ],
    )
    def test_conditions_combine_as_those_of_inbound_rules(
        self, when: str, written: list[str]
    ) -> None:
        """`any` and `not` may be nested; further entries must hold too."""
        mine = f"""
            segments:
              - MSH: {{9: [ORU, R01], 10: $control_id, 11: [P], 12: ["2.5.1"]}}
              - each: metadata
                segments:
                  - ZMD: {{1: $key}}
                    when: {when}
        """
        message = rendered(self.CONTEXT, results(mine))
        assert [s.value("ZMD-1") for s in message.segments[1:]] == written


CONTROLS = [chr(code) for code in (*range(0x20), 0x7F) if chr(code) not in "\t\r\n"]
"""Control characters that a reader leaves as they are written (`\\X1F\\`)."""
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=CONTROLS), max_size=40)


OWN_PLACES = {"placerordernumber", "fillerordernumber", "placerfield2", "fillerfield1"}
KEY = TEXT.filter(lambda key: key[:1] not in {"", "Z", "z"} and key.lower() not in OWN_PLACES)
"""The Metadata that become an OBX: not the fields of a Z segment, nor what OBR has a field for."""


@settings(max_examples=200, deadline=None)
@given(line=TEXT, name=TEXT, key=KEY, value=TEXT.filter(bool))
def test_any_text_survives(line: str, name: str, key: str, value: str) -> None:
    """Delimiters, line ends, tabs and any script are preserved."""
    order = replace(ORDER, tags={**TAGS, "StudyDescription": name}, metadata={key: value}, echo=())
    raw = SHIPPED_RESULTS.render(replace(CONTEXT, orders=(order,), report_text=f"x{line}x"))
    message = Message.parse(raw)
    texts = [s.value("OBX-5") for s in message.named("OBX") if s.value("OBX-3.1") == "18748-4"]
    expected = f"x{line}x".replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert texts == [item.rstrip() or " " for item in expected]
    if name and name.strip() == name:
        assert message.value("OBR-4.2") == name
    (found,) = [s for s in message.named("OBX") if s.value("OBX-3.1") == "METADATA"]
    assert (found.value("OBX-3.2"), found.value("OBX-5")) == (key, value)


OUTBOUND_MISTAKES = {
    "variable": ("segments: [{MSH: {10: $contol_id}}]", "did you mean 'control_id'?"),
    "segment": ("segments: [{MSH: {9: x}}, {OBY: {1: x}}]", "unknown segment 'OBY'"),
    "field": ("segments: [{MSH: {9: x, two: x}}]", "'two' is no field number of MSH"),
    "delimiters": ("segments: [{MSH: {2: x}}]", "'2' is no field number of MSH"),
    "no MSH": ("segments: [{PID: {1: x}}]", "the first segment must be MSH"),
    "loop": ("segments: [{MSH: {9: x}}, {each: order, segments: []}]", "did you mean 'orders'?"),
    "event": ("statuses: {finale: {result: F}}", "did you mean 'final'?"),
    "layout": ("text: {layout: line}", "did you mean 'lines'?"),
    "type": ("segments: [{MSH: {9: {echo: MSH-9, type: CY}}}]", "unknown data type 'CY'"),
    "kind of value": ("segments: [{MSH: {9: {ecko: MSH-9}}}]", "give one of echo, first"),
    "condition": ("segments: [{MSH: {9: x}, when: {event: final}}]", "variables begin with $"),
}


@pytest.mark.parametrize(("text", "expected"), OUTBOUND_MISTAKES.values(), ids=OUTBOUND_MISTAKES)
def test_mistakes(text: str, expected: str) -> None:
    """An error in an outbound definition has its location."""
    sources = {**SHIPPED, "mine.yaml": f"include: results.yaml\n{text}\n"}
    issues = check_sources(sources, ["mine"], tables=False)
    assert any(expected in issue.message and issue.line == 2 for issue in issues), issues


@pytest.mark.parametrize(("policy", "written"), [("", "XY"), (", unknown: empty", "")])
def test_unmapped_codes(policy: str, written: str) -> None:
    """The policy applies to unmapped codes, and they are collected with their source."""
    mapping = results(
        f"""
        segments:
          - MSH: {{9: $message, 10: $control_id}}
          - ZMO: {{1: {{value: $order.Modality, codes: modality{policy}}}}}
        """
    )
    missed: list[UnmappedCode] = []
    order = replace(ORDER, tags={**TAGS, "Modality": "XY"})
    raw = mapping.render(replace(CONTEXT, orders=(order,), unmapped_codes=missed)).decode()
    assert raw.split("\r")[1].rstrip("|") == f"ZMO|{written}".rstrip("|")
    policy_of_code = "empty" if policy else "keep"
    assert missed == [UnmappedCode("modality", "XY", "$order.Modality", policy_of_code)]


def test_a_code_that_is_refused() -> None:
    """Nothing is rendered; an order without the value has no unmapped code."""
    mapping = results(
        """
        segments:
          - MSH: {9: $message, 10: $control_id}
          - ZMO: {1: {value: $order.Modality, codes: modality, unknown: refuse}}
        """
    )
    missed: list[UnmappedCode] = []
    other, none = (replace(ORDER, tags={**TAGS, "Modality": value}) for value in ("XY", ""))
    with pytest.raises(CodeRefused, match="modality has no entry"):
        mapping.render(replace(CONTEXT, orders=(other,), unmapped_codes=missed))
    assert missed == [UnmappedCode("modality", "XY", "$order.Modality", "refuse")]
    assert mapping.render(replace(CONTEXT, orders=(none,)))


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.tags["Accession"])
class TestEveryOrder:
    """Three parsers read the result of each order alike."""

    @pytest.mark.parametrize("event", [*sorted(SHIPPED_RESULTS.events), ResultEvent.ORDER_STATUS])
    def test_structure(self, order: ResultOrder, event: ResultEvent) -> None:
        """The result passes hl7apy's structural validation."""
        mapping = SHIPPED_RESULTS if event in SHIPPED_RESULTS.events else results(name="status")
        context = replace(CONTEXT, event=event, orders=(order,), report_status="Draft")
        assert valid(mapping.render(context))

    def test_identity(self, order: ResultOrder) -> None:
        """Patient, accession and numbers are those of the order."""
        message = rendered(replace(CONTEXT, orders=(order,)))
        assert order.tags["PatientMRN"] in message.values("PID-3.1")
        accession = (message.value("OBR-18"), message.value("OBR-3.1"), message.value("OBR-20"))
        assert order.tags["Accession"] in accession
        assert message.value("ORC-2.1") == order.placer


@pytest.mark.parametrize(
    ("sent", "exam_time", "returned"),
    [
        ("20260302080000+0100", "202603020730", "202603020730+0100"),
        ("20260302080000-0330", "202603020730+0200", "202603020730+0200"),
        ("20260302080000-0330", "202603020730", "202603020730-0330"),
        ("20260302080000+0100", "20260302", "20260302"),
        ("20260302080000", "202603020730", "202603020730"),
    ],
)
def test_times_without_an_offset(sent: str, exam_time: str, returned: str) -> None:
    """Times of the order have the offset of its MSH-7, or none if configured."""
    echo = (f"MSH|^~\\&|RIS|H|B|R|{sent}||ORM^O01|1|P|2.5.1", f"OBR|1|P|F|1^CT|||{exam_time}")
    context = replace(CONTEXT, orders=(replace(CONTEXT.orders[0], echo=echo),))
    assert rendered(context).value("OBR-7") == returned
    local = Message.parse(results("times: local").render(context))
    assert local.value("OBR-7") == exam_time


def test_copies_to() -> None:
    """OBR-28 is repeated with repetitions and authorities, for all values of `echo`."""
    copies = "44^Copy^Carl^^^^^^AUTH&1.2.3&ISO~45^Other^Olga"
    echo = ("MSH|^~\\&|RIS|H|B|R|2026||ORM^O01|1|P|2.5.1", f"OBR|1|P|F|1^CT{'|' * 24}{copies}")
    raw = SHIPPED_RESULTS.render(replace(CONTEXT, orders=(replace(CONTEXT.orders[0], echo=echo),)))
    assert valid(raw)
    assert copies.encode() in raw.split(b"\rOBR|")[1].split(b"|")[27:28]
