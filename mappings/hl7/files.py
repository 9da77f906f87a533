"""
Find the HL7 messages in a file: one, several after each other, framed, or a batch.

A batch (FHS or BHS first) stays whole: its receiver answers it as a whole.
"""

import re
from typing import Final

from mappings.hl7.charset import codec_for
from mappings.hl7.header import peek
from mappings.hl7.refusals import Malformed

_BOM: Final = b"\xef\xbb\xbf"
_FRAMING: Final = re.compile(rb"[\x0b\x1c]+")
_START: Final = re.compile(rb"(?:(?<=[\r\n])|^)(?=MSH[^A-Za-z0-9\r\n])")
_BATCH: Final = (b"FHS", b"BHS")


def messages_in_text(text: str) -> list[bytes]:
    """
    Return the messages of a text that somebody pasted, as they were on the wire.

    Each is encoded as its MSH-18 says; as UTF-8 where that says nothing or lacks a letter.
    """
    found = []
    for message in messages_in(text.encode("utf-8", "replace")):
        try:
            declared = peek(message).charset.decode("latin-1")
            found.append(message.decode().encode(codec_for(declared)))
        except (Malformed, UnicodeError):
            found.append(message)
    return found


def messages_in(data: bytes) -> list[bytes]:
    """Return the messages of a file's bytes, segment ends made CR, empty ones left out."""
    text = _FRAMING.sub(b"\r", data.removeprefix(_BOM)).strip()
    text = text.replace(b"\r\n", b"\r").replace(b"\n", b"\r")
    text = re.sub(rb"\r{2,}", b"\r", text)
    if text.startswith(_BATCH):
        return [text + b"\r"]
    parts = [part.strip(b"\r") for part in _START.split(text)]
    return [part + b"\r" for part in parts if part]
