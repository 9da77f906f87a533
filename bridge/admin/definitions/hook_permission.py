"""Who may bring foreign code into a definition: those with the permission `code`.

The one rule, for drafts, trials, comparisons, activations and rollbacks of the console: without the
permission a person neither adds nor changes a hook file, nor refers to a hook that the active
version of the definition does not use. Imports of interfaces need the permission in any case.
With the permission, what brings code needs a fresh proof of identity.
"""

from collections.abc import Mapping
from types import MappingProxyType

from bridge.console.errors import PermissionDenied
from bridge.console.permissions import Permission
from bridge.store.database import Database
from bridge.wiring.active_definitions import in_force, whole
from config import Settings
from mappings.language.diagnostics import Sources
from mappings.language.hooks import SUFFIX, changes_hooks


def brings_code(
    settings: Settings,
    database: Database,
    name: str,
    sources: Sources,
    written: Mapping[str, str] = MappingProxyType({}),
) -> bool:
    """
    Tell whether a definition would run other code than its active version.

    `sources` are all that the definition may refer to; `written` are the person's own files.
    """
    known = whole(settings, database, name)
    own = {file: text for file, text in written.items() if file.endswith(SUFFIX)}
    if any(known.get(file) != text for file, text in own.items()):
        return True
    return changes_hooks(in_force(settings, database)(name), sources, name)


def require_code(
    settings: Settings,
    database: Database,
    name: str,
    sources: Sources,
    written: Mapping[str, str] = MappingProxyType({}),
    *,
    code: bool,
) -> None:
    """Raise NotPermitted where a person without the permission (`code`) would run other code."""
    if not code and brings_code(settings, database, name, sources, written):
        raise PermissionDenied(Permission.CODE)
