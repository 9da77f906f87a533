"""Measure work in function calls, which are the same on every machine."""

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


def counted(work: Callable[[], T]) -> tuple[T, int]:
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event.endswith("call")

    gc.disable()  # the collector calls functions at any time
    sys.setprofile(count)
    try:
        result = work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return result, calls
