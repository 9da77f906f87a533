"""A hook that returns when the test releases it, in place of the worker processes."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bridge.workers.hooks import install
from mappings.language.hooks import set_hook_executor
from tests.eventually import PATIENCE


class HeldHooks:
    """A hook executor: each call waits for its release and records the thread that it blocks."""

    def __init__(self, answer: str) -> None:
        self._answer = answer
        self.called = threading.Event()
        self.let_go = threading.Event()
        self.threads: list[int] = []

    def load(self, module: str, source: str) -> list[str]:
        """Every hook file has the function `f`."""
        return ["f"]

    def call(self, module: str, source: str, function: str, text: str) -> str:
        """Wait, then answer."""
        self.threads.append(threading.get_ident())
        self.called.set()
        assert self.let_go.wait(PATIENCE)
        return self._answer


@contextmanager
def held_hooks(answer: str) -> Iterator[HeldHooks]:
    """Make hooks wait within the block."""
    held = HeldHooks(answer)
    set_hook_executor(held)
    try:
        yield held
    finally:
        held.let_go.set()
        install()
