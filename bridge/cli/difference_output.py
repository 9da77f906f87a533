"""Print which messages two versions of a definition map differently."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bridge.admin.definitions.comparison import compared, comparing, reader_of
from bridge.admin.definitions.drafts import chosen
from bridge.admin.definitions.samples import Sample, from_files, stored
from bridge.wiring.stores import bridge_database
from config import load
from mappings.authoring.comparison import FieldDifference


@dataclass(frozen=True, slots=True)
class Asked:
    """Which two versions, and which messages: files, else the last stored ones."""

    home: Path
    name: str
    before: str
    after: str
    files: tuple[Path, ...]
    last: int
    site: str
    orders: str


def show_differences(asked: Asked, *, as_json: bool) -> bool:
    """Compare, print, and tell whether anything differs."""
    settings = load(asked.home)
    with bridge_database(asked.home) as database:
        before, after = (
            chosen(settings, database, asked.name, word) for word in (asked.before, asked.after)
        )
        if asked.files:
            samples = from_files(asked.files, asked.site)
        else:
            samples = stored(settings, database, asked.name, asked.last)
        look = comparing(before, after, reader_of(settings, database, samples, asked.orders))
    differing = compared(samples, look).differing
    versions = {"before": before.version, "after": after.version}
    if as_json:
        told = _told(versions, len(samples), differing)
        print(json.dumps(told, ensure_ascii=False, indent=2))
    else:
        _show(versions, len(samples), differing)
    return bool(differing)


Differing = Sequence[tuple[Sample, Sequence[FieldDifference]]]


def _told(versions: dict[str, str], compared: int, differing: Differing) -> dict[str, Any]:
    messages = [
        {"message": sample.label, "differences": [asdict(each) for each in differences]}
        for sample, differences in differing
    ]
    return {**versions, "compared": compared, "differing": len(differing), "messages": messages}


def _show(versions: dict[str, str], compared: int, differing: Differing) -> None:
    for sample, differences in differing:
        print(sample.label)
        for each in differences:
            print(f"  {each.field}")
            print(f"    - {_line(each.before)}")
            print(f"    + {_line(each.after)}")
    print(
        f"{len(differing)} of {compared} messages differ "
        f"between {versions['before']} and {versions['after']}"
    )


def _line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " / ")
