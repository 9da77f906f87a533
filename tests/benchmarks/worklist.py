"""
The modality worklist beside orders: 50 modalities that ask every 30 s, and the ACKs meanwhile.

`--count` is the number of scheduled steps; the default of 5,000 is 100 for each modality, which
asks for its own. The client sends what pynetdicom sent once, so it needs little processor time. A
query counts from the connection to the final response, its first match from the query.
"""

import asyncio
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from pydicom import Dataset
from pydicom.uid import ExplicitVRLittleEndian
from pynetdicom import AE, evt
from pynetdicom.sop_class import (  # type: ignore[attr-defined]  # made at run time
    ModalityWorklistInformationFind,
)

from bridge.store.database import Database
from tests.acceptance.house import free_port
from tests.benchmarks.installation import DIALECTS, WHOLE, Postgres, installed
from tests.benchmarks.load import Run, drip, percentile
from tests.benchmarks.tables import Options, show
from tests.bridge.dicom.worklist_items import insert, make_item

STEPS, MODALITIES = 5000, 50
EVERY, SECONDS, PACE = 30.0, 120.0, 100.0
_RANDOM: Final = random.Random(7)
_ACCEPTED, _P_DATA, _RELEASE_RP = 2, 4, 6
_STATUS: Final = b"\x00\x00\x00\x09\x02\x00\x00\x00"
_PENDING: Final = (0xFF00, 0xFF01)


@dataclass
class Queries:
    """Seconds of all queries, and to their first matches; the number of answers."""

    whole: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    answers: int = 0


def main(folder: Path, options: Options) -> None:
    count = options.count or STEPS
    server = Postgres(folder / "postgres")
    try:
        rows = [
            [
                name,
                *_figures([_measure(folder, server, name, count) for _ in range(options.rounds)]),
            ]
            for name in DIALECTS
        ]
    finally:
        server.close()
    columns = (
        "database", "ACK p99 ms alone", "beside queries", "query p50 ms", "p99",
        "first match p50 ms", "p99", "answers",
    )  # fmt: skip
    title = (
        f"{MODALITIES} modalities, {count:,} steps, {PACE:.0f} orders/s, {options.rounds} rounds"
    )
    show(title, columns, rows)


def _figures(found: Sequence[tuple[Run, Run, Queries]]) -> list[str]:
    figures = (
        [alone.percentile(0.99) for alone, _, _ in found],
        [beside.percentile(0.99) for _, beside, _ in found],
        [percentile(queries.whole, 0.5) for _, _, queries in found],
        [percentile(queries.whole, 0.99) for _, _, queries in found],
        [percentile(queries.first, 0.5) for _, _, queries in found],
        [percentile(queries.first, 0.99) for _, _, queries in found],
    )
    answers = median(queries.answers for _, _, queries in found)
    return [*(f"{median(figure):.1f}" for figure in figures), f"{answers:.0f}"]


def _measure(folder: Path, server: Postgres, dialect: str, count: int) -> tuple[Run, Run, Queries]:
    port = free_port()
    titles = [f"MOD{number:02}" for number in range(MODALITIES)]
    peers = "".join(
        f'[[dicom.peer]]\nae_title = "{title}"\naddresses = ["127.0.0.1"]\n' for title in titles
    )
    settings = f'[dicom]\nbind = "127.0.0.1:{port}"\nmax_associations_per_source = 100\n{peers}'
    postgres = server if dialect == "PostgreSQL" else None
    with installed(folder, postgres, WHOLE, settings) as installation:
        house = installation.house
        database = Database(house.database or f"sqlite:///{house.home / 'bridge.db'}")
        insert(
            database,
            *(make_item(at, station=titles[at % MODALITIES]) for at in range(count)),
        )
        database.dispose()
        sent = {title: _record(port, title) for title in titles}
        alone = drip(house.mllp_port, PACE, SECONDS / 4, 0)
        queries = Queries()
        with _Asking(port, sent, queries):
            beside = drip(house.mllp_port, PACE, SECONDS, int(PACE * SECONDS / 4))
    return alone, beside, queries


def _record(port: int, title: str) -> list[bytes]:
    """Ask once with pynetdicom; return the PDUs that it sent."""
    query, step = Dataset(), Dataset()
    query.PatientName = query.PatientID = query.AccessionNumber = query.StudyInstanceUID = ""
    step.ScheduledStationAETitle = title
    step.ScheduledProcedureStepStartDate = "20261130"
    step.Modality = step.ScheduledProcedureStepStartTime = step.ScheduledProcedureStepID = ""
    query.ScheduledProcedureStepSequence = [step]
    found: list[bytes] = []

    def note(event: Any) -> None:
        found.append(bytes(event.data))

    entity = AE(title)
    entity.add_requested_context(ModalityWorklistInformationFind, ExplicitVRLittleEndian)
    association = entity.associate(
        "127.0.0.1", port, ae_title="REPORT_BRIDGE", evt_handlers=[(evt.EVT_DATA_SENT, note)]
    )
    assert association.is_established
    list(association.send_c_find(query, ModalityWorklistInformationFind))
    association.release()
    return found


class _Asking:
    """Modalities that ask on a thread of their own, each at its own time of the period."""

    def __init__(self, port: int, sent: dict[str, list[bytes]], queries: Queries) -> None:
        self._port, self._sent, self._queries = port, sent, queries

    def __enter__(self) -> None:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._ask_all()))
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    async def _ask_all(self) -> None:
        await asyncio.gather(*(self._repeat(pdus) for pdus in self._sent.values()))

    async def _repeat(self, pdus: list[bytes]) -> None:
        until = time.monotonic() + SECONDS
        await asyncio.sleep(_RANDOM.uniform(0, min(EVERY, SECONDS)))
        while time.monotonic() < until:
            await self._ask(pdus)
            await asyncio.sleep(EVERY)

    async def _ask(self, pdus: list[bytes]) -> None:
        request, *messages, release = pdus
        began = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(request)
        kind, _ = await _read(reader)
        assert kind == _ACCEPTED, kind
        asked = time.perf_counter()
        writer.write(b"".join(messages))
        is_first = True
        while (status := _status_of(*await _read(reader))) is None or status in _PENDING:
            if status is not None:
                self._queries.answers += 1
                if is_first:
                    self._queries.first.append(time.perf_counter() - asked)
                is_first = False
        assert status == 0, f"{status:04X}"
        self._queries.whole.append(time.perf_counter() - began)
        writer.write(release)
        kind, _ = await _read(reader)
        assert kind == _RELEASE_RP
        writer.close()


async def _read(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readexactly(6)
    return head[0], await reader.readexactly(int.from_bytes(head[2:], "big"))


def _status_of(kind: int, body: bytes) -> int | None:
    """Return the status of a response; None for a PDU without a command."""
    assert kind == _P_DATA, kind
    at = body.find(_STATUS)
    if not body[5] & 1 or at < 0:
        return None
    return int.from_bytes(body[at + len(_STATUS) : at + len(_STATUS) + 2], "little")
