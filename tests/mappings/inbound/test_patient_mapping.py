"""The shipped patients definition: ADT events."""

from functools import partial

import pytest

from mappings.compiler import DEFINITIONS, compile_sources, load, read_folder
from mappings.hl7.header import peek
from mappings.hl7.message import Message
from mappings.hl7.refusals import (
    DuplicateKeyIdentifier,
    IdentifierTooLong,
    MissingField,
    TooManyRepetitions,
    TooMuchShared,
    UnsupportedEvent,
)
from mappings.inbound.definition import InboundMapping
from mappings.inbound.events import OrderAction, OrderEvent
from tests.calls import counted
from tests.mappings.definitions import DEFAULTS

SHIPPED = load(DEFINITIONS, "patients")
assert isinstance(SHIPPED, InboundMapping)
PID = "PID|1||M1^^^NORTH^MR||Doe^Jane||19800102|F"


def adt(trigger: str, *segments: str) -> Message:
    head = f"MSH|^~\\&|RISA|NORTH|||20260302||ADT^{trigger}|C1|P|2.5.1"
    return Message.parse("\r".join((head, "EVN||20260302", *segments)).encode())


def events(trigger: str, *segments: str) -> list[OrderEvent]:
    assert isinstance(SHIPPED, InboundMapping)
    return SHIPPED.apply(adt(trigger, *segments), DEFAULTS)


UPDATES = [*(f"A{n:02}" for n in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12)), "A28", "A31"]
MERGES = ["A18", "A30", "A34", "A36", "A39", "A40", "A46", "A47"]
MOVES = ["A35", "A41", "A42", "A44", "A45", "A49", "A50"]
PASSES = ["A11", "A13", "A23", "A24", "A29", "A38", "A99"]


@pytest.mark.parametrize("trigger", UPDATES)
def test_update(trigger: str) -> None:
    """Events with demographics update them."""
    (event,) = events(trigger, PID)
    assert (event.action, event.mrn, event.site) == (OrderAction.PATIENT_UPDATE, "M1", "SITE1")
    assert event.clinical_info["PatientName"] == "Doe^Jane"


@pytest.mark.parametrize("trigger", MERGES)
def test_merge(trigger: str) -> None:
    """Merges have the surviving and the prior number, and both lanes."""
    segments = (PID, "MRG|M0^^^NORTH^MR")
    (event,) = events(trigger, *segments)
    assert (event.action, event.mrn, event.prior_mrn) == (OrderAction.PATIENT_MERGE, "M1", "M0")
    assert isinstance(SHIPPED, InboundMapping)
    assert SHIPPED.pre_check(adt(trigger, *segments), DEFAULTS).lanes == ("SITE1|M1", "SITE1|M0")


@pytest.mark.parametrize("trigger", MOVES)
def test_visit_move(trigger: str) -> None:
    """Moves of visits and accounts have the prior number, and the lanes of both patients."""
    segments = (
        PID + "|||||||||||ACC2",
        "MRG|M0^^^NORTH^MR||ACC1||V1",
        "PV1|1|I|W^1" + "|" * 16 + "V2",
    )
    (event,) = events(trigger, *segments)
    assert (event.action, event.mrn, event.prior_mrn) == (OrderAction.VISIT_MOVE, "M1", "M0")
    assert event.visit is not None
    assert (event.visit.key, event.visit.prior, event.visit.number) == ("VisitNumber", "V1", "V2")
    assert isinstance(SHIPPED, InboundMapping)
    assert SHIPPED.pre_check(adt(trigger, *segments), DEFAULTS).lanes == ("SITE1|M1", "SITE1|M0")


@pytest.mark.parametrize("trigger", MOVES)
def test_a_move_that_names_no_visit(trigger: str) -> None:
    """A move without a visit is accepted and ignored, also without a patient."""
    for segments in ((PID,), (PID, "PV1|1|I" + "|" * 17 + "V2"), (), ("MRG|M0||A1",)):
        assert [e.action for e in events(trigger, *segments)] == [OrderAction.IGNORE]


def test_several_visits_move() -> None:
    """A45 has one PID, and a pair of MRG and PV1 for each visit."""
    pairs = [f"MRG|M0||||V{n}\rPV1|1|I" + "|" * 17 + f"W{n}" for n in (1, 2)]
    found = [event.visit for event in events("A45", PID, *pairs)]
    assert [(item.prior, item.number) for item in found if item] == [("V1", "W1"), ("V2", "W2")]


def test_an_update_has_the_visit() -> None:
    """An update has the location of the patient for the orders of the visit."""
    (event,) = events("A02", PID, "PV1|1|I|WARD^12^2" + "|" * 16 + "V7")
    assert event.visit is not None
    assert event.visit.number == "V7"
    assert event.visit.values == {"PatientClass": "I", "PatientLocation": "WARD 12 2"}


