"""
Write the names of the standard from hl7apy: `python -m tests.dictionary`.

`mappings/hl7/standard` has one file for each version, as a difference to the version before. A
segment or data type is one line: its fields or components, each `name|type|table|flags`. Flags: `*`
repeats, `-` withdrawn. A withdrawn field keeps the name and the type that it had.
"""

import importlib
import json
import re
from pathlib import Path
from typing import Any, Final, NamedTuple

from hl7apy import SUPPORTED_LIBRARIES

from mappings.hl7 import dictionary

FOLDER: Final = Path(dictionary.__file__).with_name("standard")

_SEGMENT_NAME = re.compile(r"[A-Z][A-Z0-9]{2}")
_ABBREVIATIONS = """
ALT CE CMS CPU DEA DIN DMV DNA DRG GMDN HCFA HL7 HLA ID II III IRB IV JR MD MFN NDC OBX OID PCCL
PSRO QRY RX SSN TX UB UB82 UB92 UID UPIN UR VAT VIP
"""
_UPPER = frozenset(_ABBREVIATIONS.split())
_WORDS = {
    "CHNG": "change",
    "IDS": "IDs",
    "INFO": "information",
    "OBS": "observation",
    "OBSERV": "observation",
    "PERS": "person",
    "RPT": "report",
    "SECT": "section",
    "SERV": "service",
}
_PLURALS = frozenset({"IDENTIFIER", "DISCIPLINE", "OCCURRENCE"})

_CODED = frozenset({"ID", "IS", "CE", "CWE", "CNE", "CF"})


class Part(NamedTuple):
    """A field or component."""

    name: str
    type: str
    table: str
    flags: str


_NOTHING = Part("", "", "", "")
Entries = dict[str, list[Part]]
Lines = dict[str, str | None]


def generate() -> dict[str, str]:
    """Return the files by their names."""
    names = sorted(SUPPORTED_LIBRARIES, key=lambda version: tuple(map(int, version.split("."))))
    versions: dict[str, dict[str, Entries]] = {}
    before: dict[str, Entries] = {"segments": {}, "types": {}}
    for version in names:
        library = importlib.import_module(SUPPORTED_LIBRARIES[version])
        before = versions[version] = {
            "segments": {
                name: _parts(name, content, before["segments"].get(name, []))
                for name, content in sorted(library.SEGMENTS.items())
                if _SEGMENT_NAME.fullmatch(name)
            },
            "types": {
                name: _parts(name, content, before["types"].get(name, []), of_type=True)
                for name, content in sorted(library.DATATYPES_STRUCTS.items())
                if _children(content)
            },
        }
    for entries in versions.values():
        for kind in entries:
            _add_tables(entries[kind], versions["2.5.1"][kind])
    files = {}
    earlier: dict[str, Lines] = {"segments": {}, "types": {}}
    for version in names:
        now = {kind: _lines(entries) for kind, entries in versions[version].items()}
        differences = {kind: _difference(earlier[kind], now[kind]) for kind in now}
        files[f"{version}.json"] = _format(differences)
        earlier = now
    return files


def _children(content: Any) -> Any:
    """Return the fields of a segment or the components of a type in hl7apy's structure."""
    if content and isinstance(content[0], str):
        return content[1] if len(content) > 1 else ()
    return content


def _parts(owner: str, content: Any, before: list[Part], *, of_type: bool = False) -> list[Part]:
    """`before`: the same segment or type in the version before."""
    parts: list[Part] = []
    for key, reference, (_, most), _ in _children(content):
        number = int(key.rpartition("_")[2])
        parts += [_withdrawn(part) for part in before[len(parts) : number - 1]]
        parts += [_NOTHING] * (number - 1 - len(parts))
        kind, name, table = reference[2:5]
        words = [word for word in (name or "").split("_") if word]
        if len(words) > 1 and words[-1] == (kind if of_type else owner):
            words.pop()  # `SET_ID_PID`, and `CHECK_DIGIT_ST` of 2.4
        flags = "*" if most == -1 else ""
        part = Part(_name(words), kind, (table or "").removeprefix("HL7"), flags)
        if kind == "WD" or most == 0:
            old = before[number - 1] if number <= len(before) else _NOTHING
            part = _withdrawn(old if old.name else part._replace(type=""))
        parts.append(part)
    return parts


def _withdrawn(part: Part) -> Part:
    return part._replace(flags=part.flags.rstrip("-") + "-") if part.name else part


def _add_tables(entries: Entries, usual: Entries) -> None:
    """Give coded parts the table of 2.5.1 where hl7apy has none, as in the types of 2.6."""
    for name, parts in entries.items():
        tables = [part.table for part in usual.get(name, [])]
        for index, part in enumerate(parts):
            table = part.table if part.table != "9999" else ""  # that means: none
            if part.type in _CODED and not table and index < len(tables):
                table = tables[index]
            parts[index] = part._replace(table=table)


def _name(words: list[str]) -> str:
    """Write `MOTHER`, `S`, `MAIDEN`, `NAME` as `Mother's maiden name`."""
    if words[1:3] == ["E", "G"] or words[-1:] == ["THEREOF"]:  # `SUFFIX_E_G_JR_OR_III`
        words = words[:1] if words[1:3] == ["E", "G"] else words[:-3]
    found: list[str] = []
    for index, word in enumerate(words):
        if word == "S" and index:
            found[-1] += "(s)" if words[index - 1] in _PLURALS else "'s"
        elif words[max(index - 1, 0) : index + 1] in (["DATE", "TIME"], ["QUANTITY", "TIMING"]):
            found[-1] += f"/{word.lower()}"
        elif word in _WORDS:
            found.append(_WORDS[word])
        else:
            found.append(word if word in _UPPER or len(word) == 1 else word.lower())
    text = " ".join(found)
    return text[:1].upper() + text[1:]


def _lines(entries: Entries) -> Lines:
    return {
        name: ";".join("|".join(part) if part.name else "" for part in parts)
        for name, parts in entries.items()
    }


def _difference(before: Lines, now: Lines) -> Lines:
    changed = {name: line for name, line in now.items() if before.get(name) != line}
    return dict(sorted((changed | dict.fromkeys(before.keys() - now.keys())).items()))


def _format(content: dict[str, Lines]) -> str:
    """Write one segment or type a line, so that a difference can be read."""
    kinds = []
    for kind, entries in content.items():
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(entries[name])}" for name in entries)
        kinds.append(f'"{kind}": {{\n{lines}\n}}')
    return "{" + ",\n".join(kinds) + "}\n"


if __name__ == "__main__":
    for file, text in generate().items():
        (FOLDER / file).write_text(text, encoding="ascii")
