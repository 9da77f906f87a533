"""
Python hooks: `hook: module:function`, the one escape hatch of the mapping language.

The function gets a python-hl7 `hl7.Message` of the header and the group it is asked about,
and returns text or None. `module` is a file `module.py` of the mappings folder (and then part
of the mapping's version), else an installed module.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import hl7

from mappings.errors import HookFailed
from mappings.nodes import Node, Sources
from mappings.notebook import Notebook, meant
from mappings.scope import Scope


@dataclass(frozen=True, slots=True)
class Hook:
    """One function, by its name in the definition."""

    name: str
    function: Callable[[Any], Any]

    def value(self, scope: Scope) -> str:
        """Ask the hook; raises HookFailed for whatever goes wrong in it."""
        try:
            answer = self.function(hl7.parse(text_of(scope)))
        except Exception as error:  # noqa: BLE001  # the author's code may raise anything
            raise HookFailed(self.name, error) from None
        return "" if answer is None else str(answer).strip()


def text_of(scope: Scope) -> str:
    """Write header and group as one message, as python-hl7 wants it."""
    return "\r".join(segment.text() for segment in scope.segments) + "\r"


def find_hook(node: Node, sources: Sources, notebook: Notebook, files: set[str]) -> Hook | None:
    """Import a hook; None (with an issue) when that is impossible."""
    name = notebook.text(node)
    module_name, colon, function_name = name.partition(":")
    if not (module_name and colon and function_name):
        notebook.error(node, "hook", "a hook is written as module:function")
        return None
    try:
        module = _module(module_name, sources, files)
    except Exception as error:  # noqa: BLE001  # the author's code may raise anything
        notebook.error(node, "hook", f"{module_name} cannot be imported: {type(error).__name__}")
        return None
    function = getattr(module, function_name, None)
    if not callable(function):
        hint = meant(function_name, [each for each in vars(module) if not each.startswith("_")])
        notebook.error(node, "hook", f"{module_name} has no function {function_name!r}{hint}")
        return None
    return Hook(name, function)


def _module(name: str, sources: Sources, files: set[str]) -> ModuleType:
    """Run a file of the mappings folder, or import an installed module."""
    file = f"{name}.py"
    if file not in sources:
        return importlib.import_module(name)
    files.add(file)
    module = ModuleType(name)
    module.__file__ = file
    code = compile(sources[file], file, "exec")
    exec(code, module.__dict__)  # noqa: S102  # the administrator's own code, on purpose
    return module
