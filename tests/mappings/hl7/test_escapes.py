"""Escape sequences (HL7 v2.5.1 §2.7)."""

import subprocess
import sys
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappings.hl7.charset import UTF_8_WITH_STRAYS, codec_for, is_codec, known_codec
from mappings.hl7.escapes import escape, transcribe, unescape
from mappings.hl7.header import STANDARD, Delimiters
from mappings.hl7.message import Message
from tests.peak_memory import peak_memory

OTHER = Delimiters("^", "~", "|", "?", "!", "#")


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (r"a\F\b\S\c\T\d\R\e\E\f", r"a|b^c&d~e\f"),
        (r"first\.br\second", "first\nsecond"),
        (r"one\.sp\two\.sp 2\three\.sp3\four", "one\ntwo\n\nthree\n\n\nfour"),
        (r"\.ce\centered\.in+4\\.ti-2\\.fi\\.nf\text\.sk 3\end", "\ncenteredtext   end"),
        (r"is \H\HIGH\N\ now", "is HIGH now"),
        (r"line\X0D\\X0A\end", "line\r\nend"),
        (r"line\X0D0A\end", "line\r\nend"),
        (r"caf\XC3A9\ caf\XC3\\XA9\ caf\xc3a9\ ".strip(), "café café café"),
        (r"\X00E0\ la carte", "à la carte"),
        (r"\Z99\ stays", r"\Z99\ stays"),
        (r"\C2842\one\M824041\ two\C2842\ three", r"one\M824041\ two\C2842\ three"),
        (r"\Z1\F\Z2\ ".strip(), r"\Z1\F\Z2" + "\\"),
        (r"C:\temp\scan", r"C:\temp\scan"),
        (r"lone \ mark", r"lone \ mark"),
        ("ends with \\", "ends with \\"),
        (r"a\b\F\c", r"a\b|c"),
        (r"\E\F\E\ ".strip(), r"\F" + "\\"),
        (r"\X0\ \XZZ\ \X\ ".strip(), r"\X0\ \XZZ\ \X" + "\\"),
        (r"\X0DA\ \X0D0\ odd", r"\X0DA\ \X0D0\ odd"),
        (r"a\X000d\\X0A\b", "a\r\nb"),
        (r"a\X000A\b\x000D000a\c", "a\nb\r\nc"),
        (r"a\X0D00\b\XE000\c", "a\rb\N{LATIN SMALL LETTER A WITH GRAVE}c"),
        (r"\X00E0\\X00E8\x", "àèx"),
        (r"\X00\\XE0\x", "àx"),
        (r"\X41\\X00E8\x", "Aèx"),
        (r"\X004100e9\x", "Aéx"),
        (r"\XD83DDE00\x", "\N{GRINNING FACE}x"),
        (r"\XFEFF00E9\x", "éx"),
        (r"a\X00\b", r"a\X00\b"),
        (r"a\X0000\b", r"a\X0000\b"),
        (r"a\X410042\b", r"a\X410042\b"),
        (r"a\X1B\b\X07\c\X7f\d\X007F\e", r"a\X1B\b\X07\c\X7f\d\X007F\e"),
        (r"a\X09\b", "a\tb"),
        (r"a\X0D0A\b\X0d\c\X0a\d", "a\r\nb\rc\nd"),
        (r"\T\amp;", "&amp;"),
        (r"4\5 re. \X7C\ R\T\D", "4\\5 re. | R&D"),
        ("\\\\", "\\\\"),
        (r"cut\P\ ".strip(), r"cut\P" + "\\"),
        ("no mark", "no mark"),
        ("", ""),
    ],
)
def test_unescape(sent: str, read: str) -> None:
    """Known sequences are resolved once, all other text is kept."""
    assert unescape(sent) == read