@pytest.mark.parametrize("trigger", PASSES)
def test_pass(trigger: str) -> None:
    """Visit events and cancellations are accepted and ignored, also without a patient."""
    assert [e.action for e in events(trigger, PID)] == [OrderAction.IGNORE]
    assert [e.action for e in events(trigger)] == [OrderAction.IGNORE]
    assert [e.action for e in events(trigger, "PID|1|||||19800102")] == [OrderAction.IGNORE]


def test_a_merge_is_undone() -> None:
    """A43 has the patients in PID and MRG, A37 in two PID. Without a patient nothing happens."""
    unmerge = OrderAction.PATIENT_UNMERGE
    other = "PID|1||N2^^^NORTH^MR||OTHER^OLGA"
    found = [
        *events("A43", PID, "MRG|N2^^^NORTH^MR"),
        *events("A37", PID, "PV1|1|O", other),
        *events("A37", PID),
        *events("A43", PID),
    ]
    assert {item.action for item in found} == {unmerge}
    (number,) = {item.mrn for item in found}
    assert number == events("A08", PID)[0].mrn
    assert [item.prior_mrn for item in found] == ["N2", "N2", "", ""]
    assert [item.is_mutual for item in found] == [False, True, True, True]
    for trigger in ("A37", "A43"):
        for segments in ((), ("PID|1|||||19800102",)):
            assert [event.action for event in events(trigger, *segments)] == [OrderAction.IGNORE]


SEPARATED = {
    "two numbers": ("O1^^^N^MR~O2^^^N^MR", "K1^^^N^MR", {("O1", "K1"), ("O2", "K1")}),
    "of two patients": ("O1^^^N^MR", "K1^^^N^MR~K2^^^N^MR", {("O1", "K1"), ("O1", "K2")}),
    "of another authority": ("O1^^^N^MR~7^^^S^MR", "K1^^^N^MR~8^^^S^MR", {("O1", "K1")}),
    "of another type": ("7^^^GOV^SS~O1^^^N^MR", "8^^^GOV^SS~K1^^^N^MR", {("O1", "K1")}),
    "a number in both": ("P^^^N^MR~X^^^N^MR", "Q^^^N^MR~X^^^N^MR", {("P", "Q"), ("X", "Q")}),
}


@pytest.mark.parametrize("case", SEPARATED)
def test_each_number_is_separated(case: str) -> None:
    """Of each authority that the definition uses, A43 moves all numbers in PID-3, not the first."""
    numbers, priors, expected = SEPARATED[case]
    found = events("A43", f"PID|1||{numbers}||OTHER^OLGA", f"MRG|{priors}")
    assert {(item.mrn, item.prior_mrn) for item in found} == expected
    assert all(item.clinical_info["PatientMRN"] == item.mrn for item in found)
    others = events("A37", f"PID|1||{numbers}||OTHER^OLGA", f"PID|2||{priors}||ROE^RIA")
    assert {(item.mrn, item.prior_mrn) for item in others} == expected
    (group,) = {item.place for item in found}
    assert group == "PID[1]"


@pytest.mark.parametrize("trigger", ["A40", "A43", "A45"])
def test_a_message_with_very_many_pairs(trigger: str) -> None:
    """It is refused: each pair is a call to the report engine."""
    numbers = "~".join(f"O{number}^^^N^MR" for number in range(500))
    segments = (f"PID|1||{numbers}||OTHER^OLGA", f"MRG|{numbers.replace('O', 'K')}||||V1")
    with pytest.raises(TooManyRepetitions):
        events(trigger, *segments, "PV1|1|O|||||||||||||||||V1")


