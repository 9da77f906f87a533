"""Exports are read within limits, with the line of each element; nothing outside is fetched."""

import pytest

from bridge.admin.mirth.reader import read_channels, read_elements
from parsers.limits import CHANNELS, DocumentRefused
from tests.bridge.admin.mirth.exports import channel


def refusal(document: bytes) -> tuple[str, int]:
    with pytest.raises(DocumentRefused) as caught:
        read_channels(document)
    return caught.value.reason, caught.value.line


def test_lines_and_values() -> None:
    """An element has its line, also behind a script of many lines."""
    root = read_elements(b"<a>\n<b>x\ny &amp; z</b>\n\n<c e='1'/>\n</a>")
    assert [(element.name, element.line) for element in root.walk()] == [
        ("a", 1),
        ("b", 2),
        ("c", 5),
    ]
    assert (root.value("b"), root.children[1].attributes) == ("x\ny & z", {"e": "1"})
    assert (root.value("none", "below"), root.line_of("none")) == ("", 1)


@pytest.mark.parametrize("wrapper", ["list", "channelGroup", "serverConfiguration"])
def test_channels_in_other_documents(wrapper: str) -> None:
    """A list, a group and a backup of the server contain channels."""
    document = b"<%s><channels>%s%s</channels></%s>"
    name = wrapper.encode()
    _, found = read_channels(document % (name, channel(), channel(name="B"), name))
    assert [element.value("name") for element in found] == ["RIS in", "B"]


@pytest.mark.parametrize(
    ("document", "reason", "line"),
    [
        (b'<!DOCTYPE a SYSTEM "http://127.0.0.1:9/a.dtd"><a/>', "has a DTD", 1),
        (b'\n<!DOCTYPE a [<!ENTITY e "x">]><a>&e;</a>', "has a DTD", 2),
        (b'<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><a>&e;</a>', "has a DTD", 1),
        (b"<a>\n&e;</a>", "is not XML: undefined entity", 2),
        (b"<a>\n<b></a>", "is not XML: mismatched tag", 2),
        (b"", "is not XML: no element found", 1),
        (b"MSH|^~\\&|A", "is not XML: syntax error", 1),
        (b"<?xml version='1.0' encoding='none'?><a/>", "is not XML: its encoding is unknown", 1),
        (b"\n<html><body/></html>", "is not an export of channels: it begins with <html>", 2),
        (b"<channel><name>no connector</name></channel>", "is not an export", 1),
    ],
)
def test_other_documents_are_refused(document: bytes, reason: str, line: int) -> None:
    found, at = refusal(document)
    assert found.startswith(reason)
    assert at == line


def test_limits() -> None:
    """Depth, number and size are bounded."""
    deep = b"<a>" * (CHANNELS.depth + 1)
    assert "nested elements" in refusal(deep)[0]
    many = b"<a>" + b"<b c='1'/>" * (CHANNELS.count // 2 + 1)
    assert "elements and attributes" in refusal(many)[0]
    assert "bytes" in refusal(b" " * (CHANNELS.size + 1))[0]
