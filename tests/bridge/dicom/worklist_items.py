"""Worklist items of the tests, and the rows of their steps."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from bridge.contract import OrderKey
from bridge.store.database import Database
from bridge.store.records.scheduled_steps import (
    NO_STATUS,
    ScheduledStep,
    StepStatus,
    replace_all,
)

YAMADA = {"Alphabetic": "Yamada^Tarou", "Ideographic": "山田^太郎", "Phonetic": "やまだ^たろう"}
HONG = {"Alphabetic": "Hong^Gildong", "Ideographic": "洪^吉洞", "Phonetic": "홍^길동"}
JEROME = {"Alphabetic": "Buc^Jérôme"}
WANG = {"Alphabetic": "Wang^XiaoDong", "Ideographic": "王^小东"}


def element(vr: str, *values: Any) -> dict[str, Any]:
    return {"vr": vr, "Value": list(values)} if values else {"vr": vr}


def make_item(
    number: int = 1,
    *,
    name: Mapping[str, str] | None = None,
    modality: str = "CT",
    station: str | None = "CT1",
    location: str | None = "ROOM 3",
    day: str = "20261130",
    time: str = "083000",
    status: str = "SCHEDULED",
    **more: dict[str, Any],
) -> dict[str, Any]:
    """Return an item; `more` are elements by tag, as `T00101030`."""
    step = {
        "00080060": element("CS", modality),
        "00400001": element("AE", *([station] if station else [])),
        "00400002": element("DA", day),
        "00400003": element("TM", time),
        "00400007": element("LO", "CT head"),
        "00400009": element("SH", f"S{number}"),
        "00400011": element("SH", *([location] if location else [])),
        "00400020": element("CS", status),
    }
    code = {
        "00080100": element("SH", "CTHEAD"),
        "00080102": element("SH", "99LOCAL"),
        "00080104": element("LO", "CT head"),
    }
    return {
        "00080050": element("SH", f"A{number}"),
        "00080090": element("PN", {"Alphabetic": "Referrer^Ann"}),
        "00100010": element("PN", dict(name or {"Alphabetic": "Doe^Jane"})),
        "00100020": element("LO", f"P{number}"),
        "00100030": element("DA", "19700101"),
        "00100040": element("CS", "F"),
        "0020000D": element("UI", f"2.25.{number}"),
        "00321060": element("LO", "CT head"),
        "00321064": element("SQ", code),
        "00401001": element("SH", f"R{number}"),
        "00400100": element("SQ", step),
        **{tag.removeprefix("T"): value for tag, value in more.items()},
    }


def insert(
    database: Database,
    *items: dict[str, Any],
    sites: Sequence[str] = ("SITE1",),
    status: StepStatus | None = None,
) -> None:
    """Store the steps of items, each the only one of an order."""
    with database.write() as connection:
        for at, item in enumerate(items):
            (mrn,), (accession,) = item["00100020"]["Value"], item["00080050"]["Value"]
            key = OrderKey(sites[at % len(sites)], mrn, accession)
            replace_all(connection, {key: [row_of(key, item, status)]})


def row_of(key: OrderKey, item: dict[str, Any], status: StepStatus | None = None) -> ScheduledStep:
    (step,) = item["00400100"]["Value"]

    def first(tag: str, source: Mapping[str, Any] = step) -> str:
        return str(next(iter(source.get(tag, {}).get("Value", ())), ""))

    stored = json.dumps(item, ensure_ascii=False, separators=(",", ":"))
    if "00400020" in step:  # a stored item has no status
        value = json.dumps(step["00400020"], separators=(",", ":"))
        stored = stored.replace(f'"00400020":{value}', NO_STATUS, 1)

    return ScheduledStep(
        key,
        1,
        first("00400009"),
        first("0020000D", item),
        status or StepStatus(first("00400020")),
        first("00080060"),
        tuple(step["00400001"].get("Value", ())),
        first("00400011"),
        int(first("00400002")) if first("00400002") else None,
        first("00400003"),
        stored,
        0,
    )
