"""Threads pass in the order they came."""

import threading
import time

import pytest

from bridge.store.locks import Turnstile


def test_first_come_first_served() -> None:
    """Whoever waits longest goes next, however many wait."""
    turnstile = Turnstile()
    passed: list[int] = []

    def visitor(number: int) -> None:
        assert turnstile.acquire(5)
        passed.append(number)
        turnstile.release()

    turnstile.acquire(1)
    threads = []
    for number in range(8):
        threads.append(threading.Thread(target=visitor, args=(number,)))
        threads[-1].start()
        time.sleep(0.01)
    turnstile.release()
    for thread in threads:
        thread.join()
    assert passed == list(range(8))


def test_waiting_ends() -> None:
    """A turn that does not come in time is given up, and nobody waits for it later."""
    turnstile = Turnstile()
    turnstile.acquire(1)
    got: list[bool] = []
    thread = threading.Thread(target=lambda: got.append(turnstile.acquire(0.01)))
    thread.start()
    thread.join()
    assert got == [False]
    turnstile.release()
    assert turnstile.acquire(0.01)


def test_not_reentrant() -> None:
    """A thread that holds the turn and asks again is told so instead of hanging."""
    turnstile = Turnstile()
    turnstile.acquire(1)
    with pytest.raises(RuntimeError):
        turnstile.acquire(1)
