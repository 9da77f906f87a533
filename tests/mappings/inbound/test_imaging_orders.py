"""Which orders the shipped definition treats as imaging, and the tags of patient and staff."""

from typing import Any

import pytest

from mappings.inbound.definition import InboundMapping
from mappings.inbound.events import OrderAction
from tests.mappings.definitions import DEFAULTS, inbound_mapping, message, overlaid

SHIPPED = inbound_mapping("orders")


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
