"""De-identified messages contain nothing of a patient, and are read as the originals are."""

import base64
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path as File
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappings.authoring.deidentification import (
    Deidentifier,
    NotDeidentified,
    Options,
    options_for,
)
from mappings.authoring.trial import try_message
from mappings.compiler import DEFINITIONS, load
from mappings.hl7 import dictionary
from mappings.hl7.message import Message
from mappings.hl7.refusals import MessageRefusal
from mappings.hl7.times import parse_timestamp
from mappings.hl7.tree import message_tree
from mappings.inbound.definition import InboundMapping
from tests.corpus import CORPUS
from tests.mappings.definitions import DEFAULTS, SHIPPED

KEY = bytes(range(32))
DEIDENTIFIER = Deidentifier(KEY)
HEADER = "MSH|^~\\&|RIS|NORTH|BRIDGE|HUB|20260102030405||ORM^O01^ORM_O01|A4711|P|{}||||||{}"
UTF_8 = HEADER.format("2.5.1", "UNICODE UTF-8")


def written(
    *segments: str, head: str = UTF_8, options: Options | None = None, codec: str = "utf-8"
) -> str:
    """De-identify a message and return the text of its segments after MSH."""
    raw = "\r".join([head, *segments, ""]).encode(codec)
    done = Deidentifier(KEY, options).message(raw)
    assert len(done) == len(raw)
    return done.decode(codec).split("\r", 1)[1].rstrip("\r")


def value(path: str, *segments: str, options: Options | None = None) -> str:
    return Message.parse(f"{UTF_8}\r{written(*segments, options=options)}".encode()).value(path)


PID = (
    "PID|1||A10001^^^NORTH&1.2.3&ISO^MR||MÜLLER^Jürgen^K^^DR||19580714|M|||"
    "Hauptstr. 12^^Zürich^ZH^8001^CH||+41 44 123 45 67^PRN^PH|||||V556677|756.1234.5678.97"
)


def test_what_stays_and_what_is_replaced() -> None:
    """Codes, authorities, prefixes, procedures, lengths and case stay; values do not."""
    done = written(
        PID,
        "ORC|NW|P778899^RIS|ACC7001^RIS|||||||",
        "OBR|1|P778899|ACC7001|CT1^CT chest^L|||||||||pain of Jürgen \\.br\\ since 2020||||||||CT",
    )
    pid, orc, obr = done.split("\r")
    assert re.fullmatch(r"A[1-9]\d{4}\^\^\^NORTH&1\.2\.3&ISO\^MR", pid.split("|")[3])
    assert re.fullmatch(r"[A-ZÀ-Ý]{6}\^[A-Z][a-zà-ý]{5}\^[A-Z]\^\^DR", pid.split("|")[5])
    assert re.fullmatch(r"\d{4}(0[1-9]|1[0-2])[0-3]\d", pid.split("|")[7])
    assert pid.split("|")[8] == "M"
    assert pid.split("|")[11].split("^")[3:6:2] == ["ZH", "CH"]
    assert pid.split("|")[13].endswith("^PRN^PH")
    assert orc.split("|")[1] == "NW"
    assert orc.split("|")[3].startswith("ACC")
    assert orc.split("|")[3].endswith("^RIS")
    assert obr.split("|")[4] == "CT1^CT chest^L"
    assert obr.split("|")[13] == "xxxx xx Xßxxxx \\.br\\ xxxxx 0000"
    for secret in ("10001", "MÜLLER", "ürgen", "19580714", "auptstr", "123 45 67", "556677"):
        assert secret not in done
    for secret in ("756.1234", "778899", "7001", "pain"):
        assert secret not in done


