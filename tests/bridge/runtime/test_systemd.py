"""Notifications to systemd."""

import asyncio
import socket
from pathlib import Path

from bridge.metrics import Metrics
from bridge.runtime.schedule import Schedule
from bridge.runtime.service import ALIVE, READY, STOPPING, SystemdNotifier
from tests.eventually import PATIENCE


async def test_watchdog_notifications(tmp_path: Path) -> None:
    """The service sends ready, alive twice per limit unless the loop is blocked, and stopping."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.setblocking(False)
        loop = asyncio.get_running_loop()
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "40000"}
        schedule = Schedule(Metrics())
        notifier = SystemdNotifier(environment, schedule)
        await notifier.begin()
        notifications = [
            await asyncio.wait_for(loop.sock_recv(systemd, 99), PATIENCE) for _ in range(4)
        ]
        notifier.stopping()
        while (
            notification := await asyncio.wait_for(loop.sock_recv(systemd, 99), PATIENCE)
        ) == ALIVE:
            pass
        await notifier.end()

    assert notifications == [READY, ALIVE, ALIVE, ALIVE]
    assert notification == STOPPING


async def test_without_systemd(tmp_path: Path) -> None:
    """Without a socket, or with a closed one, the service works."""
    for environment in ({}, {"NOTIFY_SOCKET": str(tmp_path / "gone"), "WATCHDOG_USEC": "20000"}):
        schedule = Schedule(Metrics())
        notifier = SystemdNotifier(environment, schedule)
        await notifier.begin()
        notifier.stopping()
        await notifier.end()


async def test_without_an_answer_of_the_service_process(tmp_path: Path) -> None:
    """The watchdog is not notified while the other process does not answer."""
    asked: asyncio.Queue[None] = asyncio.Queue()

    def is_alive() -> bool:
        asked.put_nowait(None)
        return False

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.setblocking(False)
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "20000"}
        notifier = SystemdNotifier(environment, Schedule(Metrics()), is_alive)
        await notifier.begin()
        for _ in range(3):
            await asyncio.wait_for(asked.get(), PATIENCE)
        notifier.stopping()
        await notifier.end()
        received = [systemd.recv(99) for _ in range(2)]

    assert received == [READY, STOPPING]
