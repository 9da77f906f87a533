"""Threads acquire the fair lock in the order of their requests."""

import threading

import pytest

from bridge.store.locks import FairLock
from tests.eventually import PATIENCE, eventually


def test_first_come_first_served() -> None:
    """Whoever waits longest goes next, however many wait."""
    lock = FairLock()
    passed: list[int] = []

    def visitor(number: int) -> None:
        assert lock.acquire(PATIENCE)
        passed.append(number)
        lock.release()

    lock.acquire(PATIENCE)
    threads = []
    for number in range(8):
        threads.append(threading.Thread(target=visitor, args=(number,)))
        threads[-1].start()
        eventually(lambda: len(lock._waiters) == len(threads))
    lock.release()
    for thread in threads:
        thread.join()
    assert passed == list(range(8))


def test_an_urgent_writer_goes_first_but_not_twice() -> None:
    """It passes all that wait; after its turn one of them has the next."""
    lock = FairLock()
    passed: list[str] = []

    def visitor(name: str) -> None:
        assert lock.acquire(PATIENCE, urgent=name.startswith("urgent"))
        passed.append(name)
        lock.release()

    lock.acquire(PATIENCE)
    threads = []
    for name in ("first", "second", "urgent 1", "urgent 2"):
        threads.append(threading.Thread(target=visitor, args=(name,)))
        threads[-1].start()
        eventually(lambda: len(lock._urgent_waiters) + len(lock._waiters) == len(threads))
    lock.release()
    for thread in threads:
        thread.join()
    assert passed == ["urgent 1", "first", "urgent 2", "second"]


def test_waiting_ends() -> None:
    """A turn that does not come in time is given up, and nobody waits for it later."""
    lock = FairLock()
    lock.acquire(PATIENCE)
    got: list[bool] = []
    thread = threading.Thread(target=lambda: got.append(lock.acquire(0.01)))
    thread.start()
    thread.join()
    assert got == [False]
    lock.release()
    assert lock.acquire(0.01)


def test_not_reentrant() -> None:
    """A thread that holds the turn and asks again is told so instead of hanging."""
    lock = FairLock()
    lock.acquire(PATIENCE)
    with pytest.raises(RuntimeError):
        lock.acquire(PATIENCE)
