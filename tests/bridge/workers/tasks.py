"""Tasks that the tests of the pool call in worker processes."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_calls: list[int] = []


def length(payload: bytes, given: Mapping[str, Any]) -> int:
    return len(payload) + int(given.get("more", 0))


def echo(payload: bytes, given: Mapping[str, Any]) -> bytes:
    return payload


def count(payload: bytes, given: Mapping[str, Any]) -> int:
    _calls.append(1)
    return len(_calls)


def sleep(payload: bytes, given: Mapping[str, Any]) -> None:
    time.sleep(given["seconds"])


def compute(payload: bytes, given: Mapping[str, Any]) -> None:
    while True:
        pass


def fail(payload: bytes, given: Mapping[str, Any]) -> None:
    raise KeyError(payload.decode())


def leave(payload: bytes, given: Mapping[str, Any]) -> None:
    os._exit(0)


def about(payload: bytes, given: Mapping[str, Any]) -> list[Any]:
    return [dict(os.environ), os.getppid(), str(Path.cwd())]


TASKS = {item.__name__: item for item in (length, echo, count, sleep, compute, fail, leave, about)}
