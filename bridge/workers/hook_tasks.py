"""
Tasks that run administrators' hooks; imported by the worker process.

`bridge.workers.hooks` calls them with the source code of the hook file as payload.
"""

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


def load(source: bytes, arguments: Mapping[str, Any]) -> list[str]:
    """Run a hook file; return the names of its functions."""
    hook_module = _run_file(source, arguments["module"])
    return [name for name, member in vars(hook_module).items() if _is_own(member, hook_module)]


def call(source: bytes, arguments: Mapping[str, Any]) -> str:
    """Call a hook with a message; None becomes an empty text."""
    hook_module = _run_file(source, arguments["module"])
    function = getattr(hook_module, arguments["function"])
    if not _is_own(function, hook_module):
        raise AttributeError(arguments["function"])
    answer = function(hl7.parse(arguments["text"]))
    return "" if answer is None else str(answer).strip()


TASKS = {"load": load, "call": call}


def _run_file(source: bytes, name: str) -> ModuleType:
    """Run a hook file as if it were imported; return its module."""
    hook_module = ModuleType(name)
    hook_module.__file__ = f"{name}.py"
    exec(compile(source, hook_module.__file__, "exec"), hook_module.__dict__)  # noqa: S102  # the purpose of a hook
    return hook_module


def _is_own(value: object, module: ModuleType) -> bool:
    """True if a value is a function that the hook file defines, not one that it imports."""
    return (
        isinstance(value, FunctionType)
        and value.__module__ == module.__name__
        and value.__code__.co_filename == module.__file__
    )
