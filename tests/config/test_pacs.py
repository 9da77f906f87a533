"""The settings of a destination that is a PACS: addresses, and settings that have no effect."""

from pathlib import Path

import pytest

from config.quantities import DicomAddress, DicomWebAddress
from config.settings import Settings, parse
from config.toml_text import SettingsError


def read(home: Path, *lines: str) -> Settings:
    text = '[[destination]]\nname = "pacs"\n' + "".join(f"{line}\n" for line in lines)
    return parse(text, home, home / "bridge.toml")


def test_addresses(tmp_path: Path) -> None:
    (dimse,) = read(tmp_path, 'address = "dicom://MY PACS@[::1]:11112"').destination
    assert isinstance(dimse.address, DicomAddress)
    assert (dimse.address.called_title, dimse.address.host, dimse.address.port) == (
        "MY PACS",
        "::1",
        11112,
    )
    (web,) = read(tmp_path, 'address = "dicomweb+https://pacs.example.org/dicom-web/"').destination
    assert isinstance(web.address, DicomWebAddress)
    assert web.address.url == "https://pacs.example.org/dicom-web"
    assert (web.address.port, web.address.secure) == (443, True)
    (plain,) = read(tmp_path, 'address = "dicomweb+http://127.0.0.1:8042/d"').destination
    assert isinstance(plain.address, DicomWebAddress)
    assert (plain.address.port, plain.is_pacs) == (8042, True)


@pytest.mark.parametrize(
    "lines",
    [
        ['address = "dicom://127.0.0.1:104"'],
        ['address = "dicom://A_TITLE_THAT_IS_LONG@127.0.0.1:104"'],
        ['address = "dicom://PACS@127.0.0.1"'],
        ['address = "dicomweb+ftp://pacs"'],
        ['address = "dicomweb+https://user:word@pacs/"'],
        ['address = "dicom://A@h:1"', 'layout = "lines"'],
        ['address = "dicom://A@h:1"', 'fields = { receiving_application = "X" }'],
        ['address = "dicom://A@h:1"', 'events = ["final", "preliminary"]'],
        ['address = "dicom://A@h:1"', 'replies = { AE = "park" }'],
        ['address = "dicom://A@h:1"', "answer_files = true"],
        ['address = "dicom://A@h:1"', 'authorization_file = "secrets/x"'],
        ['address = "dicom://A@h:1"', "dicom = { forms = [] }"],
        ['address = "dicom://A@h:1"', 'dicom = { charset = "ISO 2022 IR 87" }'],
        ['address = "dicomweb+https://h"', "dicom = { commitment = true }"],
        ['address = "dicomweb+http://h"', "tls = {}"],
        ['address = "127.0.0.1:2575"', 'dicom = { forms = ["sr"] }'],
        ['address = "127.0.0.1:2575"', 'replies = { "dicom A7xx" = "park" }'],
        ['address = "dicom://A@h:1"', 'replies = { "dicom a7xx" = "park" }'],
    ],
)
def test_mistakes(tmp_path: Path, lines: list[str]) -> None:
    """A setting without effect is a mistake, as for other kinds."""
    with pytest.raises(SettingsError, match=r"destination\.1"):
        read(tmp_path, *lines)


def test_a_listener_is_no_pacs(tmp_path: Path) -> None:
    text = '[[listener]]\nname = "a"\nbind = "dicom://A@127.0.0.1:104"\nsite = "S"\n'
    with pytest.raises(SettingsError, match="bind"):
        parse(text, tmp_path, tmp_path / "bridge.toml")


def test_what_fits(tmp_path: Path) -> None:
    (found,) = read(
        tmp_path,
        'address = "dicom://PACS@10.0.0.9:104"',
        'sections = "loinc"',
        'replies = { "dicom A7xx" = "retry 5 then pause", silence = "retry" }',
        'dicom = { forms = ["sr"], commitment = true, commitment_within = "6h" }',
        "tls = {}",
    ).destination
    assert found.dicom is not None
    assert found.dicom.commitment_within == 6 * 3600
