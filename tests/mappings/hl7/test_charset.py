"""Character sets: the names in MSH-18, and messages whose bytes differ from it."""

import pytest

from mappings.hl7.charset import UTF_8_WITH_STRAYS, codec_for, is_codec, known_codec
from mappings.hl7.message import Message
from tests.peak_memory import peak_memory


def message(text: str, codec: str, msh18: str) -> bytes:
    """Encode a message with a text in PID-5."""
    head = f"MSH|^~\\&|A|B|C|D|2026||ORM^O01|1|P|2.5||||||{msh18}\rPID|1||7||{text}\r"
    return head.encode(codec)


@pytest.mark.parametrize(
    ("msh18", "codec"),
    [
        ("ASCII", "ascii"),
        ("8859/1", "iso8859-1"),
        ("8859/2", "iso8859-2"),
        ("8859/5", "iso8859-5"),
        ("8859/9", "iso8859-9"),
        ("8859/15", "iso8859-15"),
        ("ISO8859/1", "iso8859-1"),
        ("ISO-8859-1", "iso8859-1"),
        ("iso 8859-15", "iso8859-15"),
        ("ISO/IEC 8859-1", "iso8859-1"),
        ("UNICODE UTF-8", "utf-8"),
        ("UNICODE", "utf-8"),
        ("UTF-8", "utf-8"),
        ("utf8", "utf-8"),
        ("GB 18030-2000", "gb18030"),
        ("KS X 1001", "euc_kr"),
        ("BIG-5", "big5"),
        ("ISO IR87", "iso2022_jp_ext"),
        ("~ISO IR87", "iso2022_jp_ext"),
        ("ISO IR14~ISO IR87", "iso2022_jp_ext"),
        ("8859/1~8859/5", "iso8859-1"),
        ("WINDOWS-1252", "cp1252"),
    ],
)
def test_names(msh18: str, codec: str) -> None:
    """Names of table 0211 and spellings of senders are known."""
    assert known_codec(msh18) == codec


@pytest.mark.parametrize("msh18", ["", "ISO IR 999", "UNICODE UTF-16", "8859/12", "?", "~"])
def test_silent_or_unknown(msh18: str) -> None:
    """An empty or unknown MSH-18 means the listener's fallback."""
    assert known_codec(msh18) is None
    assert codec_for(msh18, "latin-1") == "iso8859-1"


@pytest.mark.parametrize(
    ("text", "codec", "msh18"),
    [
        ("MÜLLER^JÖRG", "iso8859-1", "8859/1"),
        ("MÜLLER^JÖRG", "utf-8", "UNICODE UTF-8"),
        ("ИВАНОВ^ИВАН", "iso8859-5", "8859/5"),
        ("ŁUKASZ^ŻÓŁĆ", "iso8859-2", "8859/2"),
        ("€URO", "iso8859-15", "8859/15"),
        ("王^丂亅", "gb18030", "GB 18030-2000"),
        ("김^철수", "euc_kr", "KS X 1001"),
        ("陳^許功蓋", "big5", "BIG-5"),
        ("YAMADA^TARO=山田^太郎=やまだ^たろう", "iso2022_jp_ext", "ISO IR14~ISO IR87"),
    ],
)
def test_declared_and_true(text: str, codec: str, msh18: str) -> None:
    """Text decodes correctly, also if a character contains the byte of a delimiter."""
    read = Message.parse(message(text, codec, msh18))
    assert read.value("PID-5") == text
    assert read.encoding == codec
    assert not read.charset_suspect


