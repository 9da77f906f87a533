"""
Python hooks: `hook: module:function`, and which hooks a definition refers to.

`module` is a file `module.py` in the folder of the definitions (the hook folder); installed
modules, packages and paths are not possible. The file is part of the version of the mapping.
`function` is defined in that file. It receives a python-hl7 `hl7.Message` with the header and the
current group, and returns text or None.

This package does not run processes. The program installs an executor with `set_hook_executor`
(`bridge.workers.hooks`). Without an executor, a definition with a hook has an error.

`hooks_used` includes each `hook:` of all files that a definition reaches, also those that an
overlay replaces and those that do not exist, so that no hook runs without the permission for it.
"""

import re
from dataclasses import dataclass, field
from typing import Protocol

from mappings.language.definition_files import parse_yaml
from mappings.language.diagnostics import (
    Diagnostics,
    HookFailed,
    HookNotCalled,
    Sources,
    YamlNode,
    suggestion,
)
from mappings.language.scope import MessageScope

SUFFIX = ".py"
"""The suffix of hook files."""

_NAME = re.compile(r"(?!__)([A-Za-z_][A-Za-z0-9_]{0,63}):([A-Za-z][A-Za-z0-9_]{0,63})", re.ASCII)


class HookStopped(Exception):
    """A hook returned no result. The text states why and contains nothing of the message."""


class HooksBusy(HookStopped):
    """A hook was not called: no process was free in time."""


class HookExecutor(Protocol):
    """Executes hook files in isolation. Both methods block and raise HookStopped."""

    def load(self, module: str, source: str) -> list[str]:
        """Load a hook file; return the names of its functions."""

    def call(self, module: str, source: str, function: str, text: str) -> str:
        """Call a hook with a message in the notation of python-hl7."""


@dataclass(frozen=True, slots=True)
class MappingHook:
    """A function of a hook file, with the names that the definition uses."""

    module: str
    function: str
    source: str = field(repr=False)

    def value(self, scope: MessageScope) -> str:
        """Call the hook. Raises HookFailed for each failure."""
        name = f"{self.module}:{self.function}"
        try:
            return _executor().call(self.module, self.source, self.function, text_of(scope))
        except HooksBusy as error:
            raise HookNotCalled(name, str(error)) from None
        except HookStopped as error:
            raise HookFailed(name, str(error)) from None


def set_hook_executor(executor: HookExecutor | None) -> None:
    _installed[:] = [] if executor is None else [executor]


def text_of(scope: MessageScope) -> str:
    """Format header and group as one message for python-hl7."""
    return "\r".join(scope.select_lines(bool)) + "\r"


def find_hook(
    node: YamlNode, sources: Sources, diagnostics: Diagnostics, files: set[str]
) -> MappingHook | None:
    """Look up a hook and load its file. Reports an issue and returns None if that fails."""
    name = _NAME.fullmatch(diagnostics.read_text(node))
    if name is None:
        diagnostics.error(node, "hook", "a hook is written as module:function, both plain names")
        return None
    module, function = name.groups()
    diagnostics.needs_thread = True
    file = f"{module}{SUFFIX}"
    if file not in sources:
        known = [path.removesuffix(SUFFIX) for path in sources if path.endswith(SUFFIX)]
        diagnostics.error(
            node, "hook", f"there is no file {file} in the hook folder{suggestion(module, known)}"
        )
        return None
    files.add(file)
    source = sources[file]
    try:
        known = _executor().load(module, source)
    except HookStopped as error:
        diagnostics.error(node, "hook", f"{module} cannot be imported: it {error}")
        return None
    if function not in known:
        hint = suggestion(function, [defined for defined in known if not defined.startswith("_")])
        diagnostics.error(node, "hook", f"{file} defines no function {function!r}{hint}")
        return None
    return MappingHook(module, function, source)


class _NoExecutor:
    def load(self, module: str, source: str) -> list[str]:
        raise HookStopped("has no process to run in")

    def call(self, module: str, source: str, function: str, text: str) -> str:
        raise HookStopped("has no process to run in")


_installed: list[HookExecutor] = []


def _executor() -> HookExecutor:
    return _installed[0] if _installed else _NoExecutor()


@dataclass(frozen=True, slots=True)
class HookReference:
    """A reference to a hook as written, and the text of its file; '' if there is no file."""

    reference: str
    source: str


def hooks_used(sources: Sources, name: str) -> frozenset[HookReference]:
    """Return the hooks that a definition and its includes refer to."""
    found: set[HookReference] = set()
    files, visited = [f"{name}.yaml"], set[str]()
    while files:
        file = files.pop()
        if file in visited or file not in sources:
            continue
        visited.add(file)
        root = parse_yaml(sources[file], file, Diagnostics())
        if root is None:
            continue
        files += _texts(root.get("include"))
        for reference in _references(root):
            module = reference.partition(":")[0]
            found.add(HookReference(reference, sources.get(f"{module}{SUFFIX}", "")))
    return frozenset(found)


def changes_hooks(before: Sources, after: Sources, name: str) -> bool:
    """
    True if a definition runs code that it did not run before.

    This is so if it refers to another hook, or if the file of a hook has changed.
    """
    return not hooks_used(after, name) <= hooks_used(before, name)


def _references(root: YamlNode) -> list[str]:
    """Return the values of all keys `hook`, at any depth."""
    found: list[str] = []
    nodes = [root]
    while nodes:
        value = nodes.pop().value
        if isinstance(value, dict):
            found += _texts(value.get("hook"))
            nodes += value.values()
        elif isinstance(value, list):
            nodes += value
    return found


def _texts(node: YamlNode | None) -> list[str]:
    if node is None:
        return []
    items = node.value if isinstance(node.value, list) else [node]
    return [item.value for item in items if isinstance(item.value, str)]
