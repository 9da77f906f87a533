"""
Reader of channel exports of Mirth Connect and Open Integration Engine: XML elements with lines.

A document with a DTD, an entity of its own, or beyond the limits `CHANNELS` is refused. Nothing in
it is run, resolved or fetched.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Never
from xml.parsers import expat

from parsers.limits import CHANNELS, DocumentRefused


@dataclass(slots=True)
class Element:
    """An element of a document; `line` is that of its start tag, counted from 1."""

    name: str
    line: int
    attributes: dict[str, str] = field(default_factory=dict)
    children: list["Element"] = field(default_factory=list)
    text: str = ""
    """The text inside, empty if the element has children."""

    def child(self, *names: str) -> "Element | None":
        """Return the element at a path of names, None if there is none."""
        found: Element | None = self
        for name in names:
            if found is None:
                return None
            found = next((below for below in found.children if below.name == name), None)
        return found

    def value(self, *names: str) -> str:
        """Return the trimmed text at a path of names, empty if there is none."""
        found = self.child(*names)
        return "" if found is None else found.text.strip()

    def is_true(self, *names: str, default: bool = False) -> bool:
        """Return the flag at a path of names."""
        text = self.value(*names)
        return default if not text else text == "true"

    def line_of(self, *names: str) -> int:
        """Return the line at a path of names, that of this element if there is none."""
        found = self.child(*names)
        return self.line if found is None else found.line

    def below(self, *names: str) -> list["Element"]:
        """Return the children of the element at a path of names."""
        found = self.child(*names)
        return [] if found is None else found.children

    def walk(self) -> Iterator["Element"]:
        """Yield this element and all below it, in the order of the document."""
        pending = [self]
        while pending:
            element = pending.pop()
            yield element
            pending += reversed(element.children)


def read_channels(document: bytes) -> tuple[Element, list[Element]]:
    """
    Return the root and the channels of an export.

    A channel, a list or group of channels and a backup of the server are read. Raises
    DocumentRefused, also if there is no channel.
    """
    root = read_elements(document)
    channels = [
        element
        for element in root.walk()
        if element.name == "channel" and element.child("sourceConnector") is not None
    ]
    if not channels:
        reason = f"is not an export of channels: it begins with <{root.name[:60]}>"
        raise DocumentRefused(reason, root.line, 1)
    return root, channels


def read_elements(document: bytes) -> Element:
    """Return the root of a document. Raises DocumentRefused with line and column."""
    if len(document) > CHANNELS.size:
        raise DocumentRefused(f"has more than {CHANNELS.size:,} bytes")
    builder = _Builder()
    try:
        builder.parser.Parse(document, True)
    except expat.ExpatError as error:
        reason = f"is not XML: {expat.ErrorString(error.code)}"
        raise DocumentRefused(reason, error.lineno, error.offset + 1) from None
    except (ValueError, LookupError) as error:  # an encoding that does not exist
        if isinstance(error, DocumentRefused):
            raise
        raise DocumentRefused("is not XML: its encoding is unknown", 1, 1) from None
    if builder.root is None:
        raise DocumentRefused("is not XML: it is empty")
    return builder.root


class _Builder:
    """Builds elements during parsing, and refuses what exceeds the limits."""

    def __init__(self) -> None:
        self.root: Element | None = None
        self._open: list[Element] = []
        self._text: list[str] = []
        self._count = 0
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text.append
        self.parser.StartDoctypeDeclHandler = self._refuse_dtd
        self.parser.EntityDeclHandler = self._refuse_dtd
        self.parser.ExternalEntityRefHandler = self._refuse_dtd

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._count += 1 + len(attributes)
        if len(self._open) >= CHANNELS.depth:
            self._refuse(f"has more than {CHANNELS.depth} nested elements")
        if self._count > CHANNELS.count:
            self._refuse(f"has more than {CHANNELS.count:,} elements and attributes")
        element = Element(name, self.parser.CurrentLineNumber, attributes)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)
        self._text.clear()

    def _end(self, _: str) -> None:
        element = self._open.pop()
        if not element.children:
            element.text = "".join(self._text)
        self._text.clear()

    def _refuse_dtd(self, *_: object) -> Never:
        """Entities could expand without limit or read files."""
        self._refuse("has a DTD")

    def _refuse(self, reason: str) -> Never:
        raise DocumentRefused(
            reason, self.parser.CurrentLineNumber, self.parser.CurrentColumnNumber + 1
        )
