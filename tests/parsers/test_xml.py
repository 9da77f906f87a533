"""The parser refuses entities, deep nesting and many elements while it reads a document."""

import pytest

from parsers.limits import PROFILE, DocumentRefused
from parsers.readers import read_xml

LAUGHS = "".join(f'<!ENTITY a{number + 1} "{f"&a{number};" * 10}">' for number in range(9))
HOSTILE = {
    "laughs": f'<!DOCTYPE a [<!ENTITY a0 "ha">{LAUGHS}]><a>&a9;</a>',
    "external": '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>',
    "external DTD": '<!DOCTYPE a SYSTEM "http://127.0.0.1:9/a.dtd"><a/>',
    "parameters": '<!DOCTYPE a [<!ENTITY % x SYSTEM "file:///etc/passwd">%x;]><a/>',
    "quadratic": f'<!DOCTYPE a [<!ENTITY x "{"x" * 10_000}">]><a>{"&x;" * 10_000}</a>',
    "deep": "<a>" * 100_000,
    "many": f"<a>{'<b/>' * (PROFILE.count + 1)}</a>",
    "attributes": "<a " + " ".join(f'b{n}=""' for n in range(PROFILE.count + 1)) + "/>",
    "size": f"<a>{' ' * PROFILE.size}</a>",
    "encoding": '<?xml version="1.0" encoding="utf-9"?><a/>',
    "NUL": "<a>\0</a>",
    "nothing": "",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_documents_are_refused(text: str) -> None:
    """The refusal has our own reason."""
    with pytest.raises(DocumentRefused):
        read_xml(text.encode())


def test_a_document_is_read() -> None:
    """The parser returns the elements in document order."""
    assert [item.tag for item in read_xml(b'<?xml version="1.0"?><a><b c="d"/><e/></a>')] == [
        "b",
        "e",
    ]