def test_equal_values_have_equal_replacements() -> None:
    """In all fields and messages, with another prefix, in upper and lower case."""
    number = value("PID-3.1", PID)
    name = value("PID-5.1", PID)
    assert value("OBR-18", "OBR|1|||||||||||||||||A10001") == number
    assert value("ORC-2.1", "ORC|NW|XY10001^RIS") == f"XY{number[1:]}"
    assert value("OBR-16.2", "OBR|1||||||||||||||||") == ""
    assert value("OBR-16.2", "OBR|1|||||||||||||||77^müller^jürgen") == name.lower()
    other = Deidentifier(bytes(32)).message(f"{UTF_8}\r{PID}\r".encode())
    assert Message.parse(other).value("PID-3.1") != number


def test_different_numbers_stay_different() -> None:
    """A permutation never makes two patients one; leading zeros stay."""
    numbers = [f"{number:06}" for number in range(0, 1_000_000, 331)] + list("0123456789")
    field = "~".join(f"{number}^^^NORTH^MR" for number in numbers)
    (done,) = [part.split("|")[3] for part in written(f"PID|1||{field}").split("\r")]
    replaced = [part.split("^")[0] for part in done.split("~")]
    assert len(set(replaced)) == len(numbers)
    for before, after in zip(numbers, replaced, strict=True):
        assert len(before) - len(before.lstrip("0")) == len(after) - len(after.lstrip("0"))


@pytest.mark.parametrize("digit", ["5", "9"])
def test_a_check_digit_is_that_of_the_new_number(digit: str) -> None:
    """A right one stays right (M10 of 12345 is 5), a wrong one is replaced."""
    done = value("PID-3", f"PID|1||12345^{digit}^M10^NORTH^MR").split("^")
    doubled = str(int(done[0][::-1][::2]) * 2) + done[0][::-1][1::2]
    right = str(-sum(map(int, doubled)) % 10)
    assert (done[1] == right) is (digit == "5")


def test_a_uid_stays_a_uid() -> None:
    uid = value("ZDS-1.1", "ZDS|1.2.840.113619.2.55.3.1234567890.0^RIS^Application^DICOM")
    assert re.fullmatch(r"1\.2\.840(\.(0|[1-9]\d*)){6}", uid)
    assert "113619" not in uid
    assert value("OBR-20", "OBR|1" + "|" * 19 + "1.2.840.113619.2.55.3.1234567890.0") == uid


DATES = ["19580714", "195807141530", "19580714153005.25+0100", "195807", "1958", "20240229"]


@pytest.mark.parametrize("text", DATES)
def test_a_date_keeps_precision_and_weekday(text: str) -> None:
    """It is shifted by whole weeks; the time of day stays."""
    done = value("ORC-9", PID, f"ORC|NW||||||||{text}")
    assert len(done) == len(text)
    assert done[8:] == text[8:] or not done[:4].isdigit()
    assert done[:6] != text[:6] or len(text) == 4


def test_the_dates_of_a_patient_move_together() -> None:
    """The interval between birth and study stays; another patient has another shift."""

    def shift(pid: str, patient: str = "") -> int:
        raw = f"{UTF_8}\r{pid}\rORC|NW||||||||20260105\r".encode()
        done = Message.parse(DEIDENTIFIER.message(raw, patient))
        days = []
        for path, before in (("PID-7", "19580714"), ("ORC-9", "20260105")):
            text = done.value(path)
            moved = date(int(text[:4]), int(text[4:6]), int(text[6:]))
            days.append((moved - date.fromisoformat(before)).days)
        assert days[0] == days[1]
        assert days[0] % 7 == 0
        assert 28 <= abs(days[0]) <= 364
        return days[0]

    shifts = {shift(PID.replace("A10001", f"A{number}")) for number in range(10001, 10020)}
    assert len(shifts) > 5
    assert shift(PID, "A10002") == shift(PID.replace("A10001", "A10002"))


def test_very_old_people_are_made_younger() -> None:
    """An age above 89 would tell who it is."""
    year = int(value("PID-7", PID.replace("19580714", "19190714"))[:4])
    assert 2026 - year <= 90
    year = int(value("PID-7", PID.replace("19580714", "19190714"), options=Options(oldest=79))[:4])
    assert 2026 - year <= 80


