"""The dictionary: hl7apy's names for each version, and the meanings of codes."""

import importlib
import subprocess
import sys

import pytest
from hl7apy import SUPPORTED_LIBRARIES

from mappings.hl7 import dictionary
from mappings.hl7.dictionary import (
    VERSIONS,
    field_name,
    meaning,
    names,
    nearest,
    place_name,
    tables,
)
from tests.dictionary import FOLDER, generate


def test_the_files_are_those_that_hl7apy_gives() -> None:
    """Each file is as `python -m tests.dictionary` writes it, and none is large."""
    files = generate()
    assert set(files) == {f"{version}.json" for version in VERSIONS}
    assert {file.name for file in FOLDER.glob("*.json")} == set(files)
    for name, text in files.items():
        assert (FOLDER / name).read_text(encoding="ascii") == text, (
            "run: python -m tests.dictionary"
        )
        assert len(text) < 100_000


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_has_the_types_of_hl7apy(version: str) -> None:
    """What is read back through the differences is what hl7apy has for that version."""
    library = importlib.import_module(SUPPORTED_LIBRARIES[version])
    known = names(version)
    for segment in ("MSH", "PID", "OBR", "OBX"):
        for key, reference, (_, most), _ in library.SEGMENTS[segment][1]:
            field = known.field(segment, int(key.rpartition("_")[2]))
            if reference[2] == "WD" or most == 0:
                assert field.withdrawn
            else:
                assert (field.type, field.repeats) == (reference[2], most == -1)
                assert field.name


@pytest.mark.parametrize(
    ("version", "place", "name"),
    [
        ("2.5.1", "PID-3", "Patient identifier list"),
        ("2.3", "PID-3", "Patient ID internal ID"),
        ("2.5.1", "PID-6", "Mother's maiden name"),
        ("2.5.1", "PID-3[2].4.2", "Universal ID"),
        ("2.5.1", "PID-5.1.1", "Surname"),
        ("2.5.1", "OBR[2]-16.2", "Family name"),
        ("2.5.1", "ORC-1", "Order control"),
        ("2.5.1", "OBR-22", "Results report status change date/time"),
        ("2.8", "PID-2", "Patient ID"),  # withdrawn
        ("2.3.1", "IPC-1", "Accession identifier"),  # of a later version
        ("2.3", "OBX-18", "Equipment instance identifier"),  # likewise
        ("2.5.1", "ZDS-1", ""),
        ("2.5.1", "PID-99", ""),
        ("2.5.1", "PID", ""),
        ("2.5.1", "no place", ""),
    ],
)
def test_a_place_has_the_name_of_its_version(version: str, place: str, name: str) -> None:
    """Names are those of the version, else of the newest one, else empty."""
    assert place_name(place, version) == name


def test_the_field_of_a_place() -> None:
    """A receiver names a component; its error is shown with the name of the field."""
    assert field_name("OBR[2]-16.2") == "Ordering provider"
    assert field_name("PID") == field_name("Z") == ""


@pytest.mark.parametrize(
    ("sent", "used"),
    [
        ("2.5.1", "2.5.1"),
        ("2.7.1", "2.7"),
        ("2.9", "2.8.2"),
        ("V2.3", "2.3"),
        ("", "2.5.1"),
        ("1", "2.5.1"),
        ("2.x", "2.5.1"),
        ("9" * 5000, "2.8.2"),
    ],
)
def test_the_nearest_version(sent: str, used: str) -> None:
    """A version that is not known is read as the one before it."""
    assert nearest(sent) == used


def test_the_versions_are_those_of_hl7apy() -> None:
    assert set(VERSIONS) == set(SUPPORTED_LIBRARIES)


@pytest.mark.parametrize(
    ("table", "code", "words"),
    [
        ("0001", "F", "Female"),
        ("0119", "NW", "New order"),
        ("0203", "MR", "Medical record number"),
        ("0211", "UNICODE UTF-8", "Unicode, UTF-8"),
        ("0001", "Q", ""),
        ("9998", "F", ""),
    ],
)
def test_the_meaning_of_a_code(table: str, code: str, words: str) -> None:
    assert meaning(table, code) == words


@pytest.mark.parametrize(
    ("place", "table"), [("PID-8", "0001"), ("PV1-2", "0004"), ("OBX-11", "0085")]
)
@pytest.mark.parametrize("version", VERSIONS)
def test_coded_fields_have_their_table_in_each_version(
    version: str, place: str, table: str
) -> None:
    """Tables that hl7apy lacks in old versions are those of 2.5.1."""
    segment, _, number = place.partition("-")
    assert names(version).field(segment, int(number)).table == table


_BEYOND_HL7APY = {
    "0001": "X",
    "0065": "C N",
    "0104": "2.8.2",
    "0123": "M",
    "0203": "AC FILL PLAC",
    "0291": "BMP PDF gif html jpeg octet-stream pdf plain rtf tiff xml",
    "0301": "CAP DICOM L M N",
    "0396": "I10C I10G RADLEX SRT",
    "0443": "AUT",
    "0485": "TD TH TL TM TS TW",
}
"""Codes of the newest standard or of senders that hl7apy does not list."""


def test_the_codes_are_of_the_standard() -> None:
    """Each code with a meaning is in a table of hl7apy, or named here."""
    known: dict[str, set[str]] = {}
    for version in VERSIONS[3:]:
        library = importlib.import_module(SUPPORTED_LIBRARIES[version])
        for table, (_, codes) in library.TABLES.items():
            known.setdefault(table[3:], set()).update(code.replace(" ", "") for code in codes)
    for table, codes in tables().items():
        found = {code.replace(" ", "") for code in codes} - known.get(table, set())
        assert found == set(_BEYOND_HL7APY.get(table, "").split()), table
        assert all(words and words[0] != " " for words in codes.values())


def test_each_part_has_a_known_type_and_a_table_of_four_digits() -> None:
    """No generated entry is out of the form that the reader expects."""
    for version in VERSIONS:
        known = names(version)
        for segment in (
            "PID",
            "PV1",
            "ORC",
            "OBR",
            "OBX",
            "NTE",
            "AL1",
            "NK1",
            "IN1",
            "TXA",
            "MRG",
        ):
            for field in known.segment(segment):
                assert field.table == "" or (len(field.table) == 4 and field.table.isdigit())
                assert field.name == field.name.strip()
                assert field.type == "" or field.type[0].isalpha()


def test_nothing_is_loaded_until_a_page_asks() -> None:
    """Importing the module reads no file: receiving processes do not pay for it."""
    program = (
        "import mappings.hl7.dictionary as d; "
        "print(d._load.cache_info().currsize, d.tables.cache_info().currsize)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["0", "0"]


def test_a_stranger_cannot_make_the_dictionary_grow() -> None:
    """Unknown segments and types are not remembered."""
    known = names("2.5.1")
    for number in range(1000):
        assert known.segment(f"Z{number:02}"[:3]) == ()
        assert known.field(f"Q{number}", 1).name == ""
    assert len(known._parts) <= len(known._lines["segment"]) + len(known._lines["type"])
    assert dictionary.newest().version == "2.8.2"
