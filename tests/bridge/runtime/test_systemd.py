"""Notifications to systemd."""

import asyncio
import socket
from pathlib import Path

import pytest

from bridge.metrics import Metrics
from bridge.runtime.schedule import Schedule
from bridge.runtime.service import ALIVE, READY, STOPPING, SystemdNotifier
from tests.eventually import PATIENCE

pytestmark = pytest.mark.anyio


async def test_watchdog_notifications(tmp_path: Path) -> None:
    """Ready, alive twice per limit, and stopping; nothing while the event loop is blocked."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.setblocking(False)
        loop = asyncio.get_running_loop()
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "40000"}
        schedule = Schedule(Metrics())
        await schedule.start()
        told = SystemdNotifier(environment, schedule)
        await told.begin()
        heard = [await asyncio.wait_for(loop.sock_recv(systemd, 99), PATIENCE) for _ in range(4)]
        told.stopping()
        while (word := await asyncio.wait_for(loop.sock_recv(systemd, 99), PATIENCE)) == ALIVE:
            pass
        await told.end()
        await schedule.stop()

    assert heard == [READY, ALIVE, ALIVE, ALIVE]
    assert word == STOPPING


async def test_without_systemd(tmp_path: Path) -> None:
    """Without a socket, or with a closed one, the service works."""
    for environment in ({}, {"NOTIFY_SOCKET": str(tmp_path / "gone"), "WATCHDOG_USEC": "20000"}):
        schedule = Schedule(Metrics())
        await schedule.start()
        told = SystemdNotifier(environment, schedule)
        await told.begin()
        told.stopping()
        await told.end()
        await schedule.stop()
