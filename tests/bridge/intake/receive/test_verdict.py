"""The evaluation gives a verdict for any bytes. Messages of every shape get one with a place."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.intake.receive.acknowledgments import AcknowledgmentBuilder, split_replies
from bridge.intake.receive.verdict import FrameEvaluator, Verdict
from mappings.hl7.acknowledgment import read_ack
from mllp.framing import Frame
from tests.bridge.intake.fixture import LISTENING, NOW, order
from tests.corpus import CORPUS

ALARMS: list[Exception] = []
JUDGE = FrameEvaluator(LISTENING, ALARMS.append)
ANSWERS = AcknowledgmentBuilder(LISTENING, lambda: "ID")


def evaluate(payload: bytes) -> Verdict:
    """Evaluate, and assert that the acknowledgment matches the verdict."""
    ALARMS.clear()
    verdict = JUDGE.evaluate(Frame(payload), NOW)
    assert ALARMS == []
    assert bool(verdict.lanes) is (not verdict.refusals)
    arrival = ANSWERS.arrival(verdict, payload, NOW)
    for reply in split_replies(arrival.ack):
        code = read_ack(reply).code
        assert code is not None
        assert code.positive is (not verdict.refusals)
    return verdict


@given(st.binary(max_size=300))
def test_any_bytes(payload: bytes) -> None:
    """Random bytes are refused with a readable reply."""
    assert evaluate(payload).refusals


@given(st.data())
def test_any_damage_to_an_order(data: st.DataObject) -> None:
    """An order with damaged bytes is accepted or refused, without an exception."""
    payload = bytearray(order())
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(payload) - 1))
        payload[at] = data.draw(st.integers(0, 255))
    evaluate(bytes(payload))


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_messages_of_every_shape(file: Path) -> None:
    """Each message is accepted, or refused with reason and place."""
    verdict = evaluate(file.read_bytes())
    for refusal in verdict.refusals:
        assert refusal.place
        assert refusal.text
