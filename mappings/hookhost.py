"""
The process that runs administrators' hooks and costly patterns: `python -m mappings.hookhost`.

Reads requests on stdin, answers on stdout, a length and JSON each. Bounded in memory, and by the
kernel in what a request may use of a processor; an alarm ends it when a request takes too long
and nobody is there any more to end it.
"""

import importlib
import json
import os
import re
import resource
import signal
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from types import ModuleType
from typing import Any, BinaryIO

import hl7

MOST_MEMORY = 512 * 1024 * 1024
"""Bytes of address space, the interpreter's own included."""
LENGTH = struct.Struct("!I")

Request = dict[str, Any]


@lru_cache(maxsize=32)
def module(name: str, source: str | None) -> ModuleType:
    """Run a file of the mappings folder once, or import an installed module."""
    if source is None:
        return importlib.import_module(name)
    made = ModuleType(name)
    made.__file__ = f"{name}.py"
    exec(compile(source, made.__file__, "exec"), made.__dict__)  # noqa: S102  # the author's own code, on purpose
    return made


def load(request: Request) -> Any:
    """Say what a module has, and which of it can be called."""
    found = module(request["module"], request["source"])
    return [name for name, each in vars(found).items() if callable(each)]


def call(request: Request) -> Any:
    """Ask a hook about a message."""
    function = getattr(module(request["module"], request["source"]), request["function"])
    answer = function(hl7.parse(request["text"]))
    return "" if answer is None else str(answer).strip()


def search(request: Request) -> Any:
    """Look for a pattern; give where it matches and what its first group holds."""
    found = re.compile(request["pattern"], re.IGNORECASE).search(request["text"])
    if found is None:
        return None
    return (found[1] if found.re.groups else found[0]) or ""


DOES: dict[str, Callable[[Request], Any]] = {"load": load, "call": call, "search": search}


def answer(request: Request) -> dict[str, Any]:
    """Do what is asked; whatever is raised is told by its class alone."""
    try:
        return {"value": DOES[request["does"]](request)}
    except Exception as error:  # noqa: BLE001  # the author's code may raise anything
        return {"raised": type(error).__name__}


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer until nobody asks any more."""
    replies.write(LENGTH.pack(0))  # ready
    replies.flush()
    while len(head := requests.read(LENGTH.size)) == LENGTH.size:
        request = json.loads(requests.read(LENGTH.unpack(head)[0]))
        signal.setitimer(signal.ITIMER_PROF, request["processor"])
        signal.setitimer(signal.ITIMER_REAL, request["seconds"])
        reply = json.dumps(answer(request)).encode()
        for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
            signal.setitimer(timer, 0)
        replies.write(LENGTH.pack(len(reply)) + reply)
        replies.flush()


def main() -> None:
    """Keep the pipes for ourselves: hooks read nothing and print nowhere."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    with suppress(BrokenPipeError):
        serve(requests, replies)


if __name__ == "__main__":
    main()
