"""
Rules over every segment and repetition: `all` joins what is there, `first` takes the first.

`{all: [OBR-31.2, OBR-31.1]}` asks each repetition for its text, else for its code. Other rules
are in `mappings.rules`.
"""

from collections.abc import Callable

from mappings.conditions import Condition, compile_condition
from mappings.fetch import NULL, compile_all, parse_path
from mappings.hl7.path import Path
from mappings.nodes import Node
from mappings.scope import Scope
from mappings.workshop import Workshop

Rule = Callable[[Scope], str]


def nothing(_scope: Scope) -> str:
    """Yield nothing: what a rule with a mistake does."""
    return ""


def separator_of(entries: dict[str, Node], shop: Workshop) -> str:
    """Read `separator`; a line feed where none is given."""
    return shop.notebook.text(entries["separator"]) if "separator" in entries else "\n"


def compile_gathering(
    entries: dict[str, Node], shop: Workshop, *, only_first: bool, raw: bool
) -> Rule:
    """Compile `all` or `first`, whichever is among the entries."""
    paths = _paths(entries["first" if only_first else "all"], shop)
    if not paths:
        return nothing
    segment = paths[0].segment
    after = shop.notebook.texts(entries["after"]) if "after" in entries else [""]
    found = [compile_all(paths, after=each, raw=raw) for each in after]
    where = _where(entries, segment, shop)
    separator = separator_of(entries, shop)

    def get(scope: Scope) -> str:
        if segment not in scope.own.filed and segment not in scope.header.filed:
            return ""
        seen = scope if where is None else _filtered(scope, segment, where)
        values = [value for many in found for value in many(seen) if value]
        if not values:
            return ""
        kept = [value for value in values if value != NULL] if NULL in values else values
        if not kept:
            return NULL
        return kept[0] if only_first or len(kept) == 1 else separator.join(kept)

    return get


def _paths(node: Node, shop: Workshop) -> list[Path]:
    """Read one path, or several into the same field."""
    paths: list[Path] = []
    for item in shop.notebook.items(node):
        text = shop.notebook.text(item)
        shop.paths.append(text)
        place = parse_path(text, item, shop.notebook)
        if place is None:
            return []
        paths.append(place.path)
        if (paths[0].segment, paths[0].field) != (place.path.segment, place.path.field):
            shop.notebook.error(item, "path", "all alternatives must lie in the same field")
    if not paths:
        shop.notebook.error(node, "empty", "a path such as NTE-3 is expected here")
    return paths


def _where(entries: dict[str, Node], segment: str, shop: Workshop) -> Condition | None:
    if "where" not in entries:
        return None
    for key in shop.notebook.mapping(entries["where"]):
        if key not in ("any", "not") and not key.startswith(segment):
            place = entries["where"][key].at_key()
            shop.notebook.error(place, "where", f"`where` looks at {segment} alone")
    return compile_condition(entries["where"], shop.notebook)


def _filtered(scope: Scope, segment: str, where: Condition) -> Scope:
    """See only those segments of a kind for which the condition holds."""
    return scope.among([each for each in scope.every(segment) if where(scope.only(each))])