@pytest.mark.parametrize(
    "text",
    [
        "1958-07-14",
        "07/14/1958",
        "14.07.1958",
        "Jul 14, 1958",
        "14-JUL-1958",
        "September 14, 1958 10:30 PM",
        "1958/07/14 103000",
    ],
)
def test_a_date_in_another_format_keeps_it(text: str) -> None:
    """Some senders write dates in words; their definitions still read them."""
    done = value("PID-7", PID.replace("19580714", text))
    before, after = parse_timestamp(text), parse_timestamp(done)
    assert before is not None
    assert after is not None
    assert after.precision is before.precision
    assert (after.local - before.local).days % 7 == 0
    assert after.local != before.local


@pytest.mark.parametrize("text", ["19581314", "1958-13-14", "unknown", "99991231", "32.01.1958"])
def test_something_that_is_no_date(text: str) -> None:
    """It keeps its form, and none of its digits are readable."""
    done = value("PID-7", PID.replace("19580714", text))
    assert re.sub(r"\d", "0", re.sub("[a-z]", "a", done)) == re.sub(
        r"\d", "0", re.sub("[a-z]", "a", text)
    )
    assert done != text


def test_text_that_is_kept_loses_names_numbers_and_dates() -> None:
    """Those that the other fields have, and every number of four digits."""
    note = "NTE|1||Jürgen MÜLLER, born 14.07.1958 (19580714), A10001, tel 0441234567, 12 mm, T2"
    assert "ürich" not in written(PID, "NTE|1||lives in Zürich", options=Options(text="keep"))
    done = written(PID, note, options=Options(text="keep")).split("\r")[1]
    for secret in ("ürgen", "ÜLLER", "19580714", "10001", "0441234567"):
        assert secret not in done
    assert re.search(r", born \d\d\.\d\d\.\d{4} \(", done)
    assert "14.07.1958" not in done
    assert done.endswith(", 12 mm, T2")


def test_z_segments_are_removed_but_for_the_fields_of_the_definition() -> None:
    """Also if free text is kept."""
    z = "ZXX|A10001|MÜLLER^Jürgen|CT|some words"
    for text in ("remove", "keep"):
        options = Options(text="keep") if text == "keep" else Options()
        assert written(PID, z, options=options).split("\r")[1] == (
            "ZXX|X00000|XßXXXX^Xßxxxx|XX|xxxx xxxxx"
        )
    used = Options(fields=frozenset({"ZXX-1", "ZXX-3"}), codes=frozenset({"CT"}))
    done = written(PID, z, options=used).split("\r")[1].split("|")
    assert done[1] == value("PID-3.1", PID)
    assert done[3] == "CT"
    assert done[4] == "xxxx xxxxx"


def test_what_a_definition_names_stays() -> None:
    """Codes of its tables and rules, prefixes of numbers, and the Z fields that it reads."""
    sources = {
        "mine.yaml": 'tags: {Accession: {from: "ZXX[*]-2.1", match: "^HOSP-"}}  # ward: CARDIO',
        "codes/ward.csv": "code,value\nNEUROLOGY,Ward 7\n",
    }
    options = options_for(sources)
    assert options.fields == {"ZXX-2"}
    done = written(
        PID, "ZXX|HOSP-7001|HOSP-7001^NEUROLOGY", "PV1|1|NEUROLOGY|||CARDIOL", options=options
    )
    number = value("PID-3.1", PID.replace("A10001", "7001"))
    assert done.split("\r")[1] == f"ZXX|XXXX-0000|HOSP-{number}^NEUROLOGY"
    assert "PV1|1|NEUROLOGY|" in done
    assert "CARDIO" not in done


