"""
The style of an outbound definition: version, names, times, documents, echoes, Metadata.

Each choice is one setting, so that a destination can overlay its own.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mappings.language.conditions import compile_test
from mappings.language.context import CompilationContext
from mappings.language.diagnostics import YamlNode
from mappings.outbound.encoding import warn_if_beyond_last_field
from mappings.outbound.hl7_versions import VERSIONS, VersionTables
from mappings.outbound.results import FileFormat
from mappings.outbound.text_layout import TextLayout, compile_layout

REPEATED = "repeated"
ORDERS = ("separate", "combined", "grouped", REPEATED)
INTERPRETERS = ("ndl", "xcn", "name")
TIMES = ("offset", "local")
ECHOES = ("fields", "whole")
TEXT = "text"
CONTENT: Mapping[str, FileFormat] = {each.lower(): each for each in FileFormat}
METADATA_KEYS = ("send", "skip", "targets")
EVERY_KEY = "*"
OBX = "OBX"
KEYS = ("orders", "version", "interpreter", "times", "echo", "content", "text", "metadata")

TARGET = re.compile(r"none|OBX|NTE|Z[A-Z0-9]{2}(-[1-9]\d?)?|(OBR|ORC|PV1|PID)-[1-9]\d?")
"""Where a Metadata key may go: nowhere, an observation, a note, a Z segment, or a field."""

NEEDS: Mapping[str, str] = {
    "interpreter": "$interpreter",
    "content": "each: documents",
    "text.sections": "$section.code",
    "metadata.targets": "$target",
}
"""What segments must contain for a setting to have an effect."""


@dataclass(frozen=True, slots=True)
class OutputStyle:
    """The style settings of one definition. Without a version, fields are not fitted."""

    version: str = ""
    orders: str = "separate"
    interpreter: str = "ndl"
    times: str = "offset"
    echo: str = "fields"
    content: tuple[str, ...] = (TEXT,)
    layout: TextLayout = field(default_factory=TextLayout)
    wanted: Callable[[str], bool] = lambda key: True
    targets: Mapping[str, str] = field(default_factory=dict)

    @property
    def version_tables(self) -> VersionTables | None:
        """The tables of the version to which fields are fitted."""
        return VERSIONS.get(self.version)

    @property
    def zoned(self) -> bool:
        """Whether times are written with their offset from UTC."""
        return self.times == "offset"

    @property
    def formats(self) -> frozenset[FileFormat]:
        """The file formats that are sent with the text."""
        return frozenset(CONTENT[each] for each in self.content if each in CONTENT)

    def target(self, key: str) -> str:
        """Return the target of a Metadata key. The default is `OBX`."""
        return self.targets.get(key) or self.targets.get(EVERY_KEY, OBX)


def compile_style(entries: Mapping[str, YamlNode], context: CompilationContext) -> OutputStyle:
    """Read the style settings. Invalid ones have their defaults."""
    targets = _targets(entries.get("metadata"), context)
    return OutputStyle(
        version=_read_setting(entries.get("version"), "version", tuple(VERSIONS), "", context),
        orders=_read_setting(entries.get("orders"), "choice", ORDERS, "separate", context),
        interpreter=_read_setting(
            entries.get("interpreter"), "interpreter", INTERPRETERS, "ndl", context
        ),
        times=_read_setting(entries.get("times"), "times", TIMES, "offset", context),
        echo=_read_setting(entries.get("echo"), "echo", ECHOES, "fields", context),
        content=_content(entries.get("content"), context),
        layout=compile_layout(entries.get("text"), context),
        wanted=_wanted(entries.get("metadata"), context),
        targets=targets,
    )


def check_style_has_effect(
    root: YamlNode, entries: Mapping[str, YamlNode], context: CompilationContext
) -> None:
    """
    Report settings without effect, because no segment contains what they choose.

    Only settings of the outermost file are checked: an overlay need not use all settings of its
    base.
    """
    for setting, needed in NEEDS.items():
        first, _, second = setting.partition(".")
        node = entries.get(first)
        if node is not None and second:
            node = node.get(second)
        if node is None or node.file != root.file or needed in context.used or _is_default(node):
            continue
        context.diagnostics.error(node, "no-effect", f"has no effect: no segment has {needed}")


def _is_default(node: YamlNode) -> bool:
    """True if a setting has no effect by intention: no sections, or only text."""
    values = [item.value for item in node.value] if isinstance(node.value, list) else [node.value]
    return values in (["none"], [TEXT])


def _read_setting(
    node: YamlNode | None,
    what: str,
    known: tuple[str, ...],
    default: str,
    context: CompilationContext,
) -> str:
    if node is None:
        return default
    return context.diagnostics.read_choice(node, what, known) or default


def _content(node: YamlNode | None, context: CompilationContext) -> tuple[str, ...]:
    if node is None:
        return (TEXT,)
    known = (TEXT, *CONTENT)
    chosen = [
        context.diagnostics.read_choice(item, "content", known)
        for item in context.diagnostics.read_items(node)
    ]
    if not chosen:
        context.diagnostics.error(node, "content", f"name at least one of {', '.join(known)}")
    return tuple(each for each in chosen if each)


def _wanted(node: YamlNode | None, context: CompilationContext) -> Callable[[str], bool]:
    """Read which keys are sent: all, none, or those that pass a test."""
    if node is None:
        return lambda key: True
    entries = context.diagnostics.read_mapping(node, METADATA_KEYS)
    send = compile_test(entries["send"], context.diagnostics) if "send" in entries else None
    skip = compile_test(entries["skip"], context.diagnostics) if "skip" in entries else None
    return lambda key: (send is None or send(key)) and not (skip is not None and skip(key))


def _targets(node: YamlNode | None, context: CompilationContext) -> dict[str, str]:
    targets = node.get("targets") if node is not None else None
    if targets is None:
        return {}
    found = {}
    for key, below in context.diagnostics.read_mapping(targets).items():
        text = context.diagnostics.read_text(below)
        if TARGET.fullmatch(text):
            found[key] = text
            segment, _, number = text.partition("-")
            warn_if_beyond_last_field(segment, int(number or 0), below, context.diagnostics)
        else:
            wanted = "none, OBX, NTE, a Z segment, or a field such as OBR-21 or ZMD-3"
            context.diagnostics.error(below, "target", f"{text!r} is no target: write {wanted}")
    return found
