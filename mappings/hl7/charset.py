"""
Character sets: from the names in MSH-18 to Python codecs, and from bytes to text without loss.

No byte is dropped or replaced. Text that does not decode as declared is read as UTF-8, then as
UTF-8 with single bytes of another set, then as Latin-1, and the message is marked as suspect.
Latin-1 with bytes that are controls in it (0x80 to 0x9F) is read as Windows-1252, as browsers do
(WHATWG Encoding): senders on Windows declare 8859/1 and send dashes and quotation marks. UTF-16 and
UTF-32 are refused by `mappings.hl7.lines`.
"""

import codecs
import re
from functools import lru_cache

from typing_extensions import Buffer

_ASCII = 0x7F
_BEYOND_ASCII = bytes(range(_ASCII + 1, 0x100))
_LONGEST = 99  # bytes of MSH-18 that are read
LAST_RESORT = "iso8859-1"  # decodes any bytes, and encodes them to the same bytes

_WINDOWS = "cp1252"
_CONTROLS = re.compile(rb"[\x80-\x9f]")
"""Bytes that are controls in Latin-1, and characters in Windows-1252."""

UTF_8_WITH_STRAYS = "utf-8-with-latin-1"
"""UTF-8 in which each byte that is not part of a character is read as Windows-1252 or Latin-1."""

# Table 0211 and spellings of senders, reduced to letters and digits.
_CODECS = {
    "ASCII": "ascii",
    "USASCII": "ascii",
    "ISOIR6": "ascii",
    "UNICODE": "utf-8",
    "UNICODEUTF8": "utf-8",
    "UTF8": "utf-8",
    "ISO10646": "utf-8",
    "ISOIR192": "utf-8",
    "GB180302000": "gb18030",
    "GB18030": "gb18030",
    "GBK": "gbk",
    "GB2312": "gb2312",
    "ISOIR58": "gb2312",
    "BIG5": "big5",
    "KSX1001": "euc_kr",
    "KSC5601": "euc_kr",
    "ISOIR149": "euc_kr",
    "SHIFTJIS": "shift_jis",
    "SJIS": "shift_jis",
    "EUCJP": "euc_jp",
    "LATIN1": "latin-1",
    "LATIN9": "iso8859-15",
    "WINDOWS1252": "cp1252",
    "CP1252": "cp1252",
    "ANSI": "cp1252",
    "WINDOWS1250": "cp1250",
    "WINDOWS1251": "cp1251",
    "ISOIR100": "latin-1",
    "ISOIR101": "iso8859-2",
    "ISOIR109": "iso8859-3",
    "ISOIR110": "iso8859-4",
    "ISOIR144": "iso8859-5",
    "ISOIR127": "iso8859-6",
    "ISOIR126": "iso8859-7",
    "ISOIR138": "iso8859-8",
    "ISOIR148": "iso8859-9",
    "ISOIR166": "tis-620",
    "ISOIR203": "iso8859-15",
    **{f"8859{part}": f"iso8859-{part}" for part in (*range(1, 12), 13, 14, 15, 16)},
}

# JIS sets are selected by escape sequences (ISO 2022); one Python codec reads them all.
_ISO_2022_JP = frozenset({"ISOIR13", "ISOIR14", "ISOIR87", "ISOIR159"})

# A byte of a character may look like a delimiter: split fields only after decoding.
DELIMITERS_IN_CHARACTERS = frozenset(
    {
        *("gb18030", "gbk", "big5", "big5hkscs", "shift_jis", "cp932", "cp949", "johab"),
        *("iso2022_jp", "iso2022_jp_2", "iso2022_jp_ext", "iso2022_kr"),
    }
)

_ISO_2022 = "iso2022"

# Text that is declared as one of these and is valid UTF-8 beyond ASCII is read as UTF-8: otherwise
# it would consist of pairs like `Ã©`. This does not hold for Cyrillic and Greek, where such pairs
# are capital letters.
WESTERN = frozenset({"iso8859-1", "iso8859-15", "cp1252"})


def decode_msh18(msh18: bytes, repetition: str) -> str:
    """Decode MSH-18. Its repetitions are joined by `~` instead of the message's own separator."""
    return _declared(msh18[:_LONGEST], repetition) if msh18 else ""


@lru_cache(maxsize=256)
def _declared(msh18: bytes, repetition: str) -> str:
    text = msh18.decode("latin-1")
    return text.replace(repetition, "~") if repetition else text


