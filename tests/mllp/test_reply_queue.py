"""Replies leave in the order of their frames."""

from hypothesis import given
from hypothesis import strategies as st

from mllp.server import ReplyQueue


@given(order=st.permutations(range(6)))
def test_replies_leave_in_frame_order(order: list[int]) -> None:
    queue = ReplyQueue()
    slots = [queue.reserve() for _ in range(6)]
    left: list[bytes] = []
    for number in order:
        slots[number].replies = [bytes([number])]
        left += queue.take_ready()

    assert left == [bytes([number]) for number in range(6)]
    assert len(queue) == 0


def test_none_and_several() -> None:
    """A frame may have no reply, or more than one."""
    queue = ReplyQueue()
    first, second = queue.reserve(), queue.reserve()
    first.replies, second.replies = [], [b"CA", b"AA"]

    assert queue.take_ready() == [b"CA", b"AA"]


def test_a_failure_blocks_later_replies() -> None:
    """Replies before a failed frame leave. Later ones do not."""
    queue = ReplyQueue()
    slots = [queue.reserve() for _ in range(3)]
    slots[2].replies = [b"3"]
    slots[1].failed = True
    assert not queue.is_blocked

    slots[0].replies = [b"1"]

    assert queue.take_ready() == [b"1"]
    assert queue.is_blocked
    assert queue.take_ready() == []
