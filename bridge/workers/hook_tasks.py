"""Tasks that run administrators' hooks; imported by the worker process. See `hooks`."""

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
    importlib.import_module(_each)  # once, instead of in each call


def load(payload: bytes, arguments: Mapping[str, Any]) -> list[str]:
    """Run a hook file; return the names of its functions."""
    found = _module(payload, arguments["module"])
    return [name for name, each in vars(found).items() if _is_own(each, found)]


def call(payload: bytes, arguments: Mapping[str, Any]) -> str:
    """Call a hook with a message; None becomes an empty text."""
    found = _module(payload, arguments["module"])
    function = getattr(found, arguments["function"])
    if not _is_own(function, found):
        raise AttributeError(arguments["function"])
    answer = function(hl7.parse(arguments["text"]))
    return "" if answer is None else str(answer).strip()


TASKS = {"load": load, "call": call}


def _module(source: bytes, name: str) -> ModuleType:
    """Run a hook file as if it were imported."""
    hook_module = ModuleType(name)
    hook_module.__file__ = f"{name}.py"
    exec(compile(source, hook_module.__file__, "exec"), hook_module.__dict__)  # noqa: S102  # the purpose of a hook
    return hook_module


def _is_own(value: object, module: ModuleType) -> bool:
    """Tell whether a value is a function that this file defines, not one that it imports."""
    return (
        isinstance(value, FunctionType)
        and value.__module__ == module.__name__
        and value.__code__.co_filename == module.__file__
    )
