"""Character sets of data sets (PS3.5 6.1 and annexes H to K)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.dicom.character_sets import (
    can_represent,
    choose,
    decode,
    encode,
    read_charset,
)
from config.dicom import SINGLE

STANDARD = [
    (
        r"\ISO 2022 IR 87",
        "Yamada^Tarou=山田^太郎=やまだ^たろう",
        b"Yamada^Tarou=\x1b$B;3ED\x1b(B^\x1b$BB@O:\x1b(B=\x1b$B$d$^$@\x1b(B^\x1b$B$?$m$&\x1b(B",
    ),
    (
        r"ISO 2022 IR 13\ISO 2022 IR 87",
        "ﾔﾏﾀﾞ^ﾀﾛｳ=山田^太郎=やまだ^たろう",
        (
            b"\xd4\xcf\xc0\xde^\xc0\xdb\xb3=\x1b$B;3ED\x1b(J^\x1b$BB@O:\x1b(J="
            b"\x1b$B$d$^$@\x1b(J^\x1b$B$?$m$&\x1b(J"
        ),
    ),
    (
        r"\ISO 2022 IR 149",
        "Hong^Gildong=洪^吉洞=홍^길동",
        (
            b"Hong^Gildong=\x1b$)C\xfb\xf3^\x1b$)C\xd1\xce\xd4\xd7="
            b"\x1b$)C\xc8\xab^\x1b$)C\xb1\xe6\xb5\xbf"
        ),
    ),
    ("GB18030", "Wang^XiaoDong=王^小东", b"Wang^XiaoDong=\xcd\xf5^\xd0\xa1\xb6\xab"),
    ("ISO_IR 100", "Buc^Jérôme", b"Buc^J\xe9r\xf4me"),
    (
        r"\ISO 2022 IR 58",
        "Zhang^XiaoDong=张^小东=",
        b"Zhang^XiaoDong=\x1b$)A\xd5\xc5^\x1b$)A\xd0\xa1\xb6\xab=",
    ),
    ("ISO_IR 144", "Люкceмбypг", b"\xbb\xee\xdace\xdc\xd1yp\xd3"),  # noqa: RUF001  # as in PS3.5 I
    ("ISO_IR 126", "Διονυσιος", b"\xc4\xe9\xef\xed\xf5\xf3\xe9\xef\xf2"),
    ("ISO_IR 166", "นามสกุล", b"\xb9\xd2\xc1\xca\xa1\xd8\xc5"),
    ("ISO_IR 192", "Wang^XiaoDong=王^小東", "Wang^XiaoDong=王^小東".encode()),
]


@pytest.mark.parametrize(("charset", "text", "code"), STANDARD)
def test_examples_of_the_standard(charset: str, text: str, code: bytes) -> None:
    """The examples of PS3.5 are written and read byte by byte."""
    assert encode(text, charset) == code
    assert decode(code, charset) == text
    assert can_represent(text, charset)


def test_delimiters_in_codes() -> None:
    """A code of two bytes may contain the code of a delimiter."""
    assert encode("春^花", r"\ISO 2022 IR 87") == b"\x1b$B=U\x1b(B^\x1b$B2V\x1b(B"
    assert decode(b"\x1b$B=U\x1b(B^\x1b$B2V\x1b(B", r"\ISO 2022 IR 87") == "春^花"


def test_missing_characters() -> None:
    """A character that a set does not have is replaced."""
    assert encode("a山é", "ISO_IR 100") == b"a?\xe9"
    assert encode("山é", "") == b"??"
    assert encode("é山", r"ISO 2022 IR 6\ISO 2022 IR 87") == b"?\x1b$B;3\x1b(B"


@pytest.mark.parametrize(
    ("values", "charset"),
    [
        ([], ""),
        ([""], ""),
        (["ISO_IR 6"], "ISO_IR 6"),
        (["ISO_IR 100"], "ISO_IR 100"),
        (["ISO IR 100"], "ISO_IR 100"),
        (["iso-ir-100"], "ISO_IR 100"),
        (["ISO 2022 IR 100"], "ISO_IR 100"),
        (["ISO 2022 IR 87"], r"ISO 2022 IR 6\ISO 2022 IR 87"),
        (["", "ISO 2022 IR 149"], r"\ISO 2022 IR 149"),
        (["ISO 2022 IR 13", "ISO 2022 IR 87"], r"ISO 2022 IR 13\ISO 2022 IR 87"),
        (["utf-8"], "ISO_IR 192"),
        (["GB18030"], "GB18030"),
        (["latin1"], None),
        (["punycode"], None),
        (["ISO_IR 999"], None),
        (["ISO_IR 192", "GBK"], None),
    ],
)
def test_names(values: list[str], charset: str | None) -> None:
    """Names of character sets are read with their usual mistakes; others are unknown."""
    assert read_charset(values) == charset


@pytest.mark.parametrize(
    ("text", "requested", "fixed", "chosen"),
    [
        ("Doe", "", "", ""),
        ("Doe", "ISO_IR 192", "", "ISO_IR 192"),
        ("Jérôme", "", "", "ISO_IR 100"),
        ("Jérôme", "ISO_IR 144", "", "ISO_IR 100"),
        ("Жук", "ISO_IR 100", "", "ISO_IR 144"),
        ("Жук é", "", "", "ISO_IR 192"),
        ("山田", "", "", "ISO_IR 192"),
        ("山田", r"\ISO 2022 IR 87", "", r"\ISO 2022 IR 87"),
        ("山田", "ISO_IR 192", "ISO_IR 100", "ISO_IR 100"),
        ("山田", "GB18030", "", "GB18030"),
    ],
)
def test_the_choice(text: str, requested: str, fixed: str, chosen: str) -> None:
    """The peer's set, or that of the query, or the smallest that suffices."""
    assert choose(text, requested, fixed) == chosen


SETS = [
    *("", *SINGLE, r"\ISO 2022 IR 87", r"ISO 2022 IR 13\ISO 2022 IR 87", r"\ISO 2022 IR 149"),
    *(r"\ISO 2022 IR 58", r"ISO 2022 IR 100\ISO 2022 IR 144\ISO 2022 IR 126"),
    r"ISO 2022 IR 6\ISO 2022 IR 87\ISO 2022 IR 159\ISO 2022 IR 100",
]
LETTERS = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="?\x1b")


@given(st.text(LETTERS, max_size=30), st.sampled_from(SETS))
def test_what_is_written_is_read(text: str, charset: str) -> None:
    """A text is read as it was written, but for characters that the set does not have."""
    if "IR 13" in charset.partition("\\")[0] or charset == "ISO_IR 13":
        text = text.replace("~", "").replace("\\", "")  # JIS X 0201 has other signs there
    expected = "".join(sign if can_represent(sign, charset) else "?" for sign in text)
    assert decode(encode(text, charset), charset) == expected


@given(st.binary(max_size=60), st.sampled_from(SETS))
def test_any_bytes(value: bytes, charset: str) -> None:
    """Any bytes are read as some text."""
    assert isinstance(decode(value, charset), str)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_an_answer_never_fails(text: str) -> None:
    """A set that is chosen has all characters of the text."""
    assert can_represent(text, choose(text, "ISO_IR 100"))
