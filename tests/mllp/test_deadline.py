"""Deadlines on a test clock."""

from twisted.internet.task import Clock

from mllp.contract import Deadline


def test_it_expires() -> None:
    """A deadline expires once."""
    clock, expired = Clock(), list[int]()
    Deadline(clock, 5, lambda: expired.append(1)).start()
    clock.advance(4.9)
    assert not expired

    clock.advance(0.2)
    clock.advance(60)

    assert len(expired) == 1
    assert not clock.getDelayedCalls()


def test_touch() -> None:
    clock, expired = Clock(), list[int]()
    deadline = Deadline(clock, 5, lambda: expired.append(1))
    deadline.start()
    for _ in range(3):
        clock.advance(3)
        deadline.touch()
    clock.advance(4)
    assert not expired

    clock.advance(1)

    assert expired


def test_bytes_of_the_same_turn() -> None:
    """Bytes of the same reactor turn still stop or postpone the deadline."""
    clock, expired = Clock(), list[int]()
    stopped, postponed = (Deadline(clock, 5, lambda: expired.append(1)) for _ in range(2))
    stopped.start()
    postponed.start()
    clock.callLater(5, stopped.stop)
    clock.callLater(5, postponed.touch)

    clock.advance(5)
    assert not expired
    assert postponed.running

    clock.advance(5)
    assert len(expired) == 1


def test_stopping_leaves_no_call() -> None:
    """A stopped deadline does not expire, also after a touch."""
    clock = Clock()
    deadline = Deadline(clock, 5, lambda: None)
    deadline.start()

    deadline.stop()
    deadline.touch()

    assert not deadline.running
    assert not clock.getDelayedCalls()


def test_zero_never_expires() -> None:
    """A limit of 0 never expires."""
    clock = Clock()
    Deadline(clock, 0, lambda: None).start()

    assert not clock.getDelayedCalls()
