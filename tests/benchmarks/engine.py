"""The engine alone with stored reports: launches, the status of 500 orders, opening of links."""

import asyncio
import json
import statistics
import time
from pathlib import Path

import httpx

from tests.benchmarks.api import Caller, Line, identity, launch_body
from tests.benchmarks.filling import fill_engine
from tests.benchmarks.installation import DIALECTS, Installation, Postgres, installed
from tests.benchmarks.load import percentile
from tests.benchmarks.tables import Options, show

STOCK = 20_000
LAUNCHES = 500
CALLERS = 10
STATUSES = 40
LINKS = 60
LAUNCH = "/api/report/launch/clinical"


def _alone(line: Line, prefix: str) -> list[float]:
    """Launch sequentially; return seconds per launch."""
    bodies = (
        launch_body(f"{prefix}{number}", PatientName="DOE^JANE") for number in range(LAUNCHES)
    )
    return [line.post(LAUNCH, body)[1] for body in bodies]


async def _together(at: Installation, prefix: str) -> float:
    """Launch from several clients at once, each on one connection; return launches a second."""
    turns = LAUNCHES // CALLERS
    head = f"POST {LAUNCH} HTTP/1.1\r\nhost: engine\r\nx-access-token: {at.house.token}\r\n"

    def request(name: str) -> bytes:
        body = json.dumps(launch_body(name)).encode()
        more = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        return (head + more).encode() + body

    async def one(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.house.http_port)
        for each in [request(f"{prefix}{number}-{turn}") for turn in range(turns)]:
            writer.write(each)
            answer = (await reader.readuntil(b"\r\n\r\n")).lower()
            if not answer.startswith(b"http/1.1 200"):
                raise AssertionError("a launch was refused")
            _, _, length = answer.partition(b"content-length: ")
            await reader.readexactly(int(length.split(b"\r\n", 1)[0]))
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(one(number) for number in range(CALLERS)))
    return LAUNCHES / (time.perf_counter() - began)


def _statuses(caller: Caller, stock: int) -> float:
    """Return the median milliseconds for the status of 500 orders, spread over all."""
    numbers = range(1, stock + 1, max(1, stock // 500))
    orders = [identity(f"FA{number}", f"FM{number // 5}") for number in numbers][:500]
    body = {"clinicalInfo": orders}
    return statistics.median(caller.timed("/api/report/status", body) for _ in range(STATUSES))


def _links(at: Installation, caller: Caller) -> float:
    """Return the median milliseconds to open a link in a new browser."""
    links = []
    for number in range(LINKS):
        body = launch_body(f"L{number}", KeyFindings="Clear.")
        body["userInfo"] = {"UserEmail": "ada@example.org", "UserName": "Ada Reader"}
        links.append(caller.post(LAUNCH, body)["reportLink"])
    took = []
    with httpx.Client(timeout=60, headers={"connection": "keep-alive"}) as http:
        for link in links:
            http.cookies.clear()
            before = time.perf_counter()
            http.get(link).raise_for_status()
            took.append(1000 * (time.perf_counter() - before))
    return statistics.median(took)


def _turn(folder: Path, postgres: Postgres | None, stock: int) -> tuple[float, ...]:
    with installed(folder, postgres, (("engine",),)) as at:
        caller, line = Caller(at), Line(at)
        _alone(line, "W")
        fill_engine(at.house.home, stock)
        before = at.cpu()
        took = _alone(line, "A")
        cpu = (at.cpu() - before) / LAUNCHES
        rate = asyncio.run(_together(at, "T"))
        figures = (
            percentile(took, 0.5), percentile(took, 0.99), 1e6 * cpu, rate,
            _statuses(caller, stock), _links(at, caller),
        )  # fmt: skip
        caller.close()
        line.close()
    return figures


def main(folder: Path, options: Options) -> None:
    """Measure on both databases, in turn, and print."""
    server, stock = Postgres(folder / "postgres"), options.count or STOCK
    found: dict[str, list[tuple[float, ...]]] = {}
    try:
        for _ in range(options.rounds):
            for dialect in DIALECTS:
                postgres = server if dialect == "PostgreSQL" else None
                found.setdefault(dialect, []).append(_turn(folder, postgres, stock))
    finally:
        server.close()
    rows = [
        (
            dialect,
            f"{stock:,}",
            *(f"{statistics.median(each):.1f}" for each in zip(*turns, strict=True)),
        )
        for dialect, turns in found.items()
    ]
    columns = (
        "database", "stored reports", "launch p50 ms", "p99 ms", "CPU µs",
        f"launches/s, {CALLERS} callers", "status of 500, ms", "link opens, ms",
    )  # fmt: skip
    show(f"the engine, medians of {options.rounds} rounds", columns, rows)
