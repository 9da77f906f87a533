"""
Readers of JSON, CSV, TOML, XML and ZIP from users, within the limits of `parsers.limits`.

All raise DocumentRefused, whose reason never contains the text. Values that the service could not
store or send are refused. A DTD is refused, because its entities could expand without limit.
"""

import csv
import json
import math
import re
import stat
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO, StringIO
from typing import Any, Final, Never

from typing_extensions import override

from parsers.limits import JSON, PACKAGE, PROFILE, TOML, DocumentRefused, Limits

_NESTING = frozenset({dict, list})


def read_json(body: bytes) -> Any:
    """
    Return the value; raise `DocumentRefused` with the reason and never with the text.

    The number of values is not limited here: `bridge.web.bodies` counts them in the text.
    """
    try:
        text = body.decode("utf-8-sig")
        value = json.loads(
            text,
            parse_constant=_not_a_number,
            parse_float=_finite,
            object_pairs_hook=_with_unique_names,
        )
    except DocumentRefused:
        raise
    except UnicodeDecodeError:
        raise DocumentRefused("the body is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise DocumentRefused(
            f"the body is not JSON: {error.msg} at character {error.pos}"
        ) from None
    except RecursionError:
        raise DocumentRefused("the body is nested too deeply") from None
    except ValueError:
        raise DocumentRefused("the body has a number that is not finite or too long") from None
    if "\\u" in text:  # only such an escape can create NUL or an unpaired surrogate
        _require_storable(value)
    elif text.count("[") + text.count("{") > JSON.depth:
        _require_depth(value)
    return value


def _with_unique_names(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) < len(members):  # two values of a name, such as two patients, are ambiguous
        raise DocumentRefused("an object has the same name twice")
    return found


def _not_a_number(name: str) -> Never:
    raise ValueError(name)


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError
    return number


def _require_depth(value: Any) -> None:
    """Refuse deep nesting, level by level. The parser creates `dict` and `list`, no subclasses."""
    level = [value] if type(value) in _NESTING else []
    for _ in range(JSON.depth):
        level = [
            member
            for container in level
            for member in (container.values() if type(container) is dict else container)
            if type(member) in _NESTING
        ]
        if not level:
            return
    raise DocumentRefused("the body is nested too deeply")


def _require_storable(value: Any) -> None:
    """Check the depth and all strings, without recursion."""
    _require_depth(value)
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending += item.values()
            pending += item
        elif isinstance(item, list):
            pending += item
        elif isinstance(item, str) and not storable(item):
            raise DocumentRefused("a string contains a NUL character or an unpaired surrogate")


def storable(text: str) -> bool:
    """True if both databases and UTF-8 can hold this text."""
    return "\x00" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def read_csv(text: str, limits: Limits) -> Iterator[tuple[int, list[str]]]:
    """
    Yield line numbers (from 1) and rows of a table; an empty line is an empty row.

    Raises DocumentRefused for malformed CSV, and beyond the limits of characters (`size`), columns
    (`depth`) and rows (`count`).
    """
    if len(text) > limits.size:
        raise DocumentRefused(f"more than {limits.size:,} characters")
    reader = csv.reader(StringIO(text), strict=True)
    try:
        for number, row in enumerate(reader):
            if number > limits.count:  # the header is not counted
                raise DocumentRefused(f"more than {limits.count:,} rows", reader.line_num, 1)
            if len(row) > limits.depth:
                raise DocumentRefused(f"more than {limits.depth} columns", reader.line_num, 1)
            yield reader.line_num, row
    except csv.Error:
        raise DocumentRefused("this line is not CSV", reader.line_num, 1) from None


