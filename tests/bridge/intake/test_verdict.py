"""Judging never fails: any bytes lead to a verdict, and real messages to one with a place."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.intake.receive.acknowledgments import Answers, split
from bridge.intake.receive.verdict import Judge, Verdict
from mappings.hl7.acknowledgment import read_ack
from mllp.framing import Frame
from tests.bridge.intake.desk import LISTENING, NOW, order

CORPUS = Path(__file__).parents[4] / "shared" / "corpus"
FILES = sorted(CORPUS.glob("*.hl7"))

ALARMS: list[Exception] = []
JUDGE = Judge(LISTENING, ALARMS.append)
ANSWERS = Answers(LISTENING, lambda: "ID")


def judge(payload: bytes) -> Verdict:
    """Judge, and check that the answer says what the verdict does."""
    ALARMS.clear()
    verdict = JUDGE.judge(Frame(payload), NOW)
    assert ALARMS == []
    assert bool(verdict.lanes) is (not verdict.refusals)
    arrival = ANSWERS.arrival(verdict, payload, NOW)
    for reply in split(arrival.ack):
        code = read_ack(reply).code
        assert code is not None
        assert code.positive is (not verdict.refusals)
    return verdict


@given(st.binary(max_size=300))
def test_any_bytes(payload: bytes) -> None:
    """Noise is refused, with a readable answer."""
    assert judge(payload).refusals


@given(st.data())
def test_any_damage_to_an_order(data: st.DataObject) -> None:
    """Bytes of an order replaced anywhere: accepted or refused, never a failure."""
    payload = bytearray(order())
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(payload) - 1))
        payload[at] = data.draw(st.integers(0, 255))
    judge(bytes(payload))


@pytest.mark.skipif(not FILES, reason="the corpus of real messages is not here")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_real_messages(file: Path) -> None:
    """Each is accepted, or refused with a reason and a place."""
    verdict = judge(file.read_bytes())
    for refusal in verdict.refusals:
        assert refusal.place
        assert refusal.text
