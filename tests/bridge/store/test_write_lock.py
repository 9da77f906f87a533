"""Writers of an SQLite file in a process wait for each other, first come, first served."""

import threading

import pytest

from bridge.store.errors import Busy
from bridge.store.sqlite import WriteLock
from tests.eventually import eventually


def test_first_come_first_served() -> None:
    """The longest waiting thread acquires the lock next."""
    lock = WriteLock()
    passed: list[int] = []

    def visitor(number: int) -> None:
        with lock:
            passed.append(number)

    lock.__enter__()
    threads = []
    for number in range(8):
        threads.append(threading.Thread(target=visitor, args=(number,)))
        threads[-1].start()
        eventually(lambda: len(lock._waiters) == len(threads))
    lock.__exit__()
    for thread in threads:
        thread.join()
    assert passed == list(range(8))


def test_timeout() -> None:
    """A request that times out is removed from the queue."""
    lock = WriteLock(timeout=0.01)
    refused: list[Busy] = []

    def visitor() -> None:
        try:
            with lock:
                pass
        except Busy as error:
            refused.append(error)

    with lock:
        thread = threading.Thread(target=visitor)
        thread.start()
        thread.join()
    assert len(refused) == 1
    with lock:
        pass


def test_not_reentrant() -> None:
    """A thread that requests its own lock again gets an error."""
    lock = WriteLock()
    with lock, pytest.raises(RuntimeError), lock:
        pass
