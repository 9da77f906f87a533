"""The shipped orders definition: groups, order control, links, Metadata, refusals."""

import json
from typing import Any

import pytest

from mappings.hl7.message import Message
from mappings.hl7.refusals import (
    MessageRefusal,
    MissingField,
    TableValueNotFound,
    TooManyGroups,
    TooMuchShared,
)
from mappings.inbound.definition import MAX_GROUPS, InboundMapping
from mappings.inbound.events import CHILD_OF, LinkSignal, OrderAction, OrderEvent
from mappings.inbound.order_mapping import AbsentTags
from mappings.language.rules import TAGS
from tests.mappings.definitions import (
    DEFAULTS,
    MSH,
    PID,
    inbound_mapping,
    mapped,
    message,
    overlaid,
)

SHIPPED = inbound_mapping("orders")


def events(*segments: str, mapping: InboundMapping = SHIPPED) -> list[OrderEvent]:
    return mapping.apply(message(*segments), DEFAULTS)


def signals(event: OrderEvent) -> dict[str, str]:
    return {signal.kind: signal.value for signal in event.link_signals if signal.kind != CHILD_OF}


def order(number: str, *, control: str = "NW", orc: str = "", obr: str = "") -> tuple[str, str]:
    """Return an ORC and an OBR; `orc` and `obr` are the fields from ORC-4 and OBR-5."""
    return f"ORC|{control}|{number}||{orc}", f"OBR|1|{number}||X^Test|{obr}"


def test_unknown_control_can_be_ignored() -> None:
    """A setting of the definition accepts unknown codes."""
    mine = overlaid("order_control: {unknown: ignore}")
    (event,) = events(*order("P1", control="QQ"), mapping=mine)
    assert event.action is OrderAction.IGNORE


@pytest.mark.parametrize(
    ("orc", "numbers"),
    [("P0", ["P0"]), ("P0&RIS^F0&PACS", ["P0", "F0"]), ("^F0", ["F0"]), ("", []), ('""', [])],
)
def test_a_child_names_its_parent(orc: str, numbers: list[str]) -> None:
    """ORC-8 has the placer and filler number of the parent; either is sufficient."""
    (event,) = events(f"ORC|CH|P1||||||{orc}", "OBR|1|P1||X")
    found = [signal for signal in event.link_signals if signal.kind == CHILD_OF]
    assert found == [LinkSignal(CHILD_OF, number) for number in numbers]


class TestGroups:
    """Where an order ends and the next begins."""

    def test_one_event_a_group(self) -> None:
        """Each ORC/OBR group is an event with its own location."""
        found = events(*order("P1"), *order("P2"))
        assert [(e.place, e.accession) for e in found] == [("ORC[1]", "P1"), ("ORC[2]", "P2")]

    def test_not_imaging(self) -> None:
        """A group of diet, supplies or drugs is ignored, its neighbours are mapped."""
        found = events("ORC|NW|D1", "ODS|D||^SOFT", *order("P2"), "ORC|NW|R1", "RXO|X")
        assert [e.action for e in found] == [
            OrderAction.IGNORE,
            OrderAction.CREATE,
            OrderAction.IGNORE,
        ]

    def test_second_obr_of_an_orc(self) -> None:
        """The previous ORC applies to an OBR without ORC."""
        found = events("ORC|CA|P0", "OBR|1|P1||X", "OBR|2|P2||Y")
        assert [(e.action, e.place) for e in found] == [
            (OrderAction.CANCEL, "ORC[1]"),
            (OrderAction.CANCEL, "OBR[2]"),
        ]

    def test_segments_of_neighbours_do_not_mix(self) -> None:
        """Notes, values and ZDS belong to the group that contains them."""
        one, two = events(*order("P1"), "NTE|1||one", "ZDS|1.2.1", *order("P2"), "NTE|1||two")
        assert (one.clinical_info["Notes"], two.clinical_info["Notes"]) == ("one", "two")
        assert "StudyInstanceUID" not in two.clinical_info

    def test_zds_after_orders_of_other_accessions(self) -> None:
        """The last ZDS does not apply to orders of another accession."""
        one, two = events(*order("P1"), *order("P2"), "ZDS|1.2.2")
        assert "StudyInstanceUID" not in one.clinical_info
        assert two.clinical_info["StudyInstanceUID"] == "1.2.2"

    def test_two_patients(self) -> None:
        """A second PID starts a new patient, with another lane."""
        text = [MSH, PID, *order("P1"), "PID|2||M2^^^NORTH^MR||Roe^Rick", *order("P2")]
        both = Message.parse("\r".join(text).encode())
        assert isinstance(SHIPPED, InboundMapping)
        found = SHIPPED.apply(both, DEFAULTS)
        assert [(e.mrn, signals(e)) for e in found] == [("M1", {}), ("M2", {})]
        assert SHIPPED.pre_check(both, DEFAULTS).lanes == ("SITE1|M1", "SITE1|M2")

    def test_only(self) -> None:
        """A condition ignores groups of other departments."""
        mine = overlaid("only: {OBR-24: [CT, MR]}")
        found = events("ORC|NW|P1", "OBR|1|P1||X", *order("P2", obr="|" * 19 + "CT"), mapping=mine)
        assert [e.action for e in found] == [OrderAction.IGNORE, OrderAction.CREATE]


