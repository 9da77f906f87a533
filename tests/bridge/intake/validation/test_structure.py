"""Validation with hl7apy: findings with places and without values, profiles, and order."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from time import sleep

import pytest

from bridge.intake.validation.profiles import ProfileUnusable, load_profile
from bridge.intake.validation.structure import validate
from bridge.intake.validation.validator import (
    ValidatingHandler,
    ValidationFinding,
    Validator,
    hl7_place,
    read_report,
)
from bridge.metrics import Metrics
from bridge.store.database import Database
from mappings.hl7.acknowledgment import read_ack
from mappings.hl7.refusals import MissingField
from mllp.contract import ReplyCallback, as_deferred
from mllp.framing import Frame
from tests.bridge.intake.fixture import LISTENING, RecordingPeer, open_intake, order
from tests.eventually import PATIENCE, eventually_async

SECRET = "SECRETNAME"
PROFILE = """<HL7v2xConformanceProfile HL7Version="2.5.1">
<HL7v2xStaticDef MsgType="ORM" EventType="O01" MsgStructID="ORM_O01">
<Segment Name="MSH" Usage="R" Min="1" Max="1"/>
<SegGroup Name="PATIENT" Usage="R" Min="1" Max="1">
<Segment Name="PID" Usage="R" Min="1" Max="1">
<Field Name="Set ID" Usage="O" Min="0" Max="1" Datatype="SI"/>
<Field Name="Patient ID" Usage="X" Min="0" Max="0" Datatype="CX"/>
<Field Name="Patient Identifier List" Usage="R" Min="1" Max="1" Datatype="CX">
<Component Name="ID Number" Usage="R" Datatype="ST" Length="15"/>
</Field></Segment></SegGroup></HL7v2xStaticDef></HL7v2xConformanceProfile>"""


def message(*segments: str, version: str = "2.5.1", kind: str = "ORM^O01^ORM_O01") -> bytes:
    head = f"MSH|^~\\&|A|B|C|D|20260101||{kind}|1|P|{version}"
    return "\r".join([head, *segments, ""]).encode()


PID, ORC = f"PID|1||M1^^^H^MR||{SECRET}^A", "ORC|NW|1"
OBR = "OBR|1|1|1|71250^CT^L"


def errors(findings: Sequence[ValidationFinding]) -> set[tuple[str, str]]:
    return {(f.refusal.error_code.value, f.refusal.place) for f in findings if f.is_error}


@pytest.mark.parametrize("version", ["2.4", "2.5", "2.5.1"])
def test_a_plain_order_is_valid(version: str) -> None:
    """An ORM with its OBR is valid without the other members of the choice."""
    assert errors(validate(message(PID, ORC, OBR, version=version))) == set()


@pytest.mark.parametrize("version", ["2.2", "2.3", "2.3.1"])
def test_older_structures(version: str) -> None:
    """Each version has its own structure, and none requires all members of a choice."""
    found = errors(validate(message(PID, ORC, OBR, version=version)))
    assert not {place for _, place in found} & {"RQD", "RQ1", "RXO", "ODS", "ODT", "NTE"}


def test_version_2_1_only_warns() -> None:
    """hl7apy's tables of 2.1 are wrong, so violations are warnings."""
    found = validate(message("PID|1||M1", ORC, "OBR|1|1|1|X", version="2.1", kind="ORM"))
    assert found
    assert not errors(found)


Z = "ZDS|1.2^A^Application^DICOM"


@pytest.mark.parametrize("at", range(7))
def test_z_segments_are_valid_at_any_place(at: int) -> None:
    """A Z segment is valid between patient and visit, ORC and OBR, and OBX and NTE."""
    segments = [PID, "PV1|1|O", ORC, OBR, "OBX|1|ST|1^A||x||||||F", "NTE|1||y"]
    assert errors(validate(message(*segments[:at], Z, *segments[at:]))) == set()


