"""Tasks for administrators' hooks; the worker process imports this. See `hooks`."""

import importlib
from collections.abc import Mapping
from types import FunctionType, ModuleType
from typing import Any

import hl7

_OFTEN_USED = """
    base64 calendar collections contextlib csv datetime decimal difflib enum fractions functools
    hashlib html itertools json math operator random re statistics string textwrap time typing
    unicodedata uuid zoneinfo
"""
for _each in _OFTEN_USED.split():
    importlib.import_module(_each)  # once, and not with each call


def load(payload: bytes, given: Mapping[str, Any]) -> list[str]:
    """Run a hook file; name the functions that are defined in it."""
    found = _module(payload, given["module"])
    return [name for name, each in vars(found).items() if _is_own(each, found)]


def call(payload: bytes, given: Mapping[str, Any]) -> str:
    """Ask a hook about a message; no answer is an empty text."""
    found = _module(payload, given["module"])
    function = getattr(found, given["function"])
    if not _is_own(function, found):
        raise AttributeError(given["function"])
    answer = function(hl7.parse(given["text"]))
    return "" if answer is None else str(answer).strip()


TASKS = {"load": load, "call": call}


def _module(source: bytes, name: str) -> ModuleType:
    """Run a hook file, as if it were imported."""
    made = ModuleType(name)
    made.__file__ = f"{name}.py"
    exec(compile(source, made.__file__, "exec"), made.__dict__)  # noqa: S102  # the author's own code, on purpose
    return made


def _is_own(value: object, module: ModuleType) -> bool:
    """Say whether something is a function of this file, and not one that it imports."""
    return (
        isinstance(value, FunctionType)
        and value.__module__ == module.__name__
        and value.__code__.co_filename == module.__file__
    )
