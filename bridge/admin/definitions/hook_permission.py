"""
The permission `code`: who may add Python code to a definition.

The rule applies to drafts, trials, comparisons, activations and rollbacks of the console. Without
the permission, an author can neither add or change a hook file nor refer to a hook that the active
version does not use. Imports of interface packages always need the permission. With the permission,
a change of code needs a fresh proof of identity.
"""

from collections.abc import Mapping
from types import MappingProxyType

from bridge.console.errors import PermissionDenied
from bridge.console.permissions import Permission
from bridge.store.database import Database
from bridge.wiring.active_definitions import active_sources, all_sources
from config import Settings
from mappings.language.diagnostics import Sources
from mappings.language.hooks import SUFFIX, changes_hooks


def adds_code(
    settings: Settings,
    database: Database,
    name: str,
    sources: Sources,
    written: Mapping[str, str] = MappingProxyType({}),
) -> bool:
    """
    Tell whether a definition runs other code than its active version.

    `sources` are all files that the definition may refer to; `written` are the author's files.
    """
    known = all_sources(settings, database, name)
    own = {file: text for file, text in written.items() if file.endswith(SUFFIX)}
    if any(known.get(file) != text for file, text in own.items()):
        return True
    return changes_hooks(active_sources(settings, database)(name), sources, name)


def require_code_permission(
    settings: Settings,
    database: Database,
    name: str,
    sources: Sources,
    written: Mapping[str, str] = MappingProxyType({}),
    *,
    code: bool,
) -> None:
    """Raise PermissionDenied if the definition adds code and the author lacks permission `code`."""
    if not code and adds_code(settings, database, name, sources, written):
        raise PermissionDenied(Permission.CODE)
