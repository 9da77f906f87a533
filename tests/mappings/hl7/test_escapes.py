r"""Escape sequences (HL7 v2.5.1 §2.7)."""

import subprocess
import sys
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappings.hl7.delimiters import STANDARD, Delimiters
from mappings.hl7.escapes import escape, transcribe, unescape

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
        (r"\C2842\ and \M824041\ stay", r"\C2842\ and \M824041\ stay"),
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
    assert not {each for each in read if category(each) == "Cc"} - set("\t\r\n")
    assert unescape(transcribe("".join(parts), STANDARD, codec)) == read


def test_transcribing_an_escaped_text() -> None:
    """Delimiters and letters are rewritten. Sequences with the same meaning are kept."""
    stay = ("H", "N", ".br", ".sp+2", "Zab", "X0D0a", "C2842")
    sent = "".join(f"?{each}?x" for each in stay)
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