REFUSED = {
    "a query": ("A19", (PID,), UnsupportedEvent, "MSH-9.2"),
    "no patient": ("A08", (), MissingField, "PID"),
    "no number": ("A08", ("PID|1||^^^NORTH^MR",), MissingField, "PID-3.1"),
    "no prior number": ("A40", (PID, "MRG|"), MissingField, "MRG-1.1"),
    "a type and no prior number": ("A40", (PID, "MRG|^^^NORTH^MR"), MissingField, "MRG-1.1"),
    "a null as prior number": ("A40", (PID, 'MRG|""'), MissingField, "MRG-1.1"),
    "a type and a null": ("A40", (PID, 'MRG|""^^^NORTH^MR'), MissingField, "MRG-1.1"),
    "nulls of several types": (
        "A40",
        (PID, 'MRG|""^^^X^NH~""^^^NORTH^MR'),
        MissingField,
        "MRG-1.1",
    ),
    "no MRG at all": ("A40", (PID,), MissingField, "MRG-1.1"),
    "with itself": ("A40", (PID, "MRG|M1^^^NORTH^MR"), DuplicateKeyIdentifier, "MRG-1.1"),
    "a type the patient does not have": (
        "A40",
        (PID, "MRG|N0^^^STATE^NH"),
        MissingField,
        "MRG-1.1",
    ),
    "too long": ("A40", (PID, f"MRG|{'M' * 1025}^^^NORTH^MR"), IdentifierTooLong, "MRG-1.1"),
    "second pair": (
        "A40",
        (PID, "MRG|M0", "PID|2||M3^^^NORTH^MR", "MRG|M3"),
        DuplicateKeyIdentifier,
        "MRG[2]-1.1",
    ),
    "many MRG after many segments": (
        "A40",
        (PID, *["NTE|1"] * 300, *[f"MRG|M{at}^^^NORTH^MR" for at in range(2, 302)]),
        TooMuchShared,
        "PID[1]",
    ),
    "many MRG after many numbers": (
        "A40",
        ("PID|1||M1" + "~M2" * 1000, *["MRG|M5"] * 100),
        TooMuchShared,
        "PID[1]",
    ),
    "many authorities of one number": (
        "A40",
        ("PID|1||" + "~".join(f"M1^^^A{at}^MR" for at in range(51)), "MRG|M0^^^NORTH^MR"),
        TooManyRepetitions,
        "PID-3",
    ),
}


def test_a_merge_reads_many_identifiers_once() -> None:
    """A frame of 65 KB may have 30,000 numbers in PID-3, which several rules need."""
    assert isinstance(SHIPPED, InboundMapping)
    merge = adt("A40", "PID|1||M1" + "~M2" * 2000, "MRG|M0")
    found, calls = counted(partial(SHIPPED.pre_check, merge, DEFAULTS))
    assert found.lanes == ("SITE1|M1", "SITE1|M0")
    assert calls < 60 * 2000


@pytest.mark.parametrize(("trigger", "segments", "kind", "place"), REFUSED.values(), ids=REFUSED)
def test_refusals(trigger: str, segments: tuple[str, ...], kind: type, place: str) -> None:
    """A message that cannot be mapped is refused with its location."""
    assert isinstance(SHIPPED, InboundMapping)
    (refusal,) = SHIPPED.pre_check(adt(trigger, *segments), DEFAULTS).refusals
    assert isinstance(refusal, kind)
    assert refusal.place == place


BOTH = "PID|1||M1^^^NORTH^MR~N1^^^STATE^NH||Doe^Jane"
PAIRS = {
    "the record number among others": ("N0^^^STATE^NH~M0^^^NORTH^MR", "M0"),
    "one without a type": ("N0^^^STATE^NH~M0", "M0"),
    "up to 2.2, MRG-4": ("^^^NORTH|||M0", "M0"),
}


@pytest.mark.parametrize(("mrg", "prior"), PAIRS.values(), ids=PAIRS)
def test_merged_identifiers(mrg: str, prior: str) -> None:
    """MRG-1 is paired with PID-3 by identifier type."""
    (event,) = events("A40", BOTH, f"MRG|{mrg}")
    assert (event.action, event.mrn, event.prior_mrn) == (OrderAction.PATIENT_MERGE, "M1", prior)


OF_OTHER_TYPES = {
    "after one of another type": ("N0^^^STATE^NH~P0^^^NORTH^PI", "P0"),
    "after one without authority": ("N0^^^^NH~P0^^^^PI", "P0"),
    "after one without a type": ("X0~P0^^^NORTH^PI", "P0"),
    "after a record number": ("P0^^^NORTH^PI~M0^^^NORTH^MR", "P0"),
    "of another authority": ("X0~P0^^^SOUTH^PI", "X0"),
    "only of another type": ("N0^^^^NH", "N0"),
}


@pytest.mark.parametrize(("mrg", "prior"), OF_OTHER_TYPES.values(), ids=OF_OTHER_TYPES)
def test_merged_identifiers_without_a_record_number(mrg: str, prior: str) -> None:
    """If PID-3 has no MR, the prior number has the type of the number that is the MRN."""
    (event,) = events("A40", "PID|1||P1^^^NORTH^PI~N1^^^STATE^NH||Doe^Jane", f"MRG|{mrg}")
    assert (event.action, event.mrn, event.prior_mrn) == (OrderAction.PATIENT_MERGE, "P1", prior)


SEVERAL = {
    "two of one type": (["M0^^^NORTH^MR~N0^^^STATE^NH~M9^^^NORTH^MR"], ["M0", "M9"]),
    "including the survivor's own": (["M0^^^NORTH^MR~M1^^^NORTH^MR"], ["M0"]),
    "and one of another authority": (["M0^^^NORTH^MR~M9^^^SOUTH^MR"], ["M0"]),
    "of no kind: anything": (["M0~M9"], ["M0"]),
    "two MRG for one PID": (["M0^^^NORTH^MR", "M9^^^NORTH^MR"], ["M0", "M9"]),
}