class TestLinks:
    def test_groups_of_one_message(self) -> None:
        """The groups of a message have one signal, whatever its control id."""
        found = events(*order("P1"), *order("P2"))
        assert [signals(e) for e in found] == [{"message-group": "P1"}] * 2

    def test_unless_orc_4_differs(self) -> None:
        """Groups with different ORC-4 are not linked."""
        found = events(*order("P1", orc="G1"), *order("P2", orc="G2"), *order("P3", orc="G2"))
        assert [signals(e) for e in found] == [{}, {"message-group": "P2"}, {"message-group": "P2"}]

    def test_switched_off(self) -> None:
        """A setting disables a signal."""
        mine = overlaid("links: {message-group: off, study-uid: {on: false}}")
        found = events(*order("P1"), "ZDS|1.2", *order("P2"), "ZDS|1.2", mapping=mine)
        assert [signals(e) for e in found] == [{}, {}]

    @pytest.mark.parametrize(
        "text", ["PRINTSET: A", "Printset: A", "x^printset:A", "12&printset: A"]
    )
    def test_printset(self, text: str) -> None:
        """ORC-8 or OBR-29 with PRINTSET, in any case, makes ORC-4 a signal."""
        assert signals(mapped("", f"ORC|NW|P1||G7||||{text}", "OBR|1|P1||X")) == {"printset": "G7"}
        obr = "OBR|1|P1||X" + "|" * 25 + text
        assert signals(mapped("", "ORC|NW|P1||G7", obr)) == {"printset": "G7"}

    @pytest.mark.parametrize("text", ["EXAMSET: A", "no printset here", ""])
    def test_no_printset(self, text: str) -> None:
        """ORC-4 alone and an examset are not signals."""
        assert signals(mapped("", f"ORC|NW|P1||G7||||{text}", "OBR|1|P1||X")) == {}

    def test_off_by_default(self) -> None:
        """Group number, parent and a vendor's field are signals if enabled."""
        segments = ("ORC|NW|P1||G7||||PARENT1", "OBR|1|P1||X", "ZLK|1|L5")
        assert signals(mapped("", *segments)) == {}
        on = """
            links:
              order-group: {on: true}
              parent: {on: true}
              custom:order-link: {on: true}
        """
        expected = {"order-group": "G7", "parent": "PARENT1", "custom:order-link": "L5"}
        assert signals(mapped(on, *segments)) == expected

    def test_same_accession(self) -> None:
        """Groups with the same accession have a signal."""
        found = events(*order("P1", obr="|" * 13 + "A1"), *order("P2", obr="|" * 13 + "A1"))
        assert [signals(e)["accession"] for e in found] == ["A1", "A1"]


