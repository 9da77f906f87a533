"""Threads acquire the fair lock in the order of their requests."""

import threading

import pytest

from bridge.store.locks import FairLock
from tests.eventually import PATIENCE, eventually


def test_first_come_first_served() -> None:
    """The longest waiting thread acquires the lock next."""
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
    """An urgent writer passes all waiting threads. After it one of them is next."""
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


def test_timeout() -> None:
    """A request that times out is removed from the queue."""
    lock = FairLock()
    lock.acquire(PATIENCE)
    acquired: list[bool] = []
    thread = threading.Thread(target=lambda: acquired.append(lock.acquire(0.01)))
    thread.start()
    thread.join()
    assert acquired == [False]
    lock.release()
    assert lock.acquire(0.01)


def test_not_reentrant() -> None:
    """A thread that requests its own lock again gets an error."""
    lock = FairLock()
    lock.acquire(PATIENCE)
    with pytest.raises(RuntimeError):
        lock.acquire(PATIENCE)
