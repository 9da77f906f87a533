"""A proposal describes how a sender deviates, compiles, and maps the samples."""

import pytest

from mappings.authoring.inference import infer_definition
from mappings.authoring.trial import try_message
from mappings.compiler import check_sources, compile_sources
from mappings.inbound.definition import InboundMapping
from tests.mappings.definitions import DEFAULTS, SHIPPED


def usual(number: int) -> bytes:
    """Return an order in the form of the standard."""
    return (
        f"MSH|^~\\&|RISA|NORTH|B|S|20260302||ORM^O01|C{number}|P|2.5.1\r"
        f"PID|1||X{number}^^^GOV^NI~M{number}^^^NORTH^MR||Doe^Jane\r"
        f"ORC|NW|P{number}|F{number}\rOBR|1|P{number}|F{number}|X^Test||||||||||||||A{number}\r"
    ).encode()


def order_with_odd_delimiters(number: int) -> bytes:
    """Return an order with unusual delimiters, in ISO 8859-15."""
    return (
        f"MSH$%*!&$ALT$SÜD$B$S$20260302$$ORM%O01$C{number}$P$2.3\r"
        f"PID$1$M{number}$$$Mœller%Jürgen\r"
        f"ORC$NW$P{number}$F{number}\rOBR$1$P{number}$RIS%7{number}$X%Test\r"
        f"ZRM$1$Room {number % 3}$1.2.3.{number}\r"
    ).encode("iso8859-15")


def proposed(raw: list[bytes]) -> tuple[str, InboundMapping]:
    proposal = infer_definition(raw)
    sources = {**SHIPPED, "mine.yaml": proposal.text}
    assert check_sources(sources, ["mine"], tables=False) == []
    made = compile_sources(sources, "mine")
    assert isinstance(made, InboundMapping)
    return proposal.text, made


@pytest.mark.parametrize(
    ("make", "expected"),
    [(usual, ("M4", "A4")), (order_with_odd_delimiters, ("M4", "74"))],
    ids=["usual", "odd"],
)
def test_identities_are_found(make: object, expected: tuple[str, str]) -> None:
    """MRN and accession are found at the sender's locations."""
    assert callable(make)
    raw = [make(number) for number in range(1, 8)]
    _, mapping = proposed(raw)
    trial = try_message(mapping, raw[3], DEFAULTS, infer_definition(raw).charset)
    assert trial.accepted, trial.issues
    assert (trial.events[0]["mrn"], trial.events[0]["accession"]) == expected


def test_evidence_of_an_odd_sender() -> None:
    """The proposal has charset, Z segments and UIDs, with the evidence."""
    raw = [order_with_odd_delimiters(number) for number in range(1, 8)]
    text, mapping = proposed(raw)
    assert infer_definition(raw).charset == "iso8859-15"
    assert "# OBR-3.2: 7 of 7 groups, 7 different values" in text
    assert "ZRM_2_1: ZRM-2.1" in text
    assert "# 7 of 7 groups, 3 different values" in text
    trial = try_message(mapping, raw[0], DEFAULTS, "iso8859-15")
    info = trial.events[0]["clinical_info"]
    assert info["StudyInstanceUID"] == "1.2.3.1"
    assert info["PatientName"] == "Mœller^Jürgen"
    assert info["Metadata"]["ZRM_2_1"] == "Room 1"


def test_a_namespace_is_no_accession() -> None:
    """A constant in OBR-3.2 is the assigner, not the accession."""
    raw = [
        order_with_odd_delimiters(number).replace(b"RIS%7", b"F0").replace(b"$X%", b"%RIS1$X%")
        for number in range(1, 8)
    ]
    text, _ = proposed(raw)
    assert 'Accession: {from: ["OBR-3.1"]' in text


def test_every_number_that_could_be_the_accession_is_named() -> None:
    """ORC-3.2 is an alternative if it differs between orders, but not if it is a namespace."""
    raw = [
        order_with_odd_delimiters(number).replace(
            b"ORC$NW$P%d" % number, b"ORC$NW$P%d$RIS%%9%d" % (number, number)
        )
        for number in range(3, 10)
    ]
    text, _ = proposed(raw)
    evidence = next(line for line in text.splitlines() if "# OBR-3.2:" in line)
    assert "OBR-3.2" in evidence
    assert "ORC-3.2" in evidence.partition("As good:")[2]
    text, _ = proposed([order_with_odd_delimiters(number) for number in range(3, 10)])
    assert "ORC-3.2" not in text


@pytest.mark.parametrize("universal_id", [b"", b"&1.2.3&ISO"], ids=["name alone", "universal id"])
def test_an_authority_with_an_escape(universal_id: bytes) -> None:
    """The proposal selects the MRN by an authority whose name has an escaped delimiter."""
    authority = b"^^^N \\T\\ S" + universal_id
    raw = [
        usual(number).replace(b"^^^GOV^NI", b"^^^GOV").replace(b"^^^NORTH^MR", authority)
        for number in range(1, 8)
    ]
    raw.append(usual(8).replace(b"X8^^^GOV^NI~M8^^^NORTH^MR", b"M8" + authority))
    text, mapping = proposed(raw)
    assert "PID-3[CX-4.1=N & S].1" in text
    assert [try_message(mapping, item, DEFAULTS).events[0]["mrn"] for item in raw[:2]] == [
        "M1",
        "M2",
    ]


def test_no_values_of_patients_in_the_evidence() -> None:
    """The evidence contains only counts and codes."""
    text = infer_definition([usual(number) for number in range(1, 8)]).text
    assert not any(item in text for item in ("Doe", "M4", "A4", "X4"))


def test_malformed_samples_are_counted() -> None:
    """Malformed samples are counted. No samples result in a proposal too."""
    assert infer_definition([b"garbage", usual(1)]).unread == 1
    assert "could not be read" in infer_definition([]).text


def test_codes_without_an_entry_are_listed() -> None:
    """A proposal lists the codes of the samples that no code table has, with their number."""
    raw = [usual(n).replace(b"Doe^Jane", b"Doe^Jane||1980|Q") for n in range(1, 4)]
    text, _ = proposed(raw)
    (line,) = [line for line in text.splitlines() if ".csv: Q in PID-8.1" in line]
    assert line.endswith("3 messages")
    assert ".csv:" not in proposed([usual(1)])[0]
