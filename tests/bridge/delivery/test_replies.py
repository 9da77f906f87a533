"""What a receiver's reply leads to."""

from datetime import UTC, datetime
from itertools import product

import pytest

from bridge.delivery.destinations import control_id
from bridge.delivery.replies import (
    DEFAULTS,
    LOST,
    MOST_REFUSALS,
    REFUSALS,
    Action,
    Reply,
    answers,
    consequence,
    read_reply,
)
from bridge.queue.states import Event, Failure
from mappings.hl7.ack import build_ack
from mappings.hl7.header import peek
from mappings.hl7.tables import AckCode
from mllp.errors import LossReason

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SENT = b"MSH|^~\\&|A|B|C|D|20260101||ORU^R01^ORU_R01|ID7|P|2.5.1\r"


def ack(code: AckCode = AckCode.ACCEPT) -> bytes:
    """Answer SENT."""
    return build_ack(peek(SENT), code, control_id="1", now=NOW)


@pytest.mark.parametrize(("reply", "action"), list(product(Reply, Action)))
def test_every_pair(reply: Reply, action: Action) -> None:
    """A destination's wish decides, for every kind of reply."""
    event = consequence(reply, {reply.value: action.value}, 1).event
    assert (
        event
        is {
            Action.DELIVERED: Event.ACCEPTED,
            Action.RETRY: Event.POSTPONED,
            Action.PARK: Event.GIVEN_UP,
        }[action]
    )


@pytest.mark.parametrize("reply", Reply)
def test_the_defaults(reply: Reply) -> None:
    """Only AA and CA deliver; a refusal is not repeated for ever, the unknown is."""
    positive = reply in {Reply.AA, Reply.CA}
    assert (DEFAULTS[reply] is Action.DELIVERED) is positive
    last = consequence(reply, {}, MOST_REFUSALS)
    if reply in REFUSALS:
        assert (last.event, last.failure) == (Event.GIVEN_UP, Failure.PERMANENT)
    elif not positive:
        assert (last.event, last.failure) == (Event.POSTPONED, Failure.AMBIGUOUS)


def test_every_loss_has_a_reply() -> None:
    """However a reply is lost, the table knows it."""
    assert set(LOST) == set(LossReason)


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
def test_what_answers_a_message(reply: bytes, *, expected: bool) -> None:
    """MSA-2 must be our MSH-10; empty it is taken for what it follows (pitfall 32)."""
    assert answers(SENT, reply) is expected


def test_a_reply_is_read() -> None:
    """Code and error condition; what is no acknowledgment is garbage."""
    assert read_reply(ack()) == (Reply.AA, "")
    assert read_reply(ack().replace(b"MSA|AA|ID7", b"MSA|AE|ID7|||206")) != (Reply.AA, "")
    assert read_reply(b"hello") == (Reply.GARBAGE, "")


def test_control_ids() -> None:
    """The same for the same release and receiver, another for any other; 20 plain characters."""
    ids = {control_id(name, key) for name in ("a", "b") for key in ("r:final:1:x", "r:final:2:x")}
    assert len(ids) == 4
    assert all(len(each) == 20 and each.isalnum() and each.isascii() for each in ids)
    assert control_id("a", "k") == control_id("a", "k")
