"""The message index: numbers in messages, their hashes, and the pace of the indexer."""

import pytest

from bridge.admin.search.message_content import segment_tree
from bridge.admin.search.message_index import (
    BUSY_BATCH,
    BUSY_PAUSE_FACTOR,
    BUSY_RATE,
    FULL_BATCH,
    IDLE_PAUSE,
    MAX_PAUSE,
    MIN_PAUSE,
    ArrivalSample,
    NumberKind,
    arrival_rate,
    batch_size,
    number_hash,
    pause_seconds,
    read_numbers,
)

MESSAGE = (
    b"MSH|^~\\&|RIS|HOSP|BRIDGE|RAD|20260102||ORM^O01|C1|P|2.5.1\r"
    b"PID|1||M1^^^HOSP^MR~N2^^^NHS||DOE^JANE\r"
    b"ORC|NW|P1|F1\rOBR|1|P1|F1|71250^CT\rOBR|2|P2|F2|71260^CT|||||||||||||||A2\r"
)


def test_all_numbers_of_a_message_are_found() -> None:
    """All repetitions of PID-3, and all orders of the message."""
    found = read_numbers(MESSAGE)
    assert found.control == {"C1"}
    assert found.patient == {"M1", "N2"}
    assert found.order == {"P1", "F1", "P2", "F2", "A2"}


def test_data_that_is_not_hl7_has_no_numbers() -> None:
    """Time and state still find it."""
    assert list(read_numbers(b"not HL7").hashes()) == []
    assert segment_tree(b"not HL7") == []


def test_the_kind_is_part_of_the_hash() -> None:
    """Equal digits of different kinds have different hashes; surrounding blanks are ignored."""
    assert len({number_hash(kind, "4711") for kind in NumberKind}) == len(NumberKind)
    assert number_hash(NumberKind.ORDER, " 4711 ") == number_hash(NumberKind.ORDER, "4711")


def test_the_rate_is_the_difference_of_two_samples() -> None:
    """An emptied database has the rate 0."""
    assert arrival_rate(ArrivalSample(10.0, 100), ArrivalSample(12.0, 300)) == pytest.approx(100.0)
    assert arrival_rate(ArrivalSample(10.0, 100), ArrivalSample(12.0, 1)) == 0


@pytest.mark.parametrize("took", [0.001, 0.05, 0.5, 10.0])
@pytest.mark.parametrize("full", [True, False])
def test_the_share_of_time_is_small_while_messages_arrive(took: float, *, full: bool) -> None:
    """At most a fortieth, but at least one batch in 30 seconds."""
    wait = pause_seconds(BUSY_RATE, took, full=full)
    assert MIN_PAUSE <= wait <= MAX_PAUSE
    assert wait >= min(MAX_PAUSE, took * BUSY_PAUSE_FACTOR)


def test_batches_are_small_while_messages_arrive() -> None:
    """An acknowledgment may wait for one batch, and a pause follows each batch."""
    assert batch_size(BUSY_RATE) == BUSY_BATCH
    assert batch_size(BUSY_RATE - 1) == FULL_BATCH
    assert pause_seconds(BUSY_RATE, 0.0, full=False) == MIN_PAUSE < IDLE_PAUSE


def test_the_indexer_catches_up_when_few_messages_arrive() -> None:
    """It uses half of the time, and looks once per second when all messages are indexed."""
    assert pause_seconds(0.0, 0.2, full=True) == pytest.approx(0.2)
    assert pause_seconds(BUSY_RATE - 1, 0.2, full=False) == IDLE_PAUSE
