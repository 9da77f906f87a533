"""ORR, ORI and ORG of a listener: order control codes, and the result of other parsers."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count

import pytest

from bridge.intake.receive.acknowledgments import AcknowledgmentBuilder, split_replies
from bridge.intake.receive.verdict import FrameEvaluator
from config.listeners import Acknowledge, Replies
from mappings.hl7.message import Message
from mllp.framing import Frame
from tests.bridge.intake.fixture import LISTENING
from tests.conformance.parsers import agree, structure_errors

NOW = datetime(2026, 3, 2, 15, 30, tzinfo=UTC)
ORDERS = replace(LISTENING, replies=Replies.ORDER)
KINDS = [
    *(("ORM", version) for version in ("2.3", "2.3.1", "2.4", "2.5", "2.5.1", "2.6")),
    *(("OMG", version) for version in ("2.4", "2.5", "2.5.1", "2.6")),
    *(("OMI", version) for version in ("2.5", "2.5.1", "2.6")),
]
TRIGGERS = {"ORM": "O01", "OMG": "O19", "OMI": "O23"}
REPLIES = {"ORM": "ORR^O02", "OMG": "ORG^O20", "OMI": "ORI^O24"}
CHOICE = re.compile(r"ValidationError: Missing required child ORR_O02_[A-Z0-9_]+\.RQD")
"""ORR has one of OBR, RQD, RQ1 …; hl7apy reads the choice as a list and requires all of them."""

CODES = {
    "NW": ("OK", "UA"),
    "XO": ("XR", "UX"),
    "CA": ("CR", "UC"),
    "DC": ("DR", "UD"),
    "HD": ("HR", "UH"),
    "RL": ("OR", "UR"),
    "RP": ("RQ", "UM"),
    "SN": ("UA", "UA"),
    "SS": ("UA", "UA"),
    "RC": ("UA", "UA"),
    "RF": ("UF", "UF"),
    "OP": ("NR", "UA"),
    "PY": ("NR", "UA"),
    "NA": ("OK", "UA"),
    "OC": ("OK", "UA"),
    "SC": ("OK", "UA"),
}


def request(
    kind: str = "ORM",
    version: str = "2.5.1",
    *controls: str,
    modes: str = "|",
    patient: str = "M1",
    marks: str = "|^~\\&",
) -> bytes:
    """Return an order message with a group for each code."""
    lines = [
        f"MSH|^~\\&|RIS|MAIN|B|R|20260302||{kind}^{TRIGGERS[kind]}|C1|P|{version}|||{modes}",
        f"PID|1||{patient}||TESTER^TILDA",
    ]
    for number, control in enumerate(controls or ("NW",), 1):
        detail = f"P{number}^RIS|F{number}^PACS|CT^Head^L" + "|" * 14 + f"A{number}"
        detail += "|" * 9 + "^^^20260302"
        lines += [
            f"ORC|{control}|P{number}^RIS|F{number}^PACS||SC||^^^20260302",
            f"OBR|{number}|{detail}",
        ]
        if kind == "OMI":
            lines.append(f"IPC|A{number}|RP{number}|1.2.826.{number}|SPS{number}")
    text = "\r".join([*lines, ""])
    for usual, other in zip("|^~\\&", marks, strict=True):
        text = text.replace(usual, other)
    return text.encode()


def replies(payload: bytes, **changes: object) -> list[bytes]:
    listening = replace(ORDERS, **changes)  # type: ignore[arg-type]  # fields of Listening
    ids = count(1)

    def fail(error: Exception) -> None:
        raise error

    verdict = FrameEvaluator(listening, fail).evaluate(Frame(payload), NOW)
    responses = AcknowledgmentBuilder(listening, lambda: f"B{next(ids)}")
    return split_replies(responses.arrival(verdict, payload, NOW).ack)


@pytest.mark.parametrize("patient", ["M1", ""])
@pytest.mark.parametrize(("kind", "version"), KINDS)
def test_structure(kind: str, version: str, patient: str) -> None:
    """Each reply has the structure of its version, for accepted and refused orders."""
    (reply,) = replies(request(kind, version, "NW", "CA", patient=patient))
    named = REPLIES[kind] + ("" if version == "2.3" else "^" + REPLIES[kind].replace("^", "_"))
    assert Message.parse(reply).value("MSH-9") == named
    assert not CHOICE.sub("", structure_errors(reply)), reply
    assert agree(reply)


@pytest.mark.parametrize("accepted", [True, False])
@pytest.mark.parametrize("control", CODES)
def test_the_order_control_of_a_reply(control: str, *, accepted: bool) -> None:
    """ORC-1 is the result of each order; a refused message executes none of them."""
    (reply,) = replies(request("ORM", "2.5.1", control, "NW", patient="M1" if accepted else ""))
    message = Message.parse(reply)
    place = 0 if accepted else 1
    assert message.values("ORC[*]-1") == [CODES[control][place], CODES["NW"][place]]
    assert message.values("ORC[*]-2") == ["P1^RIS", "P2^RIS"]
    assert message.values("ORC[*]-3") == ["F1^PACS", "F2^PACS"]
    assert message.value("MSA-1") == ("AA" if accepted else "AE")
    assert message.value("MSA-2") == "C1"
    assert message.named("PID") == []


def test_odd_delimiters() -> None:
    (reply,) = replies(request("ORM", "2.4", "NW", "XO", marks="#@!?*"))
    message = Message.parse(reply)
    assert message.value("MSH-9") == "ORR@O02@ORR_O02"
    assert message.values("ORC[*]-1") == ["OK", "XR"]
    assert message.value("ORC-2.2") == "RIS"


def test_enhanced_mode() -> None:
    """The commit acknowledgment is an ACK, the application acknowledgment is the reply."""
    commit, reply = replies(request(modes="AL|AL"))
    assert Message.parse(commit).value("MSH-9.1") == "ACK"
    assert Message.parse(reply).value("MSH-9.1") == "ORR"


@pytest.mark.parametrize("patient", ["M1", ""])
@pytest.mark.parametrize(("kind", "version"), KINDS)
def test_a_commit_acknowledgment_has_no_order(kind: str, version: str, patient: str) -> None:
    """It consists of MSH, MSA and ERR (HL7 v2.5.1 §2.9.3), for accepted and refused orders."""
    commit = Message.parse(replies(request(kind, version, "NW", modes="AL|AL", patient=patient))[0])
    assert commit.value("MSA-1") == ("CA" if patient else "CE")
    assert commit.value("MSH-9.1") == "ACK"
    assert [segment.id for segment in commit.segments] == ["MSH", "MSA", *["ERR"] * (not patient)]


def test_other_messages_get_an_ack() -> None:
    """ADT and a test message get an ACK; an unknown order control gets UA."""
    adt = b"MSH|^~\\&|A|B|C|D|2026||ADT^A08|C1|P|2.5.1\rEVN|A08|2026\rPID|1||M1||X^Y\r"
    assert Message.parse(replies(adt)[0]).value("MSH-9.1") == "ACK"
    test = request().replace(b"|P|2.5.1", b"|T|2.5.1")
    assert Message.parse(replies(test)[0]).value("MSH-9.1") == "ACK"
    (unknown,) = replies(request("ORM", "2.5.1", "QQ"))
    assert Message.parse(unknown).value("ORC-1") == "UA"


def test_an_ack_is_the_default() -> None:
    (reply,) = replies(request(), replies=Replies.ACK, acknowledge=Acknowledge.CHECKED)
    assert Message.parse(reply).value("MSH-9") == "ACK^O01^ACK"
    assert b"ORC" not in reply
