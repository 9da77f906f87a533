"""The reply policy decides what follows each kind of reply."""

from datetime import UTC, datetime
from itertools import product

import pytest

from bridge.delivery.destinations import control_id
from bridge.delivery.reply_policy import (
    DEFAULTS,
    LIMITED,
    MAX_REFUSALS,
    REFUSALS,
    REPLY_OF_LOSS,
    NotAnAcknowledgment,
    PolicyAction,
    ReplyKind,
    acknowledges,
    decide,
    read_reply,
    require_acknowledgment,
    rule_for,
)
from bridge.errors import FailureKind
from bridge.queue.states import QueueEvent
from mappings.hl7.acknowledgment import build_ack
from mappings.hl7.header import peek
from mappings.hl7.refusals import AckCode
from mllp.errors import LossReason

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SENT = b"MSH|^~\\&|A|B|C|D|20260101||ORU^R01^ORU_R01|ID7|P|2.5.1\r"


def ack(code: AckCode = AckCode.ACCEPT) -> bytes:
    return build_ack(peek(SENT), code, control_id="1", now=NOW)


EVENTS = {
    PolicyAction.DELIVERED: QueueEvent.ACCEPTED,
    PolicyAction.RETRY: QueueEvent.POSTPONED,
    PolicyAction.PARK: QueueEvent.GIVEN_UP,
    PolicyAction.SKIP: QueueEvent.IGNORED,
    PolicyAction.PAUSE: QueueEvent.POSTPONED,
}


@pytest.mark.parametrize(("reply", "action"), list(product(ReplyKind, PolicyAction)))
def test_a_destination_overrides_every_reply(reply: ReplyKind, action: PolicyAction) -> None:
    """A destination's rule applies to every kind of reply."""
    found = decide(reply, {reply.value: action.value}, 1)
    assert (found.event, found.pause) == (EVENTS[action], action is PolicyAction.PAUSE)


@pytest.mark.parametrize("reply", ReplyKind)
def test_the_defaults(reply: ReplyKind) -> None:
    """Only AA and CA deliver; refusals have limited retries, unknown states unlimited ones."""
    positive = reply in {ReplyKind.AA, ReplyKind.CA}
    assert (DEFAULTS[reply] == PolicyAction.DELIVERED) is positive
    last = decide(reply, {}, MAX_REFUSALS)
    if reply in REFUSALS:
        assert (last.event, last.failure) == (QueueEvent.GIVEN_UP, FailureKind.PERMANENT)
        assert decide(reply, {}, MAX_REFUSALS - 1).event is QueueEvent.POSTPONED
        plain = decide(reply, {reply: "retry"}, MAX_REFUSALS).event
        assert plain is (QueueEvent.GIVEN_UP if reply in LIMITED else QueueEvent.POSTPONED)
    elif not positive:
        assert (last.event, last.failure) == (QueueEvent.POSTPONED, FailureKind.AMBIGUOUS)


@pytest.mark.parametrize(
    ("reply", "detail", "expected"),
    [
        (ReplyKind.AE, "206", "delivered"),  # the very code
        (ReplyKind.AE, "204", "skip"),  # its kind
        (ReplyKind.AE, "101", "park"),  # the reply
        (ReplyKind.AE, "", "park"),
        (ReplyKind.AR, "206", "retry 20 then park"),  # no rule: the default
        (ReplyKind.AR, "102", "park"),
        (ReplyKind.SILENCE, "closed", "pause"),
        (ReplyKind.SILENCE, "timeout", "retry"),
        (ReplyKind.HTTP, "404", "skip"),  # its rule for all HTTP precedes our specific default
        (ReplyKind.HTTP, "503", "skip"),
    ],
)
def test_the_most_specific_rule_applies(reply: ReplyKind, detail: str, expected: str) -> None:
    """A detail precedes its class, that the code; a destination precedes the defaults."""
    own = {"AE": "park", "AE 206": "delivered", "AE 2xx": "skip", "silence closed": "pause"}
    assert rule_for(reply, own | {"http": "skip"}, detail) == expected


@pytest.mark.parametrize("status", ["408", "425", "429", "500", "503"])
def test_temporary_http_errors_are_retried_without_limit(status: str) -> None:
    """Other 4xx statuses end after the limit."""
    assert decide(ReplyKind.HTTP, {}, 1000, status).event is QueueEvent.POSTPONED
    assert decide(ReplyKind.HTTP, {}, 1000, "404").event is QueueEvent.GIVEN_UP


@pytest.mark.parametrize(
    ("then", "event"), [("park", QueueEvent.GIVEN_UP), ("skip", QueueEvent.IGNORED)]
)
def test_a_limit_of_attempts(then: str, event: QueueEvent) -> None:
    """`retry 3 then …` makes three attempts."""
    rules = {"CE": f"retry 3 then {then}"}
    events = [decide(ReplyKind.CE, rules, attempt).event for attempt in (1, 2, 3)]
    assert events == [QueueEvent.POSTPONED, QueueEvent.POSTPONED, event]


