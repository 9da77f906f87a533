"""
Warnings about rules that have no effect.

Such a rule is valid, but probably a mistake of its author.
"""

from collections.abc import Sequence

from mappings.language.diagnostics import FLAGS, Diagnostics, YamlNode

LISTENER = "listener"
_ALL_OR_FIRST = ("all", "first")
_NEEDS = {
    "where": _ALL_OR_FIRST,
    "after": _ALL_OR_FIRST,
    "separator": ("all", "join"),
    "distinct": ("all",),
    "unknown": ("codes", "codes_back"),
}
"""Modifiers, and the keys of which one must be present for the modifier to have an effect."""


def report_unreachable(items: Sequence[YamlNode], diagnostics: Diagnostics) -> None:
    """Report alternatives after one that always has a value, and repeated alternatives."""
    seen: set[str] = set()
    for index, item in enumerate(items):
        if isinstance(item.value, str):
            if item.value in seen:
                diagnostics.warn(
                    item, "dead", f"{item.value} has been tried before: it has no value"
                )
            seen.add(item.value)
        if always_has_value(item) and index < len(items) - 1:
            message = "never reached: the one before always has a value"
            diagnostics.warn(items[index + 1], "dead", message)
            return


def report_without_effect(entries: dict[str, YamlNode], diagnostics: Diagnostics) -> None:
    for key, needed in _NEEDS.items():
        if key in entries and not any(each in entries for each in needed):
            names = " or ".join(f"`{each}`" for each in needed)
            diagnostics.warn(entries[key].at_key(), "unused", f"`{key}` needs {names}")
    default = entries.get("default")
    if default is not None and default.value in ("", None):
        diagnostics.warn(default, "dead", "an empty default has no effect")
    required = entries.get("required")
    if required is not None and FLAGS.get(_text(required).lower(), False) and _defaulted(entries):
        message = "never refuses: there is always a value"
        diagnostics.warn(required.at_key(), "dead", message)


def always_has_value(node: YamlNode) -> bool:
    if isinstance(node.value, list):
        return any(always_has_value(item) for item in node.value)
    if not isinstance(node.value, dict):
        return False
    return _defaulted(node.value) or _constant(node.value)


def never_has_value(node: YamlNode) -> bool:
    if isinstance(node.value, list):
        return all(never_has_value(item) for item in node.value)
    if not isinstance(node.value, dict):
        return not node.value
    entries = node.value
    if "default" in entries and _text(entries["default"]):
        return False
    if "const" in entries:
        return not _text(entries["const"])
    below = [entries[key] for key in ("from", "join", "all", "first") if key in entries]
    return all(never_has_value(each) for each in below) and not {"age", "hook"} & entries.keys()


def is_from_listener_only(node: YamlNode) -> bool:
    if not isinstance(node.value, dict) or _text(node.get("default")) != LISTENER:
        return False
    others = {key: below for key, below in node.value.items() if key != "default"}
    return never_has_value(YamlNode(others, "", 0, 0))


def _constant(entries: dict[str, YamlNode]) -> bool:
    changed = {"when", "codes", "codes_back", "extract", "as"} & entries.keys()
    if changed:
        return False
    if "from" in entries:
        return always_has_value(entries["from"])
    if "join" in entries:
        below = entries["join"]
        items = below.value if isinstance(below.value, list) else [below]
        return any(always_has_value(item) for item in items)
    return bool(_text(entries.get("const")))


def _defaulted(entries: dict[str, YamlNode]) -> bool:
    default = _text(entries.get("default"))
    return bool(default) and default != LISTENER


def _text(node: YamlNode | None) -> str:
    return node.value if node is not None and isinstance(node.value, str) else ""