def test_a_document_has_no_content() -> None:
    """The number of characters stays, so that limits behave as before."""
    content = base64.b64encode(b"%PDF MULLER A10001").decode()
    done = written(f"OBX|1|ED|PDF^Report||RIS^application^pdf^Base64^{content}||||||F")
    assert done == f"OBX|1|ED|PDF^Report||RIS^application^pdf^Base64^{'A' * 24}||||||F"


def test_names_of_the_message_do_not_survive_in_codes_and_procedures() -> None:
    """A sender that writes the patient's name or number into a code field."""
    done = written(PID, "PV1|1|O||||||||JURGEN", "OBR|1|||A1^CT of MÜLLER (A10001)^L")
    assert "JURGEN" not in done
    assert "MÜLLER" not in done
    assert "10001" not in done
    assert "CT of " in done


def test_an_employer_is_no_site() -> None:
    """The organizations of a patient are replaced, those of the hospital stay."""
    nk1 = "NK1|1|Doe^John||||||||||||Acme Bakery^L"
    done = written(PID, nk1, "ORC|NW" + "|" * 20 + "Radiology North")
    assert "Acme" not in done
    assert "Bakery" not in done
    assert done.endswith("|Radiology North")


def test_short_numbers_of_the_patient_do_not_survive_in_other_fields() -> None:
    """A string or a measured value that is a number of the patient."""
    done = written("PID|1||481^^^N^MR~12345", "OBX|1|NM|X||12345", "OBR|1|" + "|" * 4 + "481")
    assert "481" not in done
    assert "12345" not in done
    assert "OBX|1|NM|X||777" in written("PID|1||481^^^N^MR", "OBX|1|NM|X||777")


def test_the_age_is_bounded_without_the_date_of_the_message() -> None:
    """The latest date of the message counts."""
    head = UTF_8.replace("20260102030405", "")
    done = written("PID|1||A1||||19190714", "ORC|NW||||||||20260105", head=head)
    assert int(done.split("|")[7][:4]) >= 2026 - 91


def test_what_cannot_be_read_is_not_written() -> None:
    for raw in (b"GET / HTTP/1.1", b"MSH|", b""):
        with pytest.raises(NotDeidentified):
            DEIDENTIFIER.message(raw)


# canaries

_LETTERS = "QXYKWJ"


def canaries() -> Iterator[tuple[str, str]]:
    """Yield tokens and numbers without end; each is unique."""
    count = 0
    while True:
        count += 1
        letters, rest = "", count
        while rest:
            rest, index = divmod(rest, len(_LETTERS))
            letters += _LETTERS[index]
        yield f"QXYKWJ{letters}QXYKWJ", f"90{count:06}4271"


def filled(version: str, kind: str) -> Iterator[tuple[str, list[str]]]:
    """Yield a segment of each name, with a canary in each part of each field, and the canaries."""
    known = dictionary.names(version)
    source = canaries()

    def canary(into: list[str]) -> str:
        word, number = next(source)
        made = {"word": word, "number": number, "date": "19580714"}.get(kind, f"Xy {word} {number}")
        into.append(made)
        return made

    names = set(known._lines["segment"]) - {"MSH", "BHS", "FHS"}
    for name in sorted(names | {"ZXX", "QQQ"}):
        used: list[str] = []
        fields = []
        for number in range(1, max(len(known.segment(name)), 5) + 1):
            info = known.field(name, number)
            if f"{name}-{number}" in KEPT:
                fields.append("")
                continue
            components = []
            for index in range(1, len(known.type(info.type)) + 3):
                below = len(known.type(known.component(info.type, index).type)) + 1
                parts = [canary(used) for _ in range(below)]
                components.append("&".join(parts))
            fields.append("~".join(("^".join(components), canary(used))))
        yield "|".join([name, *fields]), used