@pytest.mark.parametrize(
    ("sent", "msh18", "fallback", "encoding", "suspect"),
    [
        ("utf-8", "8859/1", "utf-8", "utf-8", True),
        ("iso8859-1", "UNICODE UTF-8", "utf-8", "iso8859-1", True),
        ("iso8859-1", "ASCII", "utf-8", "iso8859-1", True),
        ("utf-8", "ASCII", "utf-8", "utf-8", True),
        ("utf-8", "", "utf-8", "utf-8", False),
        ("iso8859-1", "", "utf-8", "iso8859-1", True),
        ("iso8859-1", "", "latin-1", "iso8859-1", False),
        ("iso8859-1", "", "windows-1252", "cp1252", False),
        ("utf-8", "", "latin-1", "utf-8", True),
        ("utf-8", "ISO IR 999", "utf-8", "utf-8", True),
    ],
)
def test_declared_and_false(
    sent: str, msh18: str, fallback: str, encoding: str, suspect: bool
) -> None:
    """Text is decoded without loss, and the message is marked as suspect."""
    read = Message.parse(message("MÜLLER^JÖRG", sent, msh18), fallback=fallback)
    assert read.value("PID-5") == "MÜLLER^JÖRG"
    assert (read.encoding, read.charset_suspect) == (encoding, suspect)


def test_byte_order_mark_outweighs_msh18() -> None:
    """A byte order mark means UTF-8."""
    raw = b"\xef\xbb\xbf" + message("MÜLLER", "utf-8", "8859/5")
    assert Message.parse(raw).value("PID-5") == "MÜLLER"


def test_shift_state_left_open_at_the_end_of_a_segment() -> None:
    """The next segment starts in ASCII, as Japanese senders expect."""
    raw = message("X", "ascii", "ISO IR87") + b"NTE|1||\x1b$B;3\rNTE|2||plain"
    read = Message.parse(raw)
    assert read.values("NTE[*]-3") == ["山", "plain"]
    assert not read.charset_suspect


def test_half_a_character_at_the_end_of_a_segment() -> None:
    """Bytes that do not decode are kept as Latin-1."""
    raw = message("X", "ascii", "ISO IR87") + b"NTE|1||\x1b$B;\xfc\rNTE|2||plain"
    read = Message.parse(raw)
    assert read.values("NTE[*]-3") == ["\x1b$B;ü", "plain"]
    assert read.charset_suspect


def test_one_byte_of_latin_1_without_msh18() -> None:
    """0xFC without MSH-18 is read as ü, not as U+FFFD, and marked as suspect."""
    read = Message.parse(b"MSH|^~\\&|A|B|C|D|2026||ORM^O01|1|P|2.5\rPID|1||7||M\xfcLLER\r")
    assert read.value("PID-5") == "MüLLER"
    assert read.charset_suspect


@pytest.mark.parametrize("msh18", ["UNICODE UTF-8", ""])
def test_a_stray_byte_does_not_change_the_rest_of_a_message(msh18: str) -> None:
    """One byte of Latin-1 in UTF-8 becomes its letter; all other characters are unchanged."""
    raw = message("MÜLLER^山田", "utf-8", msh18) + b"NTE|1||caf\xe9 \xe2\x82\xac\r"
    read = Message.parse(raw)
    assert read.value("PID-5") == "MÜLLER^山田"
    assert read.value("NTE-3") == "café €"
    assert read.charset_suspect
    assert read.raw == raw


def test_a_message_in_latin_1_that_says_utf_8_is_latin_1() -> None:
    """This holds also if two of its letters are a valid UTF-8 character."""
    read = Message.parse(message("ÄÖÜ^Ã©", "iso8859-1", "UNICODE UTF-8"))
    assert read.value("PID-5") == "ÄÖÜ^Ã©"


@pytest.mark.parametrize(
    ("name", "usable"),
    [
        *((name, True) for name in ("utf-8", "latin-1", "gb18030", "iso2022_jp")),
        *((name, False) for name in ("utf-16", "rot13", "nonsense", "base64", "cp037")),
        *((name, False) for name in ("idna", "raw_unicode_escape")),  # no sets of characters
        (UTF_8_WITH_STRAYS, False),  # decodes only
    ],
)
def test_codecs_for_settings(name: str, usable: bool) -> None:
    """Settings accept only codecs that encode ASCII as ASCII."""
    assert is_codec(name) is usable


def test_characters_cost_memory_of_their_text_only() -> None:
    """To count characters beyond ASCII, no object is made for each of them."""
    many = message("é" * 1_000_000, "utf-8", "UNICODE UTF-8") + b"NTE|1||\xff\r"
    with peak_memory() as peak:
        assert Message.parse(many).encoding == UTF_8_WITH_STRAYS
    assert peak.bytes < 20 * 2**20
