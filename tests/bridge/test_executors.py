"""Named thread pools with bounded queues do not block each other, and all of them end."""

import ast
import asyncio
import threading
from pathlib import Path

import pytest

import bridge
from bridge.delivery.dicom_sender import PACS
from bridge.engine.http.engine_state import EngineState
from bridge.engine.settings import EngineSettings
from bridge.executors import (
    CONSOLE_THREADS,
    DELIVERIES,
    SLOW_MAPPINGS,
    ConcurrencyLimit,
    PoolFull,
    ThreadLimit,
    Threads,
    close_all,
)
from bridge.intake.receive.handler import LARGE_FRAMES
from bridge.intake.validation.validator import VALIDATIONS
from bridge.monitoring.connection_probe import FOLDER_TESTS
from bridge.store.database import Database
from bridge.transports.folders import FOLDERS
from bridge.web.bodies import LARGE_JSON
from tests.eventually import eventually_async

SOURCE = Path(bridge.__file__).parent
OWN_EXECUTORS = {
    "executors.py",
    "runtime/loop.py",
    "engine/live/database_executor.py",
}
DEFAULT = {
    "to_thread",
    "deferToThread",
    "callInThread",
    "run_in_threadpool",
    "iterate_in_threadpool",
}


async def test_a_full_pool_blocks_no_other() -> None:
    """A pool whose threads are all busy does not delay the health check."""
    stuck = threading.Event()
    pool = Threads.WEB
    many = [asyncio.ensure_future(pool.run(stuck.wait)) for _ in range(pool.size + pool.waiting)]
    await asyncio.sleep(0)
    try:
        with pytest.raises(PoolFull):
            await pool.run(print)
        assert await Threads.LEASES.run(lambda: "asked") == "asked"
    finally:
        stuck.set()
        await asyncio.gather(*many)
    assert await pool.run(lambda: "room") == "room"


async def test_results_and_errors() -> None:
    """A pool returns results and errors, and keeps the context of its caller."""
    with pytest.raises(ZeroDivisionError):
        await Threads.WEB.run(lambda: 1 // 0)


async def test_all_pools_end_and_can_begin_anew() -> None:
    """`close_all` ends all threads. The pools can start again."""
    await asyncio.gather(*(pool.run(lambda: None) for pool in Threads))
    labels = tuple(pool.label for pool in Threads)
    assert any(thread.name.startswith(labels) for thread in threading.enumerate())
    close_all()
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith(labels)]
    assert await Threads.LEASES.run(lambda: 1) == 1


async def test_no_kind_of_work_waits_for_another(tmp_path: Path) -> None:
    """Each kind has a thread while all others of its pool occupy all threads that they may."""
    engine = EngineState(
        EngineSettings((("1", bytes(32)),)), Database(f"sqlite:///{tmp_path}/engine.db"), lambda: 0
    )
    received = (SLOW_MAPPINGS, LARGE_FRAMES, VALIDATIONS, FOLDERS, Threads.EXTERNAL)
    delivered = (SLOW_MAPPINGS, FOLDERS, FOLDER_TESTS, PACS, Threads.EXTERNAL)
    web = (CONSOLE_THREADS, LARGE_JSON, engine.documents, engine.exports, engine.hashing)
    applied = (DELIVERIES, Threads.MESSAGES)
    for kinds in (received, delivered, web, applied):
        for kind in kinds:
            stuck = threading.Event()
            others = [
                asyncio.ensure_future(other.run(stuck.wait))
                for other in kinds
                if other is not kind and not isinstance(other, Threads)
                for _ in range(18)
            ]
            await asyncio.sleep(0)
            try:
                assert await kind.run(lambda: "done") == "done"
            finally:
                stuck.set()
                await asyncio.gather(*others)


async def test_work_keeps_its_place_until_it_ends() -> None:
    """If callers give up, further work does not occupy more threads."""
    limit = ThreadLimit(Threads.JOBS, "test", 1, 0)
    stuck, begun = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        stuck.wait()

    given_up = asyncio.ensure_future(limit.run(work))
    await eventually_async(begun.is_set)
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    with pytest.raises(PoolFull):
        await limit.run(work)
    stuck.set()
    await eventually_async(lambda: limit.free == 1)
    await limit.run(work)


async def test_a_gate_lets_few_wait() -> None:
    """A gate refuses callers beyond its queue at once. A cancelled caller frees its slot."""
    gate, leave = ConcurrencyLimit("test", 1, 2), asyncio.Event()

    async def enter() -> None:
        async with gate.entered():
            await leave.wait()

    inside = [asyncio.ensure_future(enter()) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(PoolFull):
        await enter()
    inside.pop().cancel()
    await asyncio.sleep(0)
    inside.append(asyncio.ensure_future(enter()))
    leave.set()
    await asyncio.gather(*inside)
    await enter()


def _calls(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    found = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return found | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def test_the_default_executor_is_not_used() -> None:
    """All blocking work names its pool."""
    modules = [path for path in SOURCE.rglob("*.py") if "demo" not in path.parts]
    used = {
        str(module.relative_to(SOURCE)): sorted(_calls(module) & DEFAULT)
        for module in modules
        if _calls(module) & DEFAULT
    }
    assert used == {}
    own = {
        str(module.relative_to(SOURCE))
        for module in modules
        if "ThreadPoolExecutor" in _calls(module)
    }
    assert own == OWN_EXECUTORS


def test_no_endpoint_is_a_plain_function() -> None:
    """FastAPI would run a plain function on shared threads."""
    endpoints = [
        (path.name, node.name)
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call)
        and isinstance(decorator.func, ast.Attribute)
        and decorator.func.attr in {"get", "post", "put", "patch", "delete", "api_route"}
    ]
    assert endpoints == []