@pytest.mark.parametrize(
    ("segments", "place"),
    [
        ((ORC, OBR, PID), "PID"),
        ((PID, ORC, OBR, "OBX|1|ST|1^A||x||||||F", "DG1|1||X|||A"), "DG1"),
        ((PID, "PV1|1|O", "PV1|1|O", ORC, OBR), "PV1"),
    ],
)
def test_segments_out_of_their_order(segments: tuple[str, ...], place: str) -> None:
    """The order of segments is checked by the abstract syntax (§2.5.2)."""
    assert place in {where for _, where in errors(validate(message(*segments)))}


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        (("PID|1||M1",), {("101", "PID-5"), ("100", "ORC")}),
        ((PID, "ORC", OBR), {("101", "ORC-1")}),
        ((PID, ORC, "OBR|1|1|1|"), {("101", "OBR-4")}),
        ((f"PID|1|2~3|M1||{SECRET}^A", ORC, OBR), {("198", "PID-2")}),
    ],
)
def test_missing_and_surplus_elements(
    segments: tuple[str, ...], expected: set[tuple[str, str]]
) -> None:
    """Missing and surplus fields, segments and groups are errors with their place."""
    assert errors(validate(message(*segments))) >= expected


def test_findings_have_no_values() -> None:
    """Findings have no values, also where hl7apy quotes them."""
    found = validate(message(f"PID|1||M1||{SECRET}^A|||{SECRET}", ORC, OBR))
    assert any(not item.is_error for item in found)
    assert SECRET not in "".join(map(str, found))


def test_malformed_messages() -> None:
    """A broken message is reported as malformed."""
    assert errors(validate(b"hello")) == {("100", "MSH")}
    assert errors(validate(message(PID, kind="ABC^X99"))) == {("100", "MSH-9")}


def test_structures_that_are_not_named() -> None:
    """ADT^A08 has the structure ADT_A01, also if MSH-9 omits it."""
    plain = message("EVN||20260101", PID, "PV1|1|O", kind="ADT^A08")
    assert errors(validate(plain)) == set()


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("PID.PID_3", "PID-3"),
        ("PID_3.CX_1", "PID-3.1"),
        ("CX_4.HD_2", "HD.2"),
        ("ORM_O01.MSH", "MSH"),
        ("ORM_O01.ORM_O01_ORDER", "MSH-9"),
    ],
)
def test_places(path: str, place: str) -> None:
    """hl7apy's paths become HL7 paths."""
    assert hl7_place(path) == place


def test_values_with_line_ends() -> None:
    lines = ["Warning: Value a", "b not in table HL70001 in element PID.PID_8", "Error: Missing x"]
    assert read_report(lines) == []


def test_a_profile(tmp_path: Path) -> None:
    """A conformance profile replaces the version's structure."""
    file = tmp_path / "orders.xml"
    file.write_text(PROFILE, "utf-8")
    profile = load_profile(file)
    assert errors(validate(message("PID|1||M1"), profile)) == set()
    assert ("198", "PID-2") in errors(validate(message("PID|1|OLD|M1"), profile))
    assert ("101", "PID-3") in errors(validate(message("PID|1"), profile))
    assert errors(validate(message(PID, kind="ADT^A01^ADT_A01"), profile)) == {("100", "MSH-9")}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<a/>",
        "<HL7v2xStaticDef/>",
        PROFILE.replace('Min="1"', 'Min="x"'),
    ],
)
def test_no_profile(tmp_path: Path, text: str) -> None:
    """An invalid profile is refused at the start."""
    file = tmp_path / "profile.xml"
    file.write_text(text, "utf-8")
    with pytest.raises(ProfileUnusable):
        load_profile(file)
    with pytest.raises(ProfileUnusable):
        load_profile(tmp_path / "missing.xml")


def slow_first(payload: bytes) -> list[ValidationFinding]:
    """A validator that is slow for the first message, and finds an error."""
    if b"|ID1|" not in payload:
        return []
    sleep(0.2)  # the next messages arrive meanwhile
    return [ValidationFinding(MissingField("PID-7"), is_error=True)]


