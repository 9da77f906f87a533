"""
Python hooks: `hook: module:function`, the one escape hatch of the mapping language.

The function gets a python-hl7 `hl7.Message` of the header and the group it is asked about,
and returns text or None. `module` is a file `module.py` of the mappings folder (and then part
of the mapping's version), else an installed module. It runs in the sandbox.
"""

from dataclasses import dataclass, field

from mappings import sandbox
from mappings.errors import HookFailed
from mappings.nodes import Node, Sources
from mappings.notebook import Notebook, meant
from mappings.scope import Scope

_IMPORT_SECONDS = 10.0
_TOO_LONG = "was stopped: it took too long or too much memory"


@dataclass(frozen=True, slots=True)
class Hook:
    """One function, by its name in the definition; `source` is None for installed modules."""

    module: str
    function: str
    source: str | None = field(repr=False)

    def value(self, scope: Scope) -> str:
        """Ask the hook; raises HookFailed for whatever goes wrong in it."""
        about = {"module": self.module, "source": self.source, "function": self.function}
        name = f"{self.module}:{self.function}"
        try:
            answer = sandbox.ask({"does": "call", **about, "text": text_of(scope)})
        except sandbox.Raised as raised:
            raise HookFailed(name, f"raised {raised}") from None
        except sandbox.Overrun:
            raise HookFailed(name, _TOO_LONG) from None
        return str(answer)


def text_of(scope: Scope) -> str:
    """Write header and group as one message, as python-hl7 wants it."""
    return "\r".join(segment.text() for segment in scope.segments) + "\r"


def find_hook(node: Node, sources: Sources, notebook: Notebook, files: set[str]) -> Hook | None:
    """Import a hook, in the sandbox; None (with an issue) when that is impossible."""
    name = notebook.text(node)
    module, colon, function = name.partition(":")
    if not (module and colon and function):
        notebook.error(node, "hook", "a hook is written as module:function")
        return None
    notebook.meanings.hooked = True
    file = f"{module}.py"
    if file in sources:
        files.add(file)
    source = sources.get(file)
    try:
        asked = {"does": "load", "module": module, "source": source}
        known: list[str] = sandbox.ask(asked, _IMPORT_SECONDS)
    except sandbox.Raised as raised:
        notebook.error(node, "hook", f"{module} cannot be imported: {raised}")
        return None
    except sandbox.Overrun:
        notebook.error(node, "hook", f"{module} cannot be imported: it takes too long")
        return None
    if function not in known:
        hint = meant(function, [each for each in known if not each.startswith("_")])
        notebook.error(node, "hook", f"{module} has no function {function!r}{hint}")
        return None
    return Hook(module, function, source)
