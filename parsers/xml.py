"""XML from users, parsed within limits, without DTD and entities."""

import xml.etree.ElementTree as ET

from typing_extensions import override

from parsers.errors import DocumentRefused
from parsers.limits import PROFILE


def read(document: bytes) -> ET.Element:
    """
    Return the root of a document.

    Raises DocumentRefused for malformed XML, for a DTD, and beyond the limits `PROFILE` of bytes,
    depth, and elements with attributes.
    """
    if len(document) > PROFILE.size:
        raise DocumentRefused(f"has more than {PROFILE.size:,} bytes")
    parser = ET.XMLParser(target=_Builder())  # noqa: S314  # the builder refuses a DTD
    try:
        parser.feed(document)
        root: ET.Element = parser.close()
    except (ET.ParseError, ValueError, LookupError) as error:
        if isinstance(error, DocumentRefused):
            raise
        raise DocumentRefused("is not XML") from None
    return root


class _Builder(ET.TreeBuilder):
    """Refuses a document during parsing."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = self._count = 0

    def doctype(self, name: str, public: str, system: str) -> None:
        """Refuse a DTD: its entities could expand without limit or read files."""
        raise DocumentRefused("has a DTD")

    @override
    def start(self, tag: str, attributes: dict[str, str], /) -> ET.Element:
        self._depth += 1
        self._count += 1 + len(attributes)
        if self._depth > PROFILE.depth:
            raise DocumentRefused(f"has more than {PROFILE.depth} nested elements")
        if self._count > PROFILE.count:
            raise DocumentRefused(f"has more than {PROFILE.count:,} elements and attributes")
        return super().start(tag, attributes)

    @override
    def end(self, tag: str, /) -> ET.Element:
        self._depth -= 1
        return super().end(tag)
