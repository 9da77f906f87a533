"""Python hooks: `hook: module:function`, and which hooks a definition refers to.

`module` is a file `module.py` in the folder of the definitions, the hook folder, and nothing else:
no installed module, no package, no path. The file is part of the mapping's version. `function` is
defined in that file. It gets a python-hl7 `hl7.Message` of the header and the group that it is
asked about, and returns text or None.

This package runs no process: who composes the program says with `run_hooks_by` what runs hooks
(`bridge.workers.hooks`). Where nothing does, a definition with a hook is a mistake.

Counts every `hook:` of every file that the definition reaches, whether an overlay replaces it or
not, and hooks that do not exist. So a definition uses no hook that is not named here.
"""

import re
from dataclasses import dataclass, field
from typing import Protocol

from mappings.language.definition_files import parse_yaml
from mappings.language.diagnostics import Diagnostics, Sources, YamlNode, meant
from mappings.language.errors import HookFailed
from mappings.language.scope import MessageScope

SUFFIX = ".py"
"""Of hook files."""

_NAME = re.compile(r"(?!__)([A-Za-z_][A-Za-z0-9_]{0,63}):([A-Za-z][A-Za-z0-9_]{0,63})", re.ASCII)


class HookStopped(Exception):  # noqa: N818  # named for what happened
    """A hook has no answer; the text says why, and tells nothing of a message."""


class HookRunner(Protocol):
    """Runs hook files where they can do no harm. Both methods block, and raise HookStopped."""

    def load(self, module: str, source: str) -> list[str]:
        """Run a hook file; name the functions that it defines."""

    def call(self, module: str, source: str, function: str, text: str) -> str:
        """Ask a hook about a message, in the notation of python-hl7."""


@dataclass(frozen=True, slots=True)
class MappingHook:
    """One function of a hook file, by its name in the definition."""

    module: str
    function: str
    source: str = field(repr=False)

    def value(self, scope: MessageScope) -> str:
        """Ask the hook; raises HookFailed for whatever goes wrong in it."""
        try:
            return _runner().call(self.module, self.source, self.function, text_of(scope))
        except HookStopped as error:
            raise HookFailed(f"{self.module}:{self.function}", str(error)) from None


def set_hook_runner(runner: HookRunner | None) -> None:
    """Say what runs the hooks of this process from now on."""
    _installed[:] = [] if runner is None else [runner]


def text_of(scope: MessageScope) -> str:
    """Write header and group as one message, as python-hl7 wants it."""
    return "\r".join(scope.texts(bool)) + "\r"


def find_hook(
    node: YamlNode, sources: Sources, notebook: Diagnostics, files: set[str]
) -> MappingHook | None:
    """Find a hook and load its file; None (with an issue) when that is impossible."""
    name = _NAME.fullmatch(notebook.text(node))
    if name is None:
        notebook.error(node, "hook", "a hook is written as module:function, both plain names")
        return None
    module, function = name.groups()
    notebook.takes_long = True
    file = f"{module}{SUFFIX}"
    if file not in sources:
        known = [each.removesuffix(SUFFIX) for each in sources if each.endswith(SUFFIX)]
        notebook.error(
            node, "hook", f"there is no file {file} in the hook folder{meant(module, known)}"
        )
        return None
    files.add(file)
    source = sources[file]
    try:
        known = _runner().load(module, source)
    except HookStopped as error:
        notebook.error(node, "hook", f"{module} cannot be imported: it {error}")
        return None
    if function not in known:
        hint = meant(function, [each for each in known if not each.startswith("_")])
        notebook.error(node, "hook", f"{file} defines no function {function!r}{hint}")
        return None
    return MappingHook(module, function, source)


class _Nothing:
    """Stands in where nothing runs hooks."""

    def load(self, module: str, source: str) -> list[str]:
        raise HookStopped("has no process to run in")

    def call(self, module: str, source: str, function: str, text: str) -> str:
        raise HookStopped("has no process to run in")


_installed: list[HookRunner] = []


def _runner() -> HookRunner:
    return _installed[0] if _installed else _Nothing()


@dataclass(frozen=True, slots=True)
class HookReference:
    """A reference to a hook as it is written, and the text of its file; empty without one."""

    reference: str
    source: str


def hooks_used(sources: Sources, name: str) -> frozenset[HookReference]:
    """Give the hooks that a definition refers to, itself or through what it includes."""
    found: set[HookReference] = set()
    files, known = [f"{name}.yaml"], set[str]()
    while files:
        file = files.pop()
        if file in known or file not in sources:
            continue
        known.add(file)
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
    Say whether a definition would run other code than before.

    It would where it refers to a hook that it did not refer to, or a hook's file has changed.
    """
    return not hooks_used(after, name) <= hooks_used(before, name)


def _references(root: YamlNode) -> list[str]:
    """Give the texts at every key `hook`, however deep."""
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
    return [each.value for each in items if isinstance(each.value, str)]
