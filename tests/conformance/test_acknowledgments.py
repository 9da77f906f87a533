"""Independent parsers accept every acknowledgment that we build."""

from datetime import UTC, datetime

import pytest
from hl7apy.consts import VALIDATION_LEVEL

from mappings.hl7.acknowledgment import build_ack, unframed_nak
from mappings.hl7.header import peek
from mappings.hl7.refusals import (
    AckCode,
    DuplicateKeyIdentifier,
    InternalError,
    MalformedMessage,
    MalformedReason,
    MessageRefusal,
    MissingField,
    TableValueNotFound,
    UnknownKeyIdentifier,
    UnsupportedEvent,
    UnsupportedMessage,
    UnsupportedProcessingId,
    UnsupportedVersion,
    WrongDataType,
)
from tests.conformance.parsers import KNOWN_VERSIONS, agree, parsed, structure_errors

NOW = datetime(2026, 3, 2, 15, 30, tzinfo=UTC)
TYPES = ["ORM^O01", "ORM^O01^ORM_O01", "OMG^O19^OMG_O19", "OMI^O23^OMI_O23", "ADT^A40^ADT_A39"]
OUTCOMES: dict[str, tuple[MessageRefusal, ...]] = {
    "AA": (),
    "CA": (),
    "AE": (MissingField("PID-3.1"), TableValueNotFound("ORC[2]-1")),
    "AR": (
        *(UnsupportedMessage(), UnsupportedEvent(), UnsupportedProcessingId()),
        *(UnsupportedVersion(), WrongDataType("OBR[2]-7.1"), UnknownKeyIdentifier("PID-3")),
        *(DuplicateKeyIdentifier("MRG-1"), InternalError(), MissingField("not a place")),
    ),
    "CR": (MalformedMessage(MalformedReason.STRAY_LINE),),
}


def acknowledge(kind: str, version: str, code: str, marks: str) -> bytes:
    kind = kind.replace("^", marks[0])
    charset = "" if version == "2.2" else "||||||UNICODE UTF-8"  # MSH-18 came with 2.3
    raw = f"MSH|{marks}|RIS|H\xc4US|B|R|20260101||{kind}|X-1|P|{version}{charset}\rPID|1\r"
    outcome = OUTCOMES[code]
    header = peek(raw.encode())
    return build_ack(header, AckCode(code), control_id="Y1", now=NOW, refusals=outcome)


@pytest.mark.parametrize("marks", ["^~\\&", "@#\\$"], ids=["usual", "odd"])
@pytest.mark.parametrize("version", sorted(KNOWN_VERSIONS))
@pytest.mark.parametrize("code", OUTCOMES)
def test_structure(version: str, code: str, marks: str) -> None:
    """For each code, type and version: valid for hl7apy, and read equally by python-hl7."""
    for kind in TYPES:
        ack = acknowledge(kind, version, code, marks)

        assert not structure_errors(ack), ack
        assert agree(ack), ack


@pytest.mark.parametrize("marks", ["^~\\&", "$%?!", "^~"])
@pytest.mark.parametrize("version", sorted(KNOWN_VERSIONS))
@pytest.mark.parametrize("code", OUTCOMES)
def test_strict(version: str, code: str, marks: str) -> None:
    """The strict validation of hl7apy finds no error."""
    ack = acknowledge("ORM^O01", version, code, marks)
    assert parsed(ack, VALIDATION_LEVEL.STRICT).validate()


def test_truncation_character_of_an_older_version() -> None:
    """A version without truncation character gets four encoding characters."""
    assert acknowledge("ORM^O01", "2.5.1", "AA", "^~\\&#").startswith(b"MSH|^~\\&|")
    assert acknowledge("ORM^O01", "2.7", "AA", "^~\\&#").startswith(b"MSH|^~\\&#|")


@pytest.mark.parametrize(
    "head", [b"hello", b"\xff\x00", b"MSH|", b"GET / HTTP/1.1", b"MSH|^~\\&|A"]
)
def test_the_response_to_invalid_data_is_a_valid_message(head: bytes) -> None:
    """Except for MSA-2, because the control id is unknown."""
    nak = unframed_nak(head, MalformedMessage(MalformedReason.NOT_HL7), control_id="Y1", now=NOW)

    assert structure_errors(nak).endswith("Missing required child MSA.MSA_2")
    assert agree(nak)
