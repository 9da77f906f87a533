"""
Tell whoever started us that we are ready, that we end, and that the loop still turns.

As systemd hears it (sd_notify(3)): datagrams to the socket that `NOTIFY_SOCKET` names, as often as
`WATCHDOG_USEC` asks for. Where nobody asks, nobody is told.
"""

import socket
from collections.abc import Mapping
from contextlib import suppress

from bridge.runtime.schedule import Job, Schedule
from bridge.runtime.step import Step

READY, STOPPING, ALIVE = b"READY=1", b"STOPPING=1", b"WATCHDOG=1"


class Supervisor:
    """Who is told, by the environment that we were started in."""

    def __init__(self, environment: Mapping[str, str], schedule: Schedule) -> None:
        name = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + name[1:] if name.startswith("@") else name
        limit = environment.get("WATCHDOG_USEC", "")
        self._every = int(limit) / 2_000_000 if limit.isdigit() else 0.0
        self._watchdog: Step | None = None
        if self._address and self._every:
            self._watchdog = schedule.periodic(Job.WATCHDOG, self._beat, every=self._every)

    async def begin(self) -> None:
        """Tell that all has started, and from now on that the loop turns."""
        self._tell(READY)
        if self._watchdog is not None:
            await self._watchdog.start()

    def stopping(self) -> None:
        """Tell that we are about to end; that the loop turns is told until `end`."""
        self._tell(STOPPING)

    async def end(self) -> None:
        """Tell no more."""
        if self._watchdog is not None:
            await self._watchdog.stop()

    async def _beat(self) -> None:
        self._tell(ALIVE)

    def _tell(self, word: bytes) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.setblocking(False)
            to.sendto(word, self._address)