@pytest.mark.parametrize(("refuse", "code"), [(True, "AE"), (False, "AA")])
async def test_refuse_or_warn(database: Database, *, refuse: bool, code: str) -> None:
    """`refuse` answers with code and place, `warn` counts. Both keep the order."""
    metrics = Metrics()
    validator = Validator("ris", slow_first, metrics, refuse=refuse)
    async with open_intake(database, LISTENING.with_checks(validator)) as intake:
        handle = ValidatingHandler(validator, intake.handler)
        loop = asyncio.get_running_loop()
        requests = [
            as_deferred(handle, Frame(order(f"ID{n}", f"A{n}")), RecordingPeer()) for n in (1, 2, 3)
        ]
        first, *others = [await request.asFuture(loop) for request in requests]
        acknowledgment = read_ack(first[0])
        assert acknowledgment.code == code
        assert acknowledgment.error_codes == (("101",) if refuse else ())
        assert all(read_ack(other[0]).code == "AA" for other in others)
        body = "(SELECT payload FROM message_body WHERE message_id = message.id)"
        stored = [bytes(row[0]).split(b"|")[9] for row in intake.rows(body)]
        assert stored == [b"ID1", b"ID2", b"ID3"]
    assert b'bridge_validation_findings_total{error="101",listener="ris"} 1.0' in metrics.render()


async def test_senders_take_turns() -> None:
    """The messages of one sender do not wait for all of another; each sender's keep their order."""
    begun, gate = threading.Event(), threading.Event()

    def look(_payload: bytes) -> Sequence[ValidationFinding]:
        begun.set()
        gate.wait(PATIENCE)
        return ()

    handled: list[bytes] = []

    def handler(frame: Frame, _peer: object, reply: ReplyCallback) -> None:
        handled.append(frame.payload)
        reply([])

    handle = ValidatingHandler(Validator("ris", look, Metrics(), refuse=True), handler)
    for number in range(4):
        handle(Frame(b"flood %d" % number), RecordingPeer("192.0.2.1"), lambda _: None)
    handle(Frame(b"order"), RecordingPeer("192.0.2.2"), lambda _: None)
    await eventually_async(begun.is_set)
    gate.set()
    await eventually_async(lambda: len(handled) == 5)
    assert handled == [b"flood 0", b"flood 1", b"order", b"flood 2", b"flood 3"]


async def test_an_error_of_the_handler() -> None:
    """An error in the handler closes the connection."""

    def fail(_frame: Frame, _peer: object, _reply: ReplyCallback) -> None:
        raise ValueError("at fault")

    handle = ValidatingHandler(Validator("ris", lambda _: (), Metrics(), refuse=True), fail)
    answered = as_deferred(handle, Frame(order()), RecordingPeer())

    with pytest.raises(ValueError, match="at fault"):
        await asyncio.wait_for(answered.asFuture(asyncio.get_running_loop()), PATIENCE)


async def test_a_retransmit_while_the_first_is_examined() -> None:
    """Each frame is validated once, on the thread and never on the loop."""
    looked: list[str] = []
    waiting: list[ReplyCallback] = []

    def look(_payload: bytes) -> Sequence[ValidationFinding]:
        looked.append(threading.current_thread().name)
        return ()

    def handler(_frame: Frame, _peer: object, reply: ReplyCallback) -> None:
        waiting.append(reply)

    validator = Validator("ris", look, Metrics(), refuse=True)
    handle = ValidatingHandler(validator, handler)
    loop = asyncio.get_running_loop()
    replies = [
        as_deferred(handle, Frame(order()), RecordingPeer()).asFuture(loop) for _ in range(2)
    ]
    await eventually_async(lambda: len(waiting) == 2)
    waiting[0]([b"A"])
    await replies[0]
    assert validator.issues(order()) == ()  # the second one is validated
    waiting[1]([b"A"])
    await replies[1]

    assert len(looked) == 2
    assert threading.current_thread().name not in looked


def observed(kind: str, value: str) -> str:
    return f"OBX|1|{kind}|1^A||{value}||||||F"


@pytest.mark.parametrize("version", ["2.3", "2.3.1", "2.5.1", "2.6"])
@pytest.mark.parametrize(
    ("segment", "place"),
    [
        (f"{PID}||19-XX", "PID-7"),
        (f"{PID}||Aug 15, 1942", "PID-7"),
        (f"{PID}||19701301", "PID-7"),
        ("ORC|NW|1|||||^^^202x^^R", "ORC-7.4"),
        ("OBX|x|ST|1^A||x||||||F", "OBX-1"),
        (observed("NM", "heavy"), "OBX-5"),
        (observed("DT", "2026-01-01"), "OBX-5"),
        (observed("TM", "2510"), "OBX-5"),
    ],
)
def test_invalid_values(segment: str, place: str, version: str) -> None:
    """An invalid value is error 102 with its place, by the type of the element in the version."""
    usual = {"PID": PID, "ORC": ORC, "OBR": OBR}
    segments = [*(usual | {segment[:3]: segment}).values()]
    found = errors(validate(message(*segments, version=version)))
    assert ("102", place) in found