def test_hexadecimal_in_the_charset_of_the_message() -> None:
    """Bytes are decoded with the charset of the message; invalid ones as Latin-1."""
    assert unescape(r"\XFC\ber", codec="iso8859-1") == "über"
    assert unescape(r"\XB0\ ".strip(), codec="iso8859-5") == "\N{CYRILLIC CAPITAL LETTER A}"
    assert unescape(r"\XFC\ber", codec="utf-8") == "über"
    assert unescape(r"\X1B\ ".strip(), codec="iso2022_jp_ext") == r"\X1B" + "\\"
    assert unescape(r"\XE0\x", codec="iso8859-1") == "àx"
    assert unescape(r"\X92\s \XC3A9\x", codec="iso8859-1") == "\N{RIGHT SINGLE QUOTATION MARK}s Ã©x"
    assert unescape(r"\XC285\x \X85\x", codec="utf-8") == r"\XC285\x …x"


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (r"\M2442\;3ED\C2842\^x", "山田^x"),
        (r"\M2442\\X3B33\\X4544\\C2842\.", "山田."),
        (r"\M2442\%\S\\C2842\.", "\N{KATAKANA LETTER MA}."),
        (r"A\M2442\;3\.br\ED\C2842\B", "A山\n田B"),
        (r"\M2442\;3 ED", "山 田"),
        (r"\M2440\;3ED\C284A\Yen", "山田Yen"),
        (r"\M242844\0!\C2842\.", "丂."),
        (r"\M2441\VPND\C2842\ CT", "中文 CT"),
        (r"\M242843\H+\C2842\ CT", "홍 CT"),
        (r"\C2849\M\C2842\.", "\N{HALFWIDTH KATAKANA LETTER HE}."),
        (r"\M242943\홍길동", "홍길동"),
        (r"\C2D46\λ \C2D41\é", "λ é"),
        (r"\M2442\;3E\C2842\ odd", r"\M2442\;3E\C2842\ odd"),
        (r"\M2442\~~~~\C2842\ none", r"\M2442\~~~~\C2842\ none"),
        (r"\M2442\山\C2842\.", "山."),
        (r"\M2442\ \C2842\.", " ."),
        (r"\m2442\;3ED", r"\m2442\;3ED"),
    ],
)
def test_character_sets(sent: str, read: str) -> None:
    """Text in another set has its characters; what has none is kept as sent."""
    assert unescape(sent) == read
    assert unescape(transcribe(sent, STANDARD)) == read


def test_a_set_of_bytes_in_a_message_of_another_one() -> None:
    """Bytes beyond ASCII, and hexadecimal ones, are read in the set that the sequence names."""
    korean = "홍길동".encode("euc_kr")
    assert unescape("\\M242943\\" + korean.decode("latin-1"), codec="iso8859-1") == "홍길동"
    assert unescape(f"\\M242943\\\\X{korean.hex()}\\ CT", codec="utf-8") == "홍길동 CT"
    assert unescape(r"\C2D46\ë", codec="iso8859-1") == "λ"
    assert unescape("\\M242943\\È.", codec="iso8859-1") == "\\M242943\\È."


@given(
    st.lists(
        st.sampled_from(["\\M2442\\", "\\C2842\\", "\\M242943\\", "\\M824041\\", "\\C2849\\"])
        | st.text("\\X0123;3ED é山.br", max_size=4),
        max_size=8,
    ),
    st.sampled_from(["utf-8", "iso8859-1", "euc_kr"]),
)
def test_any_character_sets(parts: list[str], codec: str) -> None:
    """Any sequences can be read, and give no control characters."""
    read = unescape("".join(parts), codec=codec)
    assert not {item for item in read if category(item) == "Cc"} - set("\t\r\n")


def test_truncation_character_where_declared() -> None:
    r"""`\P\` is the fifth encoding character (HL7 v2.7 §2.5.5.2)."""
    assert unescape(r"cut\P\ off", Delimiters(truncation="#")) == "cut# off"


def test_other_delimiters() -> None:
    """Sequences use the escape character of the message."""
    assert unescape("a?F?b?S?c?T?d?R?e?E?f?P?", OTHER) == "a^b~c!d|e?f#"
    assert escape("a^b~c!d|e?f#", OTHER) == "a?F?b?S?c?T?d?R?e?E?f?P?"


def test_without_an_escape_character_text_is_text() -> None:
    """A message without escape character has no escapes, and cannot be written."""
    bare = Delimiters(escape="", subcomponent="")
    assert unescape(r"a\F\b", bare) == r"a\F\b"
    with pytest.raises(ValueError, match="complete"):
        escape("text", bare)


def test_line_ends_and_framing_bytes_are_escaped() -> None:
    """Line ends and framing bytes of a text are escaped."""
    assert escape("a\rPID|1\x0b\x1c\n") == r"a\X0D\PID\F\1\X0B\\X1C\\X0A" + "\\"
    assert escape("a\nb", formatted=True) == r"a\.br\b"