class TestRefusals:
    """Which messages are refused, and with which location."""

    def refusals(self, *segments: str, head: str = MSH, patient: str = PID) -> list[MessageRefusal]:
        parsed = Message.parse("\r".join((head, patient, *segments)).encode())
        assert isinstance(SHIPPED, InboundMapping)
        pre_check = SHIPPED.pre_check(parsed, DEFAULTS)
        return list(pre_check.refusals)

    def test_good(self) -> None:
        assert self.refusals(*order("P1")) == []

    def test_place_of_the_second_group(self) -> None:
        (refusal,) = self.refusals(*order("P1"), *order("P2", control="QQ"))
        assert isinstance(refusal, TableValueNotFound)
        assert refusal.place == "ORC[2]-1"

    def test_all_at_once(self) -> None:
        """One answer has all missing fields, each once."""
        found = self.refusals("ORC||", "OBR|1", "ORC||", "OBR|2", patient="PID|1")
        assert all(isinstance(item, MissingField) for item in found)
        assert [item.place for item in found] == [
            "ORC-1",
            "PID-3.1",
            "OBR-18",
            "ORC[2]-1",
            "OBR[2]-18",
        ]

    def test_unchecked_message(self) -> None:
        """Mapping refuses a message that was not pre-checked."""
        with pytest.raises(MissingField, match="OBR-18"):
            events("ORC|NW", "OBR|1")

    def test_no_values_in_texts(self) -> None:
        """The text of a refusal has locations, never values."""
        for refusal in self.refusals(*order("P1", control="SECRET"), patient="PID|1||||CANARY"):
            assert "SECRET" not in refusal.text
            assert "CANARY" not in refusal.text


class TestMetadata:
    def test_observations_become_keys(self) -> None:
        """Each observation becomes a key; equal names are numbered; coded values are texts."""
        (event,) = events(
            *order("P1"),
            "OBX|1|NM|1^Weight||80|kg",
            "OBX|2|CE|2^Allergy||A^Penicillin",
            "OBX|3|CE|2^Allergy||B^Nuts",
            "OBX|4|ED|3^Picture||^IM^JPEG^Base64^AAAA",
        )
        metadata = event.clinical_info["Metadata"]
        assert {k: v for k, v in metadata.items() if k != "PlacerOrderNumber"} == {
            "Weight": "80 kg",
            "Allergy": "Penicillin",
            "Allergy (2)": "Nuts",
        }

    def test_any_key(self) -> None:
        """A definition can add keys and whole segments."""
        mine = 'metadata: {values: {Ward: PV1-3.1}, keep: [IN1, "Z*"]}'
        event = mapped(mine, "PV1|1|I|W3", "IN1|1|PLAN", *order("P1"), "ZAB|1|x^y")
        metadata = event.clinical_info["Metadata"]
        assert metadata["Ward"] == "W3"
        assert (metadata["IN1"], metadata["ZAB"]) == ("IN1|1|PLAN", "ZAB|1|x^y")