@pytest.mark.parametrize(
    ("segment", "value"),
    [
        *(("PID", item) for item in ("1970", "197001", "198807050000", '""', "19700101+0100")),
        *(("PID", item) for item in ("20260101235959.1234-0700", "2026010123", "")),
        *(("NM", item) for item in ("72", "-1.5", "+.5", '""')),
        *(("TM", item) for item in ("23", "2359", "235959.1+0100")),
        *(("ST", item) for item in ("heavy", "2026-01-01")),
    ],
)
def test_valid_values(segment: str, value: str) -> None:
    """Any precision, a zone, a null and an empty value are valid."""
    segments = [PID, ORC, OBR, observed(segment, value)]
    if segment == "PID":
        segments = [f"{PID}||{value}", ORC, OBR]
    assert errors(validate(message(*segments))) == set()


@pytest.mark.parametrize("version", ["2.7.1", "2.9", ""])
def test_versions_that_hl7apy_does_not_have(version: str) -> None:
    """The nearest version applies, with warnings only."""
    kind = "OMG^O19^OMG_O19"
    assert not errors(validate(message(PID, ORC, OBR, version=version, kind=kind)))
    wrong = validate(message(f"{PID}||19-XX", ORC, OBR, version=version, kind=kind))
    assert "PID-7" in {error.refusal.place for error in wrong}
    assert not errors(wrong)
    assert not errors(validate(message(PID, ORC, OBR, version=version)))  # ORM ends with 2.6


def test_too_many_fields() -> None:
    """A message with too many fields is refused without validation, which would take minutes."""
    many = observed("TX", "a^b~" * 20_000)
    assert errors(validate(message(PID, ORC, OBR, many))) == {("104", "MSH")}
    long = observed("TX", "a" * 100_000)
    assert errors(validate(message(PID, ORC, OBR, long))) == set()


@pytest.mark.parametrize(
    ("patient", "place"),
    [("PID|1||M1^2", "PID-3.2"), ("PID|1||M1^^3", "PID-3.3"), ("PID|1||M1|X", "PID-4")],
)
def test_components_outside_the_profile(tmp_path: Path, patient: str, place: str) -> None:
    """A component of usage X, and one after the last listed one, are errors with their place."""
    file = tmp_path / "orders.xml"
    second = '<Component Name="Check Digit" Usage="X" Datatype="ST"/></Field>'
    file.write_text(PROFILE.replace("</Field>", second), "utf-8")
    assert errors(validate(message(patient), load_profile(file))) == {("198", place)}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('Usage="R" Min="1" Max="1"/>', 'Usage="REQUIRED" Min="1" Max="1"/>'),
        ('<Segment Name="MSH" Usage="R" Min="1" Max="1"/>', ""),
        ('Component Name="ID Number" Usage="R"', 'Component Name="ID Number" Usage="RX"'),
    ],
)
def test_invalid_profiles(tmp_path: Path, before: str, after: str) -> None:
    """An invalid usage, and a structure without MSH, are errors of the file."""
    file = tmp_path / "orders.xml"
    file.write_text(PROFILE.replace(before, after, 1), "utf-8")
    with pytest.raises(ProfileUnusable):
        load_profile(file)


def test_a_profile_of_another_version(tmp_path: Path) -> None:
    """A profile of an unsupported version is read as the nearest one."""
    file = tmp_path / "orders.xml"
    file.write_text(PROFILE.replace("2.5.1", "2.9"), "utf-8")
    assert "ORM_O01" in load_profile(file)


def test_a_message_with_very_many_segments() -> None:
    """The time of hl7apy grows with the square of repeated segments."""
    many = ["NTE"] * 90_000
    assert errors(validate(message(PID, ORC, OBR, *many))) == {("104", "MSH")}