_TOKEN: Final = re.compile(
    r"""
    (?P<text>\"{3}(?:[^"\\]|\\.|"(?!""))*+\"{0,5}+|'{3}(?:[^']|'(?!''))*+'{0,5}+
        |"(?:[^"\\\n]|\\.)*+"?|'[^'\n]*+'?)
    |(?P<comment>\#[^\n]*+)
    |(?P<opening>[\[{])
    |(?P<closing>[\]}])
    |(?P<number>[+-]?[0-9][^\s\#\[{\]}.=,"']{200,}+)
    |(?P<point>\.)
    |(?P<value>[=,])
    |(?P<line>\n)
    |(?P<other>[^"'\#\[{\]}.=,\s]++|[^\S\n]++|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ENDS_KEY: Final[Mapping[str | None, int]] = {"opening": 1, "closing": -1, "value": 0, "line": 0}
"""Tokens that end a key, and by how much they change the depth."""
_COUNTED: Final = frozenset({"opening", "value"})


def require_toml_limits(text: str) -> None:
    """
    Raise DocumentRefused if a text exceeds the limits `TOML`.

    These limit characters, nested brackets, parts of a key, and values.
    """
    if len(text) > TOML.size:
        raise DocumentRefused(f"more than {TOML.size:,} characters")
    depth = points = values = outermost = 0
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind in _ENDS_KEY:
            points = 0
            outermost = outermost if depth else token.start()
            depth = max(0, depth + _ENDS_KEY[kind])
            values += kind in _COUNTED
        points += kind == "point"
        if reason := _reason(kind, depth, points, values):
            raise _refused(text, outermost if depth > TOML.depth else token.start(), reason)


def _reason(kind: str | None, depth: int, points: int, values: int) -> str:
    """Return the exceeded limit, empty if none."""
    if kind == "number":
        return "a number has too many digits"
    if depth > TOML.depth:
        return "tables or lists are nested too deeply"
    if points >= TOML.depth:
        return f"a key has more than {TOML.depth} parts"
    return f"more than {TOML.count:,} values" if values > TOML.count else ""


def _refused(text: str, offset: int, reason: str) -> DocumentRefused:
    before = text[:offset]
    return DocumentRefused(reason, before.count("\n") + 1, offset - before.rfind("\n"))


def read_xml(document: bytes) -> ET.Element:
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


_SYSTEM_FILES: Final = ("__MACOSX/", ".DS_Store")
# With other methods, the archive chooses how much memory its decompression needs.
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED: Final = 0x1
_CENTRAL_RECORD: Final = b"PK\x01\x02"
_MAX_RECORDS: Final = 10 * PACKAGE.count  # also counts folders and `_SYSTEM_FILES`


def read_zip(data: bytes) -> dict[str, str]:
    """
    Return the texts of an archive's files by their names.

    Raises DocumentRefused if it is not a ZIP file, exceeds the limits `PACKAGE`, or contains
    repeated names, absolute names, `..`, links, encryption, a compression other than deflate, or
    files that are not UTF-8.
    """
    if data.count(_CENTRAL_RECORD) > _MAX_RECORDS:
        raise DocumentRefused(f"the ZIP has more than {PACKAGE.count} files")
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            entries = [entry for entry in archive.infolist() if _is_content(entry)]
            _require_limits(entries)
            return {entry.filename: _text(archive, entry) for entry in entries}
    except DocumentRefused:
        raise
    except Exception:  # noqa: BLE001  # zipfile raises many errors on malformed archives
        raise DocumentRefused("this is not a readable ZIP file") from None


def _is_content(entry: zipfile.ZipInfo) -> bool:
    return not entry.is_dir() and not any(mark in entry.filename for mark in _SYSTEM_FILES)


def _require_limits(entries: Sequence[zipfile.ZipInfo]) -> None:
    names = [info.filename for info in entries]
    if len(entries) > PACKAGE.count:
        raise DocumentRefused(f"the ZIP has more than {PACKAGE.count} files")
    if sum(zip_info.file_size for zip_info in entries) > PACKAGE.size:
        raise DocumentRefused(f"the ZIP has more than {PACKAGE.size:,} bytes")
    if len(set(names)) != len(names):
        raise DocumentRefused("the ZIP has a file twice")
    for entry in entries:
        parts = entry.filename.split("/")
        if len(parts) - 1 > PACKAGE.depth:
            raise DocumentRefused(f"the ZIP has more than {PACKAGE.depth} nested folders")
        if ".." in parts or "" in parts or "\\" in entry.filename:
            raise DocumentRefused("the ZIP has a file name that points outside of it")
        if entry.flag_bits & _ENCRYPTED:
            raise DocumentRefused("the ZIP is encrypted")
        if entry.compress_type not in _METHODS:
            raise DocumentRefused("the ZIP uses a method other than deflate")
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise DocumentRefused("the ZIP has a link")


def _text(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> str:
    with archive.open(entry) as file:
        data = file.read(entry.file_size + 1)  # zipfile stops at the declared size
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DocumentRefused("a file of the ZIP is not UTF-8 text") from None