@pytest.mark.parametrize(("mrg", "priors"), SEVERAL.values(), ids=SEVERAL)
def test_several_numbers_are_merged(mrg: list[str], priors: list[str]) -> None:
    message = adt("A40", BOTH, *(f"MRG|{item}" for item in mrg))
    assert isinstance(SHIPPED, InboundMapping)
    made = SHIPPED.apply(message, DEFAULTS)
    assert [item.prior_mrn for item in made] == priors
    assert {item.mrn for item in made} == {"M1"}
    assert SHIPPED.pre_check(message, DEFAULTS).lanes == tuple(
        f"SITE1|{mrn}" for mrn in ("M1", *priors)
    )


def test_a_merge_of_other_identifiers() -> None:
    """A merge of national numbers does not merge our patients."""
    (event,) = events("A40", BOTH, "MRG|N0^^^STATE^NH")
    assert (event.action, event.prior_mrn) == (OrderAction.IGNORE, "")
    assert event.note


ALIKE = {
    "a number of another authority": ("M0^^^SOUTH^MR", None),
    "of another authority, by universal id": ("M0^^^NORTH&1.2.9&ISO^MR", None),
    "ours after another authority": ("M0^^^SOUTH^MR~M9^^^NORTH^MR", "M9"),
    "no authority": ("M0^^^^MR", "M0"),
    "the same in another case": ("M0^^^north^MR", "M0"),
    "another name for the same": ("M0^^^N&1.2.3&ISO^MR", "M0"),
    "the same number of another authority": ("M1^^^SOUTH^MR", None),
}


@pytest.mark.parametrize(("mrg", "prior"), ALIKE.values(), ids=ALIKE)
def test_numbers_of_another_authority(mrg: str, prior: str | None) -> None:
    """A merge of numbers of another hospital does not merge our patients."""
    pid = "PID|1||M1^^^NORTH&1.2.3&ISO^MR~S1^^^SOUTH^MR||Doe^Jane"
    (event,) = events("A40", pid, f"MRG|{mrg}")
    expected = OrderAction.IGNORE if prior is None else OrderAction.PATIENT_MERGE
    assert (event.action, event.prior_mrn) == (expected, prior or "")
    assert bool(event.note) is (prior is None)


def test_a_definition_that_names_the_authority_itself() -> None:
    """CX-4 in the path of `prior_mrn` selects the authority of the merged numbers."""
    own = "include: patients.yaml\nprior_mrn: 'MRG-1[CX-4=OLD].1'\n"
    made = compile_sources({**read_folder(DEFINITIONS), "own.yaml": own}, "own")
    assert isinstance(made, InboundMapping)
    (event,) = made.apply(adt("A40", PID, "MRG|M0^^^OLD^MR"), DEFAULTS)
    assert (event.action, event.prior_mrn) == (OrderAction.PATIENT_MERGE, "M0")


def test_queries_are_not_accepted() -> None:
    """A QRY message is not an ADT message."""
    assert isinstance(SHIPPED, InboundMapping)
    assert not SHIPPED.accepts(peek(b"MSH|^~\\&|A|B|||20260302||QRY^A19|C1|P|2.3"))


@pytest.mark.parametrize(
    ("event", "action"),
    [
        ("A08", OrderAction.PATIENT_UPDATE),
        ("A40", OrderAction.PATIENT_MERGE),
        ("A11", OrderAction.IGNORE),
    ],
)
def test_event_in_evn_alone(event: str, action: OrderAction) -> None:
    """HL7 v2.1 sends `ADT` in MSH-9 and the event in EVN-1."""
    head = "MSH|^~\\&|RISA|NORTH|||20260302||ADT|C1|P|2.1"
    raw = "\r".join((head, f"EVN|{event}|20260302", PID, "MRG|M0")).encode()
    assert isinstance(SHIPPED, InboundMapping)
    assert [event.action for event in SHIPPED.apply(Message.parse(raw), DEFAULTS)] == [action]


def test_msh_9_wins_over_evn() -> None:
    """If both have an event, MSH-9 applies."""
    head = "MSH|^~\\&|RISA|NORTH|||20260302||ADT^A08|C1|P|2.3"
    raw = f"{head}\rEVN|A40|20260302\r{PID}".encode()
    assert isinstance(SHIPPED, InboundMapping)
    (event,) = SHIPPED.apply(Message.parse(raw), DEFAULTS)
    assert event.action is OrderAction.PATIENT_UPDATE
