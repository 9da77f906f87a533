"""Engines in separate processes, with real sockets, clock and database. Quotas are off."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

import httpx
import uvicorn

from bridge import index_key
from bridge.engine.http.engine_application import create_application
from bridge.engine.settings import EngineSettings, RateLimits
from bridge.quotas import Quota
from bridge.store.database import Database
from tests.eventually import PATIENCE, eventually
from tests.processes import FORKED
from tests.trust import TRUSTED

ROOT = Path(__file__).parents[3]


def now() -> int:
    """Return the time in milliseconds."""
    return time.time_ns() // 1_000_000


async def serve(url: str, port: int, key: bytes) -> None:
    """Serve until the process ends."""
    off = Quota(0)
    settings = EngineSettings(
        link_keys=(("1", key),),
        public_url=f"http://127.0.0.1:{port}",
        rates=RateLimits(off, off, off, off),
    )
    application = create_application(settings, Database(url), clock=now)
    await application.state.engine.start()
    await uvicorn.Server(uvicorn.Config(application, port=port, log_level="warning")).serve()
    await application.state.engine.stop()


@contextmanager
def running(url: str, ports: Sequence[int], key: bytes) -> Iterator[list[str]]:
    """Run nodes on one database; yield their addresses when they are ready."""
    with ExitStack() as stack:
        processes = []
        for port in ports:
            process = FORKED.Process(target=_run, args=(url, port, key), daemon=True)
            process.start()
            stack.callback(process.join)
            stack.callback(process.terminate)
            processes.append(process)
        addresses = [f"http://127.0.0.1:{port}" for port in ports]
        for pair in zip(addresses, processes, strict=True):
            _wait(*pair)
        yield addresses


def _run(url: str, port: int, key: bytes) -> None:
    index_key.install(bytes(range(index_key.KEY_BYTES)))
    asyncio.run(serve(url, port, key))


def _wait(address: str, process: BaseProcess) -> None:
    def is_ready() -> bool:
        assert process.exitcode is None, "the node ended"
        try:
            return httpx.get(f"{address}/readyz", timeout=PATIENCE, verify=TRUSTED).is_success
        except httpx.HTTPError:
            return False

    eventually(is_ready)