@pytest.mark.parametrize("formatted", [False, True])
@pytest.mark.parametrize("marks", [STANDARD, OTHER], ids=["standard", "other"])
@given(text=st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\t\r\n")))
def test_inverse(marks: Delimiters, formatted: bool, text: str) -> None:
    """`unescape` is the inverse of `escape`."""
    written = escape(text, marks, formatted=formatted)
    assert unescape(written, marks) == text
    assert not set(written) & set("\r\n\x0b\x1c" + marks.field + marks.component)


@given(
    st.lists(st.sampled_from(["\\", "\\X", "00", "0D", "E0", "1b", "92", "\\F\\", "Z", " "])),
    st.sampled_from(["utf-8", "iso8859-1", "cp1252", "gb18030", "iso2022_jp_ext"]),
)
def test_no_sequence_has_a_control_character(parts: list[str], codec: str) -> None:
    """Any text between escape characters can be read, and its result escapes to itself."""
    read = unescape("".join(parts), codec=codec)
    assert not {item for item in read if category(item) == "Cc"} - set("\t\r\n")
    assert unescape(transcribe("".join(parts), STANDARD, codec)) == read


def test_transcribing_an_escaped_text() -> None:
    """Delimiters and letters are rewritten. Sequences with the same meaning are kept."""
    stay = ("H", "N", ".br", ".sp+2", "Zab", "X0D0a", "C2842")
    sent = "".join(f"?{item}?x" for item in stay)
    assert transcribe(sent, OTHER) == sent.replace("?", "\\")
    assert transcribe("?F?|?S??XE9?", OTHER, "latin-1") == r"\S\\F\\R\é"


@given(st.text(alphabet="\\FSTREXPZHN.br0D19 a^|", max_size=30))
def test_transcribing_keeps_the_meaning(text: str) -> None:
    once = transcribe(text, STANDARD)
    assert unescape(once) == unescape(text)
    assert transcribe(once, STANDARD) == once


@pytest.mark.parametrize(("sequence", "unit"), [("\\.sp999\\", "\n"), ("\\.sk999\\", " ")])
def test_a_sequence_does_not_multiply_the_text(sequence: str, unit: str) -> None:
    """The lines or spaces of one sequence are limited: a frame may contain a million of them."""
    assert unescape(sequence) == unit * 60
    assert unescape(sequence.replace("999", "40")) == unit * 40


def test_a_long_sequence_costs_memory_of_its_text_only() -> None:
    """The expression that recognizes a sequence needs no memory for each of its digits."""
    code = (
        "import resource; from mappings.hl7.escapes import unescape\n"
        "def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "text = '\\\\X' + '41' * 2_000_000 + '\\\\'; before = peak()\n"
        "assert unescape(text) == 'A' * 2_000_000; print(peak() - before)"
    )
    grown = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert int(grown.stdout) < 60 * 1024  # kilobytes


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
        ("ASCII~KS X 1001", "euc_kr"),
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


@pytest.mark.parametrize(
    ("msh18", "fallback"),
    [("8859/1", "utf-8"), ("UNICODE UTF-8", "utf-8"), ("", "utf-8"), ("", "latin-1")],
)
def test_characters_of_windows_1252(msh18: str, fallback: str) -> None:
    """A dash between two sizes is a dash, although the sender declares another set."""
    text = "5\u20137 mm, \u201eWei\xdf\u201c \u2026"
    raw = message("X", "ascii", msh18) + b"NTE|1||" + text.encode("cp1252")
    read = Message.parse(raw, fallback=fallback)
    assert read.value("NTE-3") == text
    assert (read.encoding, read.charset_suspect, read.raw) == ("cp1252", True, raw)


def test_one_byte_of_windows_1252_in_utf_8() -> None:
    raw = message("MÜLLER", "utf-8", "") + b"NTE|1||\xc3\xa9t\xc3\xa9 5\x967 mm\r"
    assert Message.parse(raw).value("NTE-3") == "été 5\u20137 mm"


@pytest.mark.parametrize("msh18", ["8859/1", ""])
def test_a_byte_that_is_no_character_of_windows_1252(msh18: str) -> None:
    raw = message("X", "ascii", msh18) + b"NTE|1||M\xfcller \x90\x96"
    read = Message.parse(raw)
    assert (read.value("NTE-3"), read.encoding) == ("Müller \x90\x96", "iso8859-1")


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