class TestSizes:
    """An acknowledged order fits the limits of the report service."""

    def test_long_texts(self) -> None:
        """Texts are cut to the limits of the report service; notes may be long."""
        (event,) = events("ORC|NW|P1", f"OBR|1|P1||X^{'d' * 3000}", f"NTE|1||{'n' * 3000}")
        assert len(event.clinical_info["StudyDescription"]) == 1024
        assert event.clinical_info["StudyDescription"].endswith("d…")
        assert len(event.clinical_info["Notes"]) == 3000

    def test_endless_identifier(self) -> None:
        """An identifier is not cut: the message is refused."""
        assert isinstance(SHIPPED, InboundMapping)
        (issue,) = SHIPPED.check(message("ORC|NW|P1", f"OBR|1|{'9' * 2000}"), DEFAULTS)
        assert (issue.code, issue.path) == ("102", "OBR-18")
        assert "longer than 1024" in issue.message

    def test_any_number_of_one_key(self) -> None:
        """Any number of equal keys is numbered in linear time."""
        many = [f"OBX|{n}|TX|A^b||{n}" for n in range(30_000)]
        (event,) = events(*order("P1"), *many[:3])
        found = event.clinical_info["Metadata"]
        assert [found[key] for key in ("b", "b (2)", "b (3)")] == ["0", "1", "2"]
        (event,) = events(*order("P1"), *many)
        assert "b (2)" in event.clinical_info["Metadata"]

    def test_metadata_that_does_not_fit(self) -> None:
        """Keys beyond the limit are omitted and listed."""
        values = [f"OBX|{n}|TX|{n}^Key {n}||{'✓' * 2000}" for n in range(30)]
        (event,) = events(*order("P1"), *values, "ZAB|1|last")
        metadata = event.clinical_info["Metadata"]
        assert len(json.dumps(metadata, ensure_ascii=False).encode()) < 65_536
        assert metadata["Key 0"] == "✓" * 2000
        assert "Key 29" in metadata["MetadataOmitted"]
        assert metadata["ZAB"] == "ZAB|1|last"


def test_echo_keeps_segments_as_sent() -> None:
    """The echo has segments as sent, MSH first."""
    (event,) = events(*order("P1"), "NTE|1||not this", "ZDS|1.2^A&B")
    assert event.echo == (MSH, PID, *order("P1"), "ZDS|1.2^A&B")


def test_a_message_with_too_many_orders_is_refused() -> None:
    """The whole message is refused, with the location of the first order beyond the limit."""
    orders = [segment for at in range(MAX_GROUPS + 1) for segment in order(f"P{at}")]
    accepted, refused = message(PID, *orders[:-2]), message(PID, *orders)
    assert not SHIPPED.check(accepted, DEFAULTS)
    assert len(SHIPPED.apply(accepted, DEFAULTS)) == MAX_GROUPS

    (issue,) = SHIPPED.check(refused, DEFAULTS)
    assert isinstance(issue.refusal, TooManyGroups)
    with pytest.raises(TooManyGroups):
        SHIPPED.apply(refused, DEFAULTS)


THOUSAND = [segment for at in range(MAX_GROUPS) for segment in order(f"P{at}")]
SHARED = {
    "a large segment before all orders": ("NTE|1||" + "x" * 40_000, *THOUSAND),
    "many segments before all orders": (*["OBX|1|NM|A||1"] * 60, *THOUSAND),
    "many repetitions before all orders": ("NTE|1||" + "~" * 1000, *THOUSAND),
    "many escapes before all orders": ("NTE|1||" + "\\F\\" * 500, *THOUSAND),
    "many components in an ORC of many OBR": (
        "ORC|NW|P1" + "|" * 20 + "^" * 1000,
        *["OBR|1|P1||X^Test"] * MAX_GROUPS,
    ),
    "an ORC of many OBR": (
        "ORC|NW|P1" + "|" * 20 + "x" * 40_000,
        *["OBR|1|P1||X^Test"] * MAX_GROUPS,
    ),
    "a ZDS after orders of one accession": (
        "ORC|NW|P1",
        *["OBR|1|||X^Test" + "|" * 14 + "A1"] * MAX_GROUPS,
        "ZDS|1.2.3|" + "x" * 40_000,
    ),
}


@pytest.mark.parametrize("segments", SHARED.values(), ids=SHARED)
def test_orders_that_share_too_much_are_refused(segments: tuple[str, ...]) -> None:
    """Each order reads and stores the shared segments: a small frame could fill the disk."""
    shared = message(*segments)
    (issue,) = SHIPPED.check(shared, DEFAULTS)
    assert isinstance(issue.refusal, TooMuchShared)
    with pytest.raises(TooMuchShared):
        SHIPPED.apply(shared, DEFAULTS)


