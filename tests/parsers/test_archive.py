"""The parser refuses hostile ZIP archives with a reason, in bounded memory."""

import stat
import struct
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from io import BytesIO

import pytest

from bridge.admin.packages.activation import unpack_zip
from bridge.admin.packages.folder import NotImported
from parsers.limits import PACKAGE, TOML, DocumentRefused
from parsers.readers import read_zip

TOML_FILE = "interface.toml"


def archive(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED, mode: int = 0) -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name, data in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            made.writestr(info, data, method)
    return out.getvalue()


def changed(data: bytes, signature: bytes, at: int, value: bytes) -> bytes:
    """Return a ZIP file with other bytes in its first record of a kind."""
    place = data.index(signature) + at
    return data[:place] + value + data[place + len(value) :]


def overlapping() -> bytes:
    data = archive({TOML_FILE: b"a" * 1000, "mappings/a.yaml": b"a" * 1000})
    first = data.index(b"PK\x01\x02")
    second = data.index(b"PK\x01\x02", first + 1)
    return data[: second + 42] + struct.pack("<I", 0) + data[second + 46 :]


def twice() -> bytes:
    data = archive({TOML_FILE: b"a = 1", "interface.tomm": b"a = 2"})
    return data.replace(b"interface.tomm", TOML_FILE.encode())


GOOD = archive({TOML_FILE: b"a = 1"})
HOSTILE = {
    "bomb": archive({TOML_FILE: b" " * (PACKAGE.size + 1)}),
    "bombs": archive({f"mappings/a{number}.yaml": b" " * 2**20 for number in range(9)}),
    "many": archive({f"mappings/a{number}.yaml": b"" for number in range(PACKAGE.count + 1)}),
    "folders": archive({f"a{number}/": b"" for number in range(20_000)}, zipfile.ZIP_STORED),
    "absolute": archive({"/etc/passwd": b""}),
    "parent": archive({"mappings/../../a.yaml": b""}),
    "deep": archive({"a/b/c/d/e/f.yaml": b""}),
    "link": archive({"mappings/a.yaml": b"/etc/passwd"}, mode=stat.S_IFLNK | 0o777),
    "encrypted": changed(GOOD, b"PK\x01\x02", 8, b"\1\0"),
    "lzma": archive({TOML_FILE: b"a = 1"}, zipfile.ZIP_LZMA),
    "bzip2": archive({TOML_FILE: b"a = 1"}, zipfile.ZIP_BZIP2),
    "checksum": changed(GOOD, b"PK\x01\x02", 16, b"\0\0\0\0"),
    "deflate": changed(GOOD, TOML_FILE.encode(), len(TOML_FILE), b"\xff\xff\xff"),
    "lying size": changed(GOOD, b"PK\x01\x02", 24, struct.pack("<I", 1)),
    "zip64": changed(GOOD, b"PK\x01\x02", 24, struct.pack("<I", 0xFFFFFFFF)),
    "twice": twice(),
    "cut": GOOD[:-10],
    "no UTF-8": archive({TOML_FILE: b"\xff\xfe"}),
    "nothing": b"",
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile_archives_are_refused(data: bytes) -> None:
    """The refusal has our own reason, whatever error the library raises."""
    with pytest.raises(DocumentRefused) as refused:
        read_zip(data)
    assert refused.value.reason


@pytest.mark.parametrize("data", [b"PK\x05\x06" + bytes(18), overlapping()])
def test_archives_without_or_with_shared_content_are_within_limits(data: bytes) -> None:
    """The version of the library decides whether overlapping entries are refused."""
    with suppress(DocumentRefused):
        assert sum(map(len, read_zip(data).values())) <= 2000


DEEP = {
    "dotted keys": ".".join("a" * 50_000) + " = 1",
    "lists": "[[listener]]\nname = " + "[" * 50_000,
    "inline tables": "[[listener]]\nname = " + "{a = " * 50_000,
    "many": "a = 1\n" * TOML.count * 2,
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_a_package_with_hostile_settings_is_refused(text: str) -> None:
    """The worker process refuses hostile settings before this process reads them."""
    with pytest.raises(NotImported) as refused:
        unpack_zip(archive({TOML_FILE: text.encode()}))
    assert TOML_FILE in str(refused.value)


def test_a_package_whose_files_take_too_long_together_is_refused() -> None:
    """Each file is within its limit, and all together exceed the limit."""
    text = "\n".join(f"a{number}: {{b: [1, 2, 3]}}" for number in range(2000)).encode()
    files = {f"mappings/m{number}.yaml": text for number in range(60)}
    with pytest.raises(NotImported) as refused:
        unpack_zip(archive({TOML_FILE: b"", **files}))
    assert "too long" in str(refused.value)


def test_a_good_package_is_unpacked() -> None:
    """A package is unpacked with or without a folder of its own."""
    files = {TOML_FILE: b"a = 1\n", "mappings/codes/a.csv": b"code,value\n"}
    wanted = {name: data.decode() for name, data in files.items()}
    assert unpack_zip(archive(files)) == wanted
    assert unpack_zip(archive({f"mine/{name}": data for name, data in files.items()})) == wanted
