"""The settings of DICOM: `[dicom]` and `[[dicom.peer]]`."""

from pathlib import Path

import pytest

from config.dicom import DicomSettings
from config.example import with_unit
from config.forms import to_table
from config.settings import parse
from config.toml_text import SettingsError

PEER = '[[dicom.peer]]\nae_title = "CT1"\naddresses = ["10.1.0.0/16"]\n'


def read(text: str) -> DicomSettings:
    return parse(text, Path("/home/bridge"), Path("bridge.toml")).dicom


def test_nothing_set() -> None:
    """Without settings there is no DICOM port."""
    assert read("").bind is None


@pytest.mark.parametrize("title", ["A", "CT 1", "0123456789ABCDEF", "ct-1_{x}"])
def test_titles(title: str) -> None:
    """An AE title has up to 16 ASCII characters; inner spaces are a part of it."""
    assert read(f'[dicom]\nae_title = "{title}"').ae_title == title


@pytest.mark.parametrize("charset", ["", "ISO_IR 192", "GB18030", r"ISO 2022 IR 6\ISO 2022 IR 87"])
def test_character_sets(charset: str) -> None:
    r"""A peer's character set is a value of (0008,0005), as `\ISO 2022 IR 149`."""
    (peer,) = read(f"{PEER}charset = '{charset}'").peer
    assert peer.charset == charset


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("steps_expire", 30 * 86_400.0, "30d"),
        ("idle_timeout", 0.5, "0.5s"),
        ("steps_expire", 0.0, "0s"),
        ("max_object", 64 * 2**20, "64MiB"),
        ("max_pdu", 68 * 2**10, "68KiB"),
        ("max_pdu", 70_000, 70_000),
        ("max_associations", 900, 900),
    ],
)
def test_values_are_shown_as_they_are_written(key: str, value: float, text: object) -> None:
    """Times and sizes have the largest unit that says them exactly."""
    assert with_unit(key, value) == text


WRONG = {
    'title: "" is none': ('[dicom]\nae_title = ""', "2:1", "dicom.ae_title: write 1 to 16"),
    "title: 17 characters": ('[dicom]\nae_title = "0123456789ABCDEFG"', "2:1", "dicom.ae_title: "),
    "title: outer space": ('[dicom]\nae_title = " CT1"', "2:1", "dicom.ae_title: write 1 to 16"),
    "title: backslash": ("[dicom]\nae_title = 'CT\\1'", "2:1", "dicom.ae_title: write 1 to 16"),
    "title: control": ('[dicom]\nae_title = "CT\\u0007"', "2:1", "dicom.ae_title: write 1 to 16"),
    "title: not ASCII": ('[dicom]\nae_title = "RÖ"', "2:1", "dicom.ae_title: write 1 to 16"),
    "twice": (PEER + PEER, "5:1", "dicom.peer.2.ae_title: CT1 is used more than once"),
    "a listener of this name": (
        '[dicom]\nbind = "127.0.0.1:11112"\n[[listener]]\nname = "dicom"\nbind = "127.0.0.1:1"\nsite = "S"',  # noqa: E501
        "4:1",
        "listener.1.name: dicom is the name of the DICOM port",
    ),
    "network": (
        '[[dicom.peer]]\nae_title = "CT1"\naddresses = ["::1", "10.1.0.0/8"]',
        "3:21",
        "dicom.peer.1.addresses.2: 10.1.0.0/8 is no IP address or network",
    ),
    "no network": (
        '[[dicom.peer]]\nae_title = "CT1"\naddresses = []',
        "3:1",
        "dicom.peer.1.addresses: must not be empty, for example addresses = [",
    ),
    "unknown right": (
        f'{PEER}may = ["worklist", "mpps"]',
        "4:20",
        'dicom.peer.1.may.2: write "worklist", "performed", "store" or "commitment"',
    ),
    "unknown key": (
        f'{PEER}station = "CT1"',
        "4:1",
        "dicom.peer.1.station: unknown key; is stations meant?",
    ),
    "unknown character set": (
        f'{PEER}charset = "latin1"',
        "4:1",
        "dicom.peer.1.charset: write a Specific Character Set",
    ),
    "UTF-8 has no code extensions": (
        f"{PEER}charset = 'ISO_IR 192\\ISO 2022 IR 87'",
        "4:1",
        "dicom.peer.1.charset: write a Specific Character Set",
    ),
    "no table": ("[dicom]\npeer = 3", "2:1", "dicom.peer: write [[dicom.peer]], once for each"),
    "memory": (
        '[dicom]\nmax_object = "1GiB"',
        "1:1",
        "dicom.object_memory: less than max_object",
    ),
}


@pytest.mark.parametrize(("text", "place", "message"), WRONG.values(), ids=WRONG.keys())
def test_mistakes(text: str, place: str, message: str) -> None:
    """Each mistake is reported with its place and what is possible."""
    with pytest.raises(SettingsError) as raised:
        read(text)
    (mistake,) = raised.value.mistakes
    assert mistake.place == f"bridge.toml:{place}"
    assert mistake.message.startswith(message)


def test_the_table_of_the_section() -> None:
    """`to_table` returns peers as in the file, as a comparison of two installations needs them."""
    assert to_table(read(f"{PEER}max_answers = 5")) == {
        "peer": [{"ae_title": "CT1", "addresses": ["10.1.0.0/16"], "max_answers": 5}]
    }
