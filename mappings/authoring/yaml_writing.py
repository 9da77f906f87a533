"""
Values written as YAML into an author's text: what is equal, comments, quotes and line breaks stay.

`YamlWriter` collects edits by offsets of the text that it is given.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise

from mappings.authoring.text_edits import EditRefused, TextEdit
from mappings.language.diagnostics import YamlNode
from mappings.language.rules import SOURCES

Tree = str | list["Tree"] | dict[str, "Tree"] | None
"""A rule as plain values; all scalars are texts."""


def plain(node: YamlNode) -> Tree:
    """Return a node as plain values."""
    if isinstance(node.value, dict):
        return {key: plain(below) for key, below in node.value.items()}
    if isinstance(node.value, list):
        return [plain(item) for item in node.value]
    return node.value


def node_at(root: YamlNode, keys: Sequence[str]) -> YamlNode | None:
    node: YamlNode | None = root
    for key in keys:
        node = None if node is None else node.get(key)
    return node


_PLAIN = re.compile(r"[A-Za-z0-9$][\w$.^/+-]*(?: [\w$.^/+-]+)*")
_NOTHING = ("null", "Null", "NULL")


def written(tree: Tree) -> str:
    """Write a value on one line, as an author would do."""
    if isinstance(tree, dict):
        entries = [f"{_quoted(key)}: {written(below)}" for key, below in tree.items()]
        return f"{{{', '.join(entries)}}}"
    if isinstance(tree, list):
        return f"[{', '.join(map(written, tree))}]"
    return "null" if tree is None else _quoted(tree)


def _quoted(text: str) -> str:
    if _PLAIN.fullmatch(text) and text not in _NOTHING:
        return text
    if re.fullmatch(r"custom:[\w-]+", text):
        return text
    if "\\" not in text and '"' not in text and text.isprintable():
        return f'"{text}"'
    if "'" not in text and text.isprintable():
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=False)


class YamlWriter:
    """Collects the edits of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._edits: list[TextEdit] = []
        self._line_end = "\r\n" if "\r\n" in text else "\n"

    def edits(self) -> tuple[TextEdit, ...]:
        found = sorted(self._edits, key=lambda edit: (edit.start, edit.end))
        if any(one.end > other.start for one, other in pairwise(found)):
            raise EditRefused("the text has a form that cannot be changed here")
        return tuple(found)

    def patch(self, node: YamlNode, value: Tree) -> None:
        """Change a node to a value; the parts that are equal stay as they are written."""
        before = plain(node)
        if before == value:
            return
        if isinstance(node.value, dict) and isinstance(value, dict) and node.value:
            self._patch_mapping(node, node.value, value)
        elif isinstance(node.value, list) and isinstance(value, list) and node.value and value:
            self._patch_list(node, node.value, value)
        elif not self._wrapped(node, before, value):
            self._replace(node, value)

    def add(self, root: YamlNode, keys: Sequence[str], value: Tree) -> None:
        """Add a rule below the keys, of which the first ones may be missing."""
        node, left = root, list(keys)
        while len(left) > 1:
            below = node.get(left[0])
            if below is None or not isinstance(below.value, dict) or not below.value:
                break
            node = below
            left.pop(0)
        below = node.get(left[0]) if len(left) > 1 else None
        for key in reversed(left[1:]):
            value = {key: value}
        if below is not None:
            if below.value not in (None, {}):
                raise EditRefused(f"{left[0]} is written in a form that cannot be changed here")
            self._fill(below, value)
        else:
            self.add_entry(node, left[0], value)

    def remove(self, root: YamlNode, keys: Sequence[str]) -> None:
        parent = node_at(root, keys[:-1]) if len(keys) > 1 else root
        if parent is None:
            raise EditRefused("the rule is not in this file")
        self.remove_entry(parent, keys[-1])

    def copy(self, root: YamlNode, keys: Sequence[str], lines: Sequence[str]) -> TextEdit:
        """Return the edit that adds the lines of a key, which is below the other keys."""
        node: YamlNode | None = root
        indent, heads = "", list[str]()
        for key in keys[:-1]:
            node = None if node is None else node.get(key)
            heads += [] if node is not None else [f"{indent}{key}:"]
            indent += " " * _INDENT
        if node is None or node is root:
            node, at = None, len(self._text.rstrip())
        elif not node.block or not isinstance(node.value, dict) or not node.value:
            raise EditRefused("the segments are written in a form that cannot be changed here")
        else:
            indent = " " * (node.column - 1)
            at = self._end_of_line(max(below.span[1] for below in node.value.values()))
        blank = [""] if node is None and at else []
        text = self._line_end.join([*blank, *heads, *(f"{indent}{x}" if x else "" for x in lines)])
        return TextEdit(at, at, f"{self._line_end if at else ''}{text}")

    def _fill(self, node: YamlNode, value: Tree) -> None:
        """Replace an empty value, as in `tags:`, by lines below its key."""
        start, end = node.span
        if start != end or not isinstance(value, dict):
            self._edits.append(TextEdit(start, end, written(value)))
            return
        indent = " " * (node.key[1] - 1 + _INDENT)
        lines = _lines(value, indent, _NESTED.get(node.path, 1) - 1)
        at = self._end_of_line(node.key_start)
        self._edits.append(TextEdit(at, at, "".join(f"{self._line_end}{one}" for one in lines)))

    def _patch_mapping(
        self, node: YamlNode, entries: Mapping[str, YamlNode], value: Mapping[str, Tree]
    ) -> None:
        removed = [key for key in entries if key not in value]
        added = [key for key in value if key not in entries]
        mostly_new = len(removed) == len(entries) or (added and removed and not node.block)
        if mostly_new and not self._has_comment(node):
            self._replace(node, dict(value))
            return
        for key in removed:
            self.remove_entry(node, key)
        for key, below in entries.items():
            if key in value:
                self.patch(below, value[key])
        for key in added:
            self.add_entry(node, key, value[key])

    def _patch_list(self, node: YamlNode, items: Sequence[YamlNode], value: Sequence[Tree]) -> None:
        before, after = [written(plain(item)) for item in items], list(map(written, value))
        if not node.block and not set(before) & set(after) and not self._has_comment(node):
            self._replace(node, list(value))
            return
        matcher = SequenceMatcher(None, before, after, autojunk=False)
        for word, start, end, first, last in matcher.get_opcodes():
            if word == "equal":
                continue
            if word == "replace" and end - start == last - first:
                for item, one in zip(items[start:end], value[first:last], strict=True):
                    self.patch(item, one)
            else:
                self._replace_items(node, items, (start, end), value[first:last])

    def _replace_items(
        self,
        node: YamlNode,
        items: Sequence[YamlNode],
        extent: tuple[int, int],
        value: Sequence[Tree],
    ) -> None:
        start, end = extent
        if node.block:
            self._replace_lines(items, start, end, value)
            return
        new = ", ".join(map(written, value))
        if start == end:
            at = items[start].span[0] if start < len(items) else items[-1].span[1]
            self._edits.append(TextEdit(at, at, f"{new}, " if start < len(items) else f", {new}"))
        elif new:
            self._edits.append(TextEdit(items[start].span[0], items[end - 1].span[1], new))
        elif start > 0:
            self._edits.append(TextEdit(items[start - 1].span[1], items[end - 1].span[1], ""))
        else:
            self._edits.append(TextEdit(items[0].span[0], items[end].span[0], ""))

    def _replace_lines(
        self, items: Sequence[YamlNode], start: int, end: int, value: Sequence[Tree]
    ) -> None:
        """Replace items of a block list, each with its line; the others keep their comments."""
        dash = self._dash(items[min(start, len(items) - 1)])
        line = self._start_of_line(dash)
        indent = self._text[line:dash]
        lines = [f"{' ' * len(indent)}- {written(one)}" for one in value]
        if start == len(items):
            at = self._end_of_line(items[-1].span[1])
            self._edits.append(TextEdit(at, at, "".join(f"{self._line_end}{new}" for new in lines)))
            return
        if indent.strip():  # another dash is before the first item
            raise EditRefused("the list is written in a form that cannot be changed here")
        stop = line
        if end > start:
            stop = self._end_of_line(items[end - 1].span[1])
            stop += len(self._line_end) if stop < len(self._text) else 0
        self._edits.append(TextEdit(line, stop, "".join(f"{new}{self._line_end}" for new in lines)))

    def _dash(self, item: YamlNode) -> int:
        at = self._text.rfind("-", 0, item.span[0])
        if self._text[at + 1 : item.span[0]].strip():
            raise EditRefused("the list is written in a form that cannot be changed here")
        return at

    def _wrapped(self, node: YamlNode, before: Tree, value: Tree) -> bool:
        """Write a list or mapping around a node that becomes a part of it."""
        if isinstance(value, dict) and value.get("from") == before:
            others = {key: below for key, below in value.items() if key != "from"}
            if node.block and isinstance(node.value, list):
                self._wrap_lines(node, node.value, others)
                return True
            head, tail = (
                "{from: ",
                "".join(f", {_quoted(k)}: {written(v)}" for k, v in others.items()),
            )
            return self._wrap(node, head, f"{tail}}}")
        if isinstance(value, list) and before in value:
            at = value.index(before)
            if node.block and isinstance(node.value, dict):
                self._itemize(node, value[:at], value[at + 1 :])
                return True
            head = "".join(f"{written(one)}, " for one in value[:at])
            tail = "".join(f", {written(one)}" for one in value[at + 1 :])
            return self._wrap(node, f"[{head}", f"{tail}]")
        return False

    def _itemize(self, node: YamlNode, before: Sequence[Tree], after: Sequence[Tree]) -> None:
        """Make the lines of a mapping an item of a list: a dash, and more indentation."""
        start, end = node.span
        indent = self._text[self._start_of_line(start) : start]
        if indent.strip():
            raise EditRefused("the rule is written in a form that cannot be changed here")
        head = "".join(f"- {written(one)}{self._line_end}{indent}" for one in before)
        self._edits.append(TextEdit(start, start, f"{head}- "))
        line = self._text.find("\n", start, end) + 1
        while line:
            if self._text[line : self._end_of_line(line)].strip():
                self._edits.append(TextEdit(line, line, " " * _INDENT))
            line = self._text.find("\n", line, end) + 1
        at = self._end_of_line(end)
        tail = "".join(f"{self._line_end}{indent}- {written(one)}" for one in after)
        self._edits.append(TextEdit(at, at, tail))

    def _wrap(self, node: YamlNode, head: str, tail: str) -> bool:
        start, end = node.span
        if node.block or self._text[start:end][:1] in ("|", ">", ""):
            return False
        text = self._text[start:end]
        if isinstance(node.value, str) and text[:1] not in "\"'":
            text = _quoted(node.value)
            self._edits.append(TextEdit(start, end, f"{head}{text}{tail}"))
            return True
        self._edits.append(TextEdit(start, start, head))
        self._edits.append(TextEdit(end, end, tail))
        return True

    def _wrap_lines(
        self, node: YamlNode, items: Sequence[YamlNode], others: Mapping[str, Tree]
    ) -> None:
        """Put `from:` before the lines of a list, which may stand below it without indentation."""
        dash = self._dash(items[0])
        indent = " " * (dash - self._start_of_line(dash))
        if self._text[self._start_of_line(dash) : dash].strip():
            raise EditRefused("the list is written in a form that cannot be changed here")
        self._edits.append(TextEdit(dash, dash, f"from:{self._line_end}{indent}"))
        at = self._end_of_line(node.span[1])
        lines = [f"{self._line_end}{indent}{_quoted(k)}: {written(v)}" for k, v in others.items()]
        self._edits.append(TextEdit(at, at, "".join(lines)))

    def _replace(self, node: YamlNode, value: Tree) -> None:
        start, end = node.span
        if node.block and self._has_comment(node) and _survives(plain(node), value):
            raise EditRefused("the rule has comments: change it in the text")
        if node.block and node.key_start and node.key[0] < node.line:
            colon = self._text.find(":", node.key_start, start)
            if colon >= 0 and not self._text[colon + 1 : start].strip():
                self._edits.append(TextEdit(colon + 1, end, f" {written(value)}"))
                return
        space = " " if start and self._text[start - 1] in ":-" else ""
        self._edits.append(TextEdit(start, end, f"{space}{written(value)}"))

    def _has_comment(self, node: YamlNode) -> bool:
        start, end = node.span
        return re.search(r"(^|\s)#", self._text[start:end]) is not None

    def add_entry(self, node: YamlNode, key: str, value: Tree) -> None:
        entries: Mapping[str, YamlNode] = node.value if isinstance(node.value, dict) else {}
        if not node.block and entries and key in SOURCES:  # the source comes first
            at = min(below.key_start for below in entries.values())
            self._edits.append(TextEdit(at, at, f"{_quoted(key)}: {written(value)}, "))
            return
        if not node.block and entries:
            at = max(below.span[1] for below in entries.values())
            self._edits.append(TextEdit(at, at, f", {_quoted(key)}: {written(value)}"))
            return
        if not entries:
            raise EditRefused("the rule is written in a form that cannot be changed here")
        indent = " " * (node.column - 1)
        last = max(entries.values(), key=lambda below: below.span[1])
        at = self._end_of_line(max(last.span[1], last.key_start))
        # A new part of the file is written in lines; a rule is on one line.
        parts = _NESTED.get(key, 0) if not node.path else _NESTED.get(f"{node.path}.{key}", 0)
        lines = _lines({key: value}, indent, parts)
        blank = self._line_end if not node.path else ""
        self._edits.append(
            TextEdit(at, at, blank + "".join(f"{self._line_end}{one}" for one in lines))
        )

    def remove_entry(self, node: YamlNode, key: str) -> None:
        entries = node.value
        if not isinstance(entries, dict):
            raise EditRefused("the rule is not in this file")
        names = list(entries)
        at, below = names.index(key), entries[key]
        if len(names) == 1:
            raise EditRefused("the last entry cannot be removed here: change it in the text")
        if not node.block:
            if at:
                self._edits.append(TextEdit(entries[names[at - 1]].span[1], below.span[1], ""))
            else:
                self._edits.append(TextEdit(below.key_start, entries[names[1]].key_start, ""))
            return
        line = self._start_of_line(below.key_start)
        if self._text[line : below.key_start].strip():  # behind a dash
            self._edits.append(TextEdit(below.key_start, entries[names[at + 1]].key_start, ""))
            return
        stop = self._end_of_line(max(below.span[1], below.key_start))
        stop += len(self._line_end) if stop < len(self._text) else 0
        self._edits.append(TextEdit(line, stop, ""))

    def _start_of_line(self, at: int) -> int:
        return self._text.rfind("\n", 0, at) + 1

    def _end_of_line(self, at: int) -> int:
        end = self._text.find(self._line_end, at)
        return len(self._text) if end < 0 else end


