"""
Find the HL7 messages in a file: one, several after each other, framed, or a batch.

A batch (FHS or BHS first) stays whole: its receiver answers it as a whole.
"""

import re
from typing import Final

_BOM: Final = b"\xef\xbb\xbf"
_FRAMING: Final = re.compile(rb"[\x0b\x1c]+")
_START: Final = re.compile(rb"(?:(?<=[\r\n])|^)(?=MSH[^A-Za-z0-9\r\n])")
_BATCH: Final = (b"FHS", b"BHS")


def messages_in(data: bytes) -> list[bytes]:
    """Return the messages of a file's bytes, segment ends made CR, empty ones left out."""
    text = _FRAMING.sub(b"\r", data.removeprefix(_BOM)).strip()
    text = text.replace(b"\r\n", b"\r").replace(b"\n", b"\r")
    text = re.sub(rb"\r{2,}", b"\r", text)
    if text.startswith(_BATCH):
        return [text + b"\r"]
    parts = [part.strip(b"\r") for part in _START.split(text)]
    return [part + b"\r" for part in parts if part]
