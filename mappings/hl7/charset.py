"""
Charsets: from the names of MSH-18 to Python's codecs, and bytes to text without loss.

No byte is ever dropped or replaced: what does not decode as declared is read as UTF-8, else as
Latin-1, and marked as suspect. UTF-16 and UTF-32 are refused elsewhere (`mappings.hl7.lines`).
"""

import codecs
from functools import lru_cache

LAST_RESORT = "latin-1"  # every byte string decodes, and encodes to itself again

# Table 0211, and spellings seen in the field, with everything but letters and digits removed.
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

# JIS sets are switched to by escape sequences (ISO 2022); Python reads them as one codec.
_ISO_2022_JP = frozenset({"ISOIR13", "ISOIR14", "ISOIR87", "ISOIR159"})

# Trailing bytes of these may look like delimiters, so fields are split after decoding only.
DELIMITERS_IN_CHARACTERS = frozenset({"gb18030", "gbk", "big5", "shift_jis", "iso2022_jp_ext"})

# Text in these that is valid UTF-8 beyond ASCII is UTF-8 in truth: the accident would need pairs
# like `Ã©` throughout. (Not so in Cyrillic or Greek, where such pairs are plain capital letters.)
_WESTERN = frozenset({"latin-1", "latin1", "iso8859-1", "iso8859-15", "cp1252"})


@lru_cache(maxsize=256)
def known_codec(msh18: str) -> str | None:
    """Return the codec MSH-18 names, None when it is empty or no name we know."""
    names = ["".join(filter(str.isalnum, name)).upper() for name in msh18.split("~")]
    names = [name.removeprefix("ISO") if "8859" in name else name for name in names]
    if _ISO_2022_JP.intersection(names):
        return "iso2022_jp_ext"
    return next((_CODECS[name] for name in names if name in _CODECS), None)


def codec_for(msh18: str, fallback: str = "utf-8") -> str:
    """Return the codec for MSH-18 (repetitions joined by `~`), else the listener's fallback."""
    return known_codec(msh18) or fallback


def is_codec(name: str) -> bool:
    """Tell whether a name is a text codec of Python's, for checking settings."""
    try:
        return codecs.lookup(name).encode("")[0] == b""
    except (LookupError, TypeError, ValueError):
        return False


def detect(body: bytes, msh18: str, fallback: str, *, marked: bool) -> tuple[str, bool]:
    """
    Return the codec that reads `body` strictly, and whether the declaration is suspect.

    `marked`: the message began with a UTF-8 byte order mark, which outweighs MSH-18.
    """
    known = "utf-8" if marked else known_codec(msh18)
    codec = known or fallback
    if body.isascii() and codec not in DELIMITERS_IN_CHARACTERS:
        return codec, False
    if codec in _WESTERN and _decodes(body, "utf-8"):
        return "utf-8", True
    unknown = bool(msh18) and known is None
    for candidate in (codec, "utf-8"):
        if _decodes(body, candidate):
            return candidate, unknown or candidate != codec
    return LAST_RESORT, True


def _decodes(body: bytes, codec: str) -> bool:
    try:
        body.decode(codec)
    except UnicodeDecodeError:
        return False
    return True