def test_every_loss_has_a_reply() -> None:
    """The table has a row for each reason of a missing reply."""
    assert set(REPLY_OF_LOSS) == set(LossReason)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (ack(), True),
        (ack(AckCode.REJECT), True),
        (ack().replace(b"MSA|AA|ID7", b"MSA|aa|ID7"), True),
        (ack().replace(b"MSA|AA|ID7", b"MSA|AA|"), True),
        (ack().replace(b"MSA|AA|ID7", b"MSA|AA|ID8"), False),
        (ack().replace(b"MSA|AA|ID7", b"MSA|AA|ID77"), False),
        (ack().replace(b"MSA|", b"MSX|"), False),
        (ack().replace(b"MSA|AA", b"MSA|ZZ"), False),
        (b"hello", False),
        (b"", False),
        (SENT, False),
    ],
)
def test_which_reply_acknowledges_a_message(reply: bytes, *, expected: bool) -> None:
    """MSA-2 equals MSH-10, or is empty (pitfall 32)."""
    assert acknowledges(SENT, reply) is expected


def test_garbage_is_no_mismatch() -> None:
    """Garbage and a mismatch have separate rows."""
    assert require_acknowledgment(SENT, ack())
    assert not require_acknowledgment(SENT, ack().replace(b"|ID7", b"|ID8"))
    for reply in (b"hello", b"", SENT, ack().replace(b"MSA|AA", b"MSA|ZZ")):
        with pytest.raises(NotAnAcknowledgment):
            require_acknowledgment(SENT, reply)


def test_a_reply_is_read() -> None:
    """Code and error condition are read; a reply without a code is garbage."""
    assert read_reply(ack(), {}) == (ReplyKind.AA, "")
    assert read_reply(ack().replace(b"MSA|AA|ID7", b"MSA|AE|ID7|||206"), {}) != (ReplyKind.AA, "")
    assert read_reply(b"hello", {}) == (ReplyKind.GARBAGE, "")
    refused = ack(AckCode.ERROR) + b"ERR|||0^Stored|I\rERR|||W1^Old code|W\rERR|||206^Locked|E\r"
    assert read_reply(refused, {}) == (ReplyKind.AE, "206"), "the text of the reply does not count"


@pytest.mark.parametrize(
    ("errors", "replies", "code"),
    [
        ("207 E,102 E", {}, "102"),
        ("102 E,207 E", {}, "102"),
        ("102 W,207 E", {}, "207"),
        ("102 W", {}, ""),
        ("102 W", {"AE 102": "skip"}, "102"),
        ("102 E,207 E", {"AE 102": "delivered", "AE 207": "retry"}, "207"),
        ("206 E,999 E", {"AE 999": "pause"}, "999"),
        ("205 E,206 E", {}, "205"),
    ],
)
def test_the_strongest_error_decides(errors: str, replies: dict[str, str], code: str) -> None:
    """Of several errors, the one whose rule stops the delivery most decides what follows."""
    segments = [f"ERR|||{part.split()[0]}|{part.split()[1]}\r" for part in errors.split(",")]
    reply = ack(AckCode.ERROR) + "".join(segments).encode()
    assert read_reply(reply, replies) == (ReplyKind.AE, code)


@pytest.mark.parametrize("code", ["100", "101", "102", "150", "199"])
@pytest.mark.parametrize("kind", sorted(LIMITED))
def test_a_wrong_message_is_parked_at_once(kind: ReplyKind, code: str) -> None:
    """Errors of class 1xx are about the message itself; the destination may decide otherwise."""
    assert decide(kind, {}, 1, code).event is QueueEvent.GIVEN_UP
    assert decide(kind, {kind.value: "retry"}, 1, code).event is QueueEvent.POSTPONED
    assert decide(kind, {f"{kind} 1xx": "skip"}, 1, code).event is QueueEvent.IGNORED


@pytest.mark.parametrize("code", ["", "1", "10", "1000", "200", "207", "0", "A100"])
def test_other_errors_are_retried(code: str) -> None:
    """Only the codes from 100 to 199 are permanent."""
    assert decide(ReplyKind.AE, {}, 1, code).event is QueueEvent.POSTPONED


@pytest.mark.parametrize(
    "code", [r"\X00\206", "2\x0006", "TESTER TILDA", "2" * 21, "206\u0660", "206;", ""]
)
@pytest.mark.parametrize("place", ["ERR|||{}", "ERR|^^^{}"])
def test_a_text_in_place_of_a_code(code: str, place: str) -> None:
    """Only what a rule can name is an error code; a text of the receiver is not passed on."""
    reply = ack(AckCode.ERROR) + f"{place.format(code)}\r".encode()
    assert read_reply(reply, {}) == (ReplyKind.AE, "")


def test_control_ids() -> None:
    """The control id depends on release and receiver, and has 20 plain characters."""
    ids = {control_id(name, key) for name in ("a", "b") for key in ("r:final:1:x", "r:final:2:x")}
    assert len(ids) == 4
    assert all(
        len(identifier) == 20 and identifier.isalnum() and identifier.isascii()
        for identifier in ids
    )
    assert control_id("a", "k") == control_id("a", "k")