def test_several_zds_after_the_orders_are_of_the_last_one() -> None:
    """IHE RAD-4 sends one ZDS for all orders; many would multiply by the orders."""
    obr = "OBR|1|||X^Test" + "|" * 14 + "A1"
    one, two = events("ORC|NW|P1", obr, "ORC|NW|P2", obr, "ZDS|1.2.3", "ZDS|1.2.4")
    assert len(one.echo) == len(two.echo) - 2


@pytest.mark.parametrize(
    ("declared", "expected"),
    [("", "of the listener (MSH-18 is empty)"), ("UNICODE UTF-8", "that MSH-18 declares")],
)
def test_bytes_in_another_character_set(declared: str, expected: str) -> None:
    header = MSH + "|" * 6 + declared if declared else MSH
    raw = "\r".join([header, PID.replace("Doe", "Dö"), *order("P1")]).encode("latin-1")
    (warning,) = SHIPPED.check(Message.parse(raw), DEFAULTS)
    assert expected in warning.message
    assert warning.message.endswith(("read as iso8859-1", "read as cp1252", "read as latin-1"))


def obr(code: str = "X^Test", section: str = "", specimen: str = "", orderer: str = "") -> str:
    """Return an OBR with OBR-4, OBR-24, OBR-15 and OBR-16."""
    return f"OBR|1|P1||{code}|||||||||||{specimen}|{orderer}||||||||{section}"


def info(*segments: str) -> dict[str, Any]:
    (event,) = SHIPPED.apply(message(*segments), DEFAULTS)
    return dict(event.clinical_info)


def action(*segments: str, mapping: InboundMapping = SHIPPED) -> OrderAction:
    return mapping.apply(message(*segments), DEFAULTS)[0].action


@pytest.mark.parametrize(
    "order",
    [
        (obr("CBC^Complete Blood Count^L", "HM"),),
        (obr("GLU^Glucose^L", "CH"),),
        (obr("X^Anything^L", "Lab"),),
        (obr("24331-1^Lipid panel with direct LDL^LN"),),
        (obr("57021-8^CBC^LN"),),
        (obr("718-7^Hemoglobin^LN", specimen="BLOOD"),),
        (obr("X^Culture^L", specimen="SP1&1^Blood spot specimen"),),
        (obr("X^Biopsy^L"), "SPM|1|S1||SKBP^Skin^HL70487"),
        (obr("X^Biopsy^L", "SP"), "SPM|1|S1||SKBP^Skin^HL70487"),
    ],
)
def test_laboratory_orders_are_ignored(order: tuple[str, ...]) -> None:
    """OBR-24, else a specimen or a panel decides. One line of a definition accepts them."""
    assert action("ORC|NW|P1", *order) is OrderAction.IGNORE
    mine = overlaid("only: {MSH-9: {present: true}}")
    assert action("ORC|NW|P1", *order, mapping=mine) is OrderAction.CREATE
    assert not SHIPPED.check(message("ORC|NW|P1", *order), DEFAULTS)


@pytest.mark.parametrize(
    "order",
    [
        *(
            (obr("X^Test", section),)
            for section in ("CT", "MR", "RX", "RAD", "CUS", "PT", "SP", "")
        ),
        (obr("X^CT Knee", "CT", specimen="^^^KNEE&Knee&L"),),
        (obr("X^MR Blood vessels of the neck"),),
        (obr("X^PET Perfusion panel", "PT"),),
        (obr("X^CT Chest", specimen="CHEST"),),
        (obr("X^Image-guided biopsy", "CT"), "SPM|1|S1||SKBP^Skin^HL70487"),
        (obr("X^Panel view"), "IPC|A1|R1|1.2.3"),
        (),
    ],
)
def test_imaging_orders_are_accepted(order: tuple[str, ...]) -> None:
    assert action("ORC|NW|P1", *order) is OrderAction.CREATE