@lru_cache(maxsize=256)
def known_codec(msh18: str) -> str | None:
    """Return the codec that MSH-18 names, None if it is empty or unknown."""
    names = ["".join(filter(str.isalnum, name)).upper() for name in msh18.split("~")]
    names = [name[name.find("8859") :] if "8859" in name else name for name in names]
    if _ISO_2022_JP.intersection(names):
        return "iso2022_jp_ext"
    known = [_canonical(_CODECS[name]) for name in names if name in _CODECS]
    # ASCII is a part of all others: `ASCII~KS X 1001` has both.
    return next((codec for codec in known if codec != "ascii"), next(iter(known), None))


def codec_for(msh18: str, fallback: str = "utf-8") -> str:
    """Return the codec of MSH-18 (repetitions joined by `~`), or the listener's fallback."""
    return known_codec(msh18) or _canonical(fallback)


@lru_cache(maxsize=256)
def _canonical(name: str) -> str:
    return codecs.lookup(name).name


_NO_CHARACTER_SETS = frozenset({"idna", "raw-unicode-escape", UTF_8_WITH_STRAYS})
"""Codecs that read host names (slowly) and notations of Python, and our own, which decodes only."""


def is_codec(name: str) -> bool:
    """True if a codec can be used for messages: it must encode ASCII as ASCII."""
    try:
        if codecs.lookup(name).name in _NO_CHARACTER_SETS:
            return False
        return codecs.encode("MSH|^~\\&\r", name) == b"MSH|^~\\&\r"
    except (LookupError, TypeError, ValueError):
        return False


Decoded = tuple[str, bool, str | None]
"""
The codec that decodes the body, whether the declaration is suspect, and the text.

The text is None if lines must be decoded one by one.
"""


def decode_body(body: bytes, msh18: str, fallback: str, *, has_bom: bool) -> Decoded:
    """
    Decode `body` as declared, or with the first codec that fits.

    `has_bom`: the message began with a UTF-8 byte order mark, which takes precedence over MSH-18.
    """
    found = _decode_as_declared(body, msh18, fallback, has_bom=has_bom)
    if found[0] == LAST_RESORT and _CONTROLS.search(body):
        text = _decode(body, _WINDOWS)
        return found if text is None else (_WINDOWS, True, text)
    return found


def _decode_as_declared(body: bytes, msh18: str, fallback: str, *, has_bom: bool) -> Decoded:
    known = "utf-8" if has_bom else known_codec(msh18)
    codec = known or _canonical(fallback)
    # Escape sequences of ISO 2022 are ASCII bytes and may be invalid.
    keeps_ascii = codec not in DELIMITERS_IN_CHARACTERS and not codec.startswith(_ISO_2022)
    if keeps_ascii and body.isascii():
        return codec, False, body.decode("ascii")
    if codec in WESTERN and (text := _decode(body, "utf-8")) is not None:
        return "utf-8", True, text
    unknown = bool(msh18) and known is None
    for candidate in (codec, "utf-8"):
        if candidate.startswith(_ISO_2022):
            if _decodes_by_line(body, candidate):
                return candidate, unknown or candidate != codec, None
        elif (text := _decode(body, candidate)) is not None:
            return candidate, unknown or candidate != codec, text
    if codec == "utf-8" and _has_few_strays(body):
        return UTF_8_WITH_STRAYS, True, body.decode(UTF_8_WITH_STRAYS)
    return LAST_RESORT, True, body.decode(LAST_RESORT)


_STRAYS = {
    0xDC00 + byte: bytes([byte]).decode(_WINDOWS, "ignore") or chr(byte)
    for byte in range(_ASCII + 1, 0x100)
}
"""The surrogates by which Python marks invalid bytes, and their characters."""


def _decode_with_strays(data: Buffer, errors: str = "strict", /) -> tuple[str, int]:
    del errors  # every byte string decodes
    encoded = bytes(data)
    return encoded.decode("utf-8", "surrogateescape").translate(_STRAYS), len(encoded)


def _search(name: str) -> codecs.CodecInfo | None:
    if name.replace("_", "-") != UTF_8_WITH_STRAYS:
        return None
    return codecs.CodecInfo(codecs.utf_8_encode, _decode_with_strays, name=UTF_8_WITH_STRAYS)


codecs.register(_search)


def _has_few_strays(body: bytes) -> bool:
    """True if most characters beyond ASCII are valid UTF-8, so that the others are errors."""
    readable = body.decode("utf-8", "ignore")
    plain = len(body.translate(None, _BEYOND_ASCII))
    strays = len(body) - len(readable.encode())
    return len(readable) - plain > strays


def _decode(body: bytes, codec: str) -> str | None:
    try:
        return body.decode(codec)
    except UnicodeDecodeError:
        return None


def _decodes_by_line(body: bytes, codec: str) -> bool:
    """True if each line decodes alone. ISO 2022 shift states end with the segment."""
    return all(_decode(part, codec) is not None for part in re.split(rb"[\r\n]", body))