KEPT = frozenset({"OBX-2", "OBX-3", "OBX-6", "OBR-4", "OBR-44", "OBR-45"})
"""What is kept: the type of a value, its units, and procedures."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "kind"),
    [
        *(("2.5.1", kind) for kind in ("word", "number", "date", "text")),
        *(("2.2", "number"), ("2.3.1", "word"), ("2.8.2", "word")),
    ],
)
def test_no_canary_survives(version: str, kind: str) -> None:
    """In no field, component, subcomponent or repetition of any segment of the standard."""
    deidentifier = Deidentifier(KEY, Options(keep_sites=False))
    examined = 0
    for segment, used in filled(version, kind):
        raw = f"{HEADER.format(version, 'UNICODE UTF-8')}\r{segment}\r".encode()
        done = deidentifier.message(raw).decode().split("\r")[1]
        assert re.sub(r"[^|~^&]", "", done) == re.sub(r"[^|~^&]", "", segment)
        assert "QXYKWJ" not in done.upper(), segment[:3]
        for number in (found for text in used for found in re.findall(r"\d{8,}", text)):
            assert number not in done, segment[:3]
        examined += len(used)
    assert examined > (500 if version == "2.2" else 2_000)


def test_no_canary_survives_in_the_header() -> None:
    """But for the fields that say how to read the message."""
    parts = [f"QXYKWJ{number}Q" for number in range(3, 25)]
    fixed = {9: "ORM^O01", 11: "P", 12: "2.5.1", 15: "AL", 16: "NE", 18: "UNICODE UTF-8", 20: ""}
    for number, text in fixed.items():
        parts[number - 3] = text
    raw = "|".join(["MSH|^~\\&", *parts]).encode() + b"\rPID|1\r"
    done = Deidentifier(KEY, Options(keep_sites=False)).message(raw).decode()
    assert "QXYK" not in done
    assert all(f"|{text}|" in done for text in fixed.values())
    kept = DEIDENTIFIER.message(raw).decode()
    assert kept.count("QXYK") == 8  # systems, facilities, profile and organizations


SCRIPTS = {
    "Cyrillic": "Щукинаров",
    "Greek": "Παπαδοπούλου",
    "Hebrew": "בןגוריון",
    "Arabic": "محمدعليحسن",
    "Hangul": "김철수영희",
    "Han": "山田太郎花",
    "Kana": "ヤマダタロウ",
    "Latin": "Éloïseñandú",
    "Thai": "สมชายใจดี",
}


@pytest.mark.parametrize("name", SCRIPTS.values(), ids=SCRIPTS)
def test_names_in_any_script(name: str) -> None:
    """The number of bytes and the script stay, the letters do not."""
    segments = (
        f"PID|1||A1||{name}^{name}",
        f"NTE|1||{name}, {name}",
        f"ZXX|{name}",
        f"OBR|1|||X^{name}||||||||||||12^{name}",
        f"PV1|1|O|{name}",
    )
    for options in (Options(), Options(text="keep")):
        done = written(*segments[:4], options=options)
        assert not any(name[at : at + 2] in done for at in range(len(name) - 1))
    assert name in written(*segments[4:])  # a ward
    assert name not in written(*segments[4:], options=Options(keep_sites=False))


@pytest.mark.parametrize(
    ("msh18", "codec", "name"),
    [
        ("8859/1", "latin-1", "MÜLLER^Jürgen"),
        ("8859/5", "iso8859-5", "Щукин^Анна"),
        ("8859/7", "iso8859-7", "Παππάς^Άννα"),
        ("GB 18030-2000", "gb18030", "王小明^李𠮷"),
        ("BIG-5", "big5", "許功蓋^王"),
        ("KS X 1001", "euc_kr", "김철수^영희"),
        ("SHIFTJIS", "shift_jis", "ソ表山田^太郎"),
        ("ISO IR87", "iso2022_jp_ext", "山田^太郎"),
    ],
)
def test_names_in_character_sets(msh18: str, codec: str, name: str) -> None:
    """The message stays in its character set, with the same number of bytes."""
    head = HEADER.format("2.5.1", msh18)
    done = written(f"PID|1||A10001||{name}", f"NTE|1||{name}", head=head, codec=codec)
    pid, note = done.split("\r")
    for text in (pid.split("|")[5], note.split("|")[3]):
        assert len(text) == len(name)
        assert not any(part in text for part in name.split("^") if len(part) > 1)


def test_a_faulty_character_set_stays_faulty() -> None:
    """Bytes that are no characters stay such bytes, but other ones."""
    raw = f"{UTF_8}\rPID|1||A1||Zoé^".encode() + b"M\xfcller\r"
    done = DEIDENTIFIER.message(raw)
    assert len(done) == len(raw)
    assert b"M\xfcller" not in done
    assert Message.parse(done).charset_suspect
    assert Message.parse(done).encoding == Message.parse(raw).encoding


@pytest.mark.parametrize(
    "sequence", ["\\X51584B\\", "\\XC3BC\\", "\\C2842\\", "\\M284242\\", "\\Zab\\"]
)
def test_escapes_that_stand_for_text_are_neutral(sequence: str) -> None:
    """Markup stays, hexadecimal characters do not; the length is the same."""
    done = written(f"PID|1||A1||D{sequence}E", f"NTE|1||a{sequence}b\\.br\\\\X0D\\\\T\\c")
    assert sequence not in done or sequence == "\\C2842\\"
    assert done.endswith("\\.br\\\\X0D\\\\T\\x")


# the original and the de-identified message are read alike

MAPPINGS = [
    mapping
    for name in ("orders", "patients")
    if isinstance(mapping := load(DEFINITIONS, name), InboundMapping)
]
OPTIONS = options_for(SHIPPED)


def readable() -> list[File]:
    found = []
    for file in CORPUS:
        try:
            Message.parse(file.read_bytes())
        except MessageRefusal:
            continue
        found.append(file)
    return found


@pytest.mark.parametrize("file", readable(), ids=lambda file: file.stem)
def test_structure_and_events_stay(file: File) -> None:
    """The same parts with the same lengths; the same events with the same tags."""
    raw = file.read_bytes()
    for mapping in MAPPINGS:
        before = try_message(mapping, raw, DEFAULTS)
        done = Deidentifier(KEY, OPTIONS).message(raw)
        assert len(done) == len(raw)
        assert places(done) == places(raw)
        after = try_message(mapping, done, DEFAULTS)
        assert facts(after) == facts(before)


def places(raw: bytes) -> list[tuple[str, int]]:
    """Return the place of each part, and where it begins."""
    tree = message_tree(Message.parse(raw))
    return [(node.place, node.first_byte) for root in tree.segments for node in root.walk()]


def facts(trial: Any) -> Any:
    """Return what does not depend on values."""
    return (
        trial.accepted,
        [(issue.path, issue.code) for issue in trial.issues],
        [
            (event["action"], event["place"], sorted(event["clinical_info"]))
            for event in trial.events
        ],
    )


TEXT = st.text("AÄ山9 0.|~^&\\\n1aX-", max_size=30)


@given(
    st.lists(st.tuples(st.sampled_from(["PID", "OBX|1|TX", "NTE", "ZZZ"]), TEXT), max_size=6),
    st.sampled_from(["remove", "keep"]),
)
def test_any_message_keeps_its_form(segments: list[tuple[str, str]], text: str) -> None:
    """Or is refused; nothing else is raised."""
    lines = [UTF_8, *(f"{name}|{content}" for name, content in segments)]
    raw = "\r".join(lines).encode()
    options = replace(Options(), text="keep") if text == "keep" else Options()
    try:
        done = Deidentifier(KEY, options).message(raw)
    except NotDeidentified:
        with pytest.raises(MessageRefusal):
            Message.parse(raw)
        return
    assert len(done) == len(raw)
    assert re.sub(rb"[^|~^&\r\n]", b"", done) == re.sub(rb"[^|~^&\r\n]", b"", raw)