@pytest.mark.parametrize(
    ("section", "modality"),
    [("CT", "CT"), ("mri", "MR"), ("CUS", "US"), ("XR", "DX"), ("RAD", None), ("OTH", None)],
)
def test_modality_is_one_of_dicom(section: str, modality: str | None) -> None:
    """Other values of OBR-24 are not a modality."""
    assert info("ORC|NW|P1", obr("X^Test", section)).get("Modality") == modality


def test_a_bare_identifier_is_no_name() -> None:
    """The next location with a name is used. Without one there is no name."""
    known = info("ORC|NW|P1||||||||||4711^Welby^Ann", obr(orderer="4711"))
    assert known["ReferringPhysician"] == "Ann Welby"
    assert "ReferringPhysician" not in info("ORC|NW|P1", obr(orderer="4711"))


def test_allergies_are_visible() -> None:
    """AL1 is in the notes, in front and complete, and in the Metadata."""
    tags = info("AL1|1|DA|PEN^Penicillin", "AL1|2|DA|IODINE", "ORC|NW|P1", obr(), "NTE|1||Note")
    assert tags["Notes"] == "Allergies: Penicillin, IODINE\nNote"
    assert tags["Metadata"]["Allergies"] == "Penicillin, IODINE"
    without = info("ORC|NW|P1", obr(), "NTE|1||Note")
    assert without["Notes"] == "Note"
    assert "Allergies" not in without["Metadata"]


@pytest.mark.parametrize(
    ("sent", "code"),
    [("S", "S"), ("STAT", "S"), ("stat", "S"), ("Routine", "R"), ("ASAP", "A"), ("3", "3")],
)
@pytest.mark.parametrize("place", ["ORC-7.6", "TQ1-9", "OBR-5", "OBR-27.6"])
def test_priority_is_a_code(place: str, sent: str, code: str) -> None:
    """Priorities are codes of table 0485; a code that the code table lacks is kept."""
    order = obr()
    if place == "OBR-5":
        order = order.replace("|X^Test|", f"|X^Test|{sent}")
    if place == "OBR-27.6":
        order += f"|||^^^^^{sent}"
    timing = ("TQ1|1||||||||" + sent,) if place == "TQ1-9" else ()
    orc = "ORC|NW|P1" + (f"|||||^^^^^{sent}" if place == "ORC-7.6" else "")
    assert info(orc, *timing, order)["Metadata"]["Priority"] == code


def absent(*segments: str, mapping: InboundMapping = SHIPPED) -> set[str]:
    bits, _ = mapping.absent_tags(message(*segments), DEFAULTS)
    return {tag for number, tag in enumerate(TAGS) if bits >> number & 1}


def test_the_tags_that_an_order_lacks_are_those_without_a_value() -> None:
    """A null counts as absent; one order of several is sufficient."""
    first, second = order("P1", obr="|||||||||||||||||||CT"), order("P2")
    (one,) = events(*first)
    lacking = {tag for tag in TAGS if not one.clinical_info.get(tag)}
    assert "Modality" not in lacking
    assert absent(*first) == lacking
    assert absent(*first, *second) == lacking | {"Modality"}
    assert SHIPPED.absent_tags(message(*first, *second), DEFAULTS).orders == 2
    assert "Modality" in absent(*order("P1", obr='|||||||||||||||||||""'))


def test_a_message_without_orders_lacks_nothing() -> None:
    """Also one of a definition of patients, and one that cannot be split."""
    assert SHIPPED.absent_tags(message(), DEFAULTS) == AbsentTags()
    patients = inbound_mapping("patients")
    assert patients.absent_tags(message(*order("P1")), DEFAULTS) == AbsentTags()