_INDENT = 2
_NESTED = {
    **dict.fromkeys(("tags", "reporting_app", "order", "links", "events", "statuses"), 1),
    **dict.fromkeys(("report", "report_status", "item", "step", "step_status"), 1),
    **dict.fromkeys(("metadata", "order_control", "visit"), 2),
    **dict.fromkeys(("metadata.values", "order_control.actions", "order_control.replies"), 1),
    "visit.values": 1,
}
"""Parts of a definition, and how many levels of them are written in lines."""


def _lines(value: Mapping[str, Tree], indent: str, levels: int) -> list[str]:
    found: list[str] = []
    for key, below in value.items():
        if levels and isinstance(below, dict):
            found.append(f"{indent}{_quoted(key)}:")
            found += _lines(below, indent + " " * _INDENT, levels - 1)
        else:
            found.append(f"{indent}{_quoted(key)}: {written(below)}")
    return found


def _survives(before: Tree, after: Tree) -> bool:
    """True if a part of a value is a part of another one, so that its comment is of interest."""
    return not set(_leaves(before)).isdisjoint(_leaves(after))


def _leaves(tree: Tree) -> Iterator[str]:
    if isinstance(tree, dict):
        for below in tree.values():
            yield from _leaves(below)
    elif isinstance(tree, list):
        for item in tree:
            yield from _leaves(item)
    elif tree is not None:
        yield tree
