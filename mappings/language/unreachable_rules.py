"""Warnings about rules that can never have an effect.

A dead rule is no mistake of form. It is one of thought: its author believes that it does something.
"""

from collections.abc import Sequence

from mappings.language.diagnostics import FLAGS, Diagnostics, YamlNode

LISTENER = "listener"
_GATHERERS = ("all", "first")
_NEEDS = {
    "where": _GATHERERS,
    "after": _GATHERERS,
    "separator": ("all", "join"),
    "unknown": ("codes", "codes_back"),
}
"""What stands beside a source, and the sources without which it does nothing."""


def unreachable(items: Sequence[YamlNode], notebook: Diagnostics) -> None:
    """Note the alternatives behind one that always has a value, and those that stand twice."""
    seen: set[str] = set()
    for place, item in enumerate(items):
        if isinstance(item.value, str):
            if item.value in seen:
                notebook.warn(item, "dead", f"{item.value} has been tried before: it has no value")
            seen.add(item.value)
        if always(item) and place < len(items) - 1:
            message = "never reached: the one before always has a value"
            notebook.warn(items[place + 1], "dead", message)
            return


def without_effect(entries: dict[str, YamlNode], notebook: Diagnostics) -> None:
    """Note what stands beside a source that it does nothing for."""
    for key, needed in _NEEDS.items():
        if key in entries and not any(each in entries for each in needed):
            names = " or ".join(f"`{each}`" for each in needed)
            notebook.warn(entries[key].at_key(), "unused", f"`{key}` needs {names}")
    default = entries.get("default")
    if default is not None and default.value in ("", None):
        notebook.warn(default, "dead", "an empty default has no effect")
    required = entries.get("required")
    if required is not None and FLAGS.get(_text(required).lower(), False) and _defaulted(entries):
        message = "never refuses: there is always a value"
        notebook.warn(required.at_key(), "dead", message)


def always(node: YamlNode) -> bool:
    """Say whether a rule has a value for every message."""
    if isinstance(node.value, list):
        return any(always(item) for item in node.value)
    if not isinstance(node.value, dict):
        return False
    return _defaulted(node.value) or _constant(node.value)


def never(node: YamlNode) -> bool:
    """Say whether a rule has a value for no message at all."""
    if isinstance(node.value, list):
        return all(never(item) for item in node.value)
    if not isinstance(node.value, dict):
        return not node.value
    entries = node.value
    if "default" in entries and _text(entries["default"]):
        return False
    if "const" in entries:
        return not _text(entries["const"])
    below = [entries[key] for key in ("from", "join", "all", "first") if key in entries]
    return all(never(each) for each in below) and not {"age", "hook"} & entries.keys()


def from_listener_alone(node: YamlNode) -> bool:
    """Say whether a rule takes its value from the listener's settings and no message."""
    if not isinstance(node.value, dict) or _text(node.get("default")) != LISTENER:
        return False
    return never(YamlNode({k: v for k, v in node.value.items() if k != "default"}, "", 0, 0))


def _constant(entries: dict[str, YamlNode]) -> bool:
    changed = {"when", "codes", "codes_back", "extract", "as"} & entries.keys()
    if changed:
        return False
    if "from" in entries:
        return always(entries["from"])
    if "join" in entries:
        below = entries["join"]
        items = below.value if isinstance(below.value, list) else [below]
        return any(always(item) for item in items)
    return bool(_text(entries.get("const")))


def _defaulted(entries: dict[str, YamlNode]) -> bool:
    default = _text(entries.get("default"))
    return bool(default) and default != LISTENER


def _text(node: YamlNode | None) -> str:
    return node.value if node is not None and isinstance(node.value, str) else ""
