"""The calls that a message leads to, which are stored with it and shown to operators."""

from collections.abc import Sequence
from time import perf_counter
from typing import Final

from bridge.contract.responses import LaunchResponse
from bridge.engine_client.client import LaunchRequest
from bridge.engine_client.errors import EngineFailure
from bridge.intake.process.worklist import Launching
from bridge.queue.notes import EngineCall
from mappings.inbound.events import OrderEvent

MAX_CALLS: Final = 100
"""Calls of one message that are noted."""

_OK: Final = 200


class EngineCalls:
    """
    Notes the calls of one message.

    A launch may share its HTTP request with those of other messages, so it is noted here, with the
    time until its own result. `add` notes the other calls.
    """

    def __init__(self, launcher: Launching, events: Sequence[OrderEvent]) -> None:
        self.made: list[EngineCall] = []
        self._launcher = launcher
        self._events = events

    def add(self, path: str, status: int | None, code: str, seconds: float) -> None:
        """Note a call that has ended; the client reports it."""
        self._add(path.removeprefix("/api/").removeprefix("report/"), "", status, code, seconds)

    async def launch(self, launch: LaunchRequest) -> LaunchResponse:
        """Launch a report, as `Launcher.launch`."""
        begun = perf_counter()
        try:
            response = await self._launcher.launch(launch)
        except EngineFailure as failure:
            place = self._place_of(launch)
            self._add("launch", place, failure.status, failure.code, perf_counter() - begun)
            raise
        self._add("launch", self._place_of(launch), _OK, "", perf_counter() - begun)
        return response

    def _add(self, call: str, place: str, status: int | None, code: str, seconds: float) -> None:
        if len(self.made) < MAX_CALLS:
            self.made.append(EngineCall(call, place, status or 0, code, round(seconds * 1000)))

    def _place_of(self, launch: LaunchRequest) -> str:
        """Return the place of a launched order; '' if the message does not name it."""
        if len(self.made) >= MAX_CALLS:  # a search for each of many orders would take long
            return ""
        accession = launch.clinical_info.get("Accession")
        return next((event.place for event in self._events if event.accession == accession), "")
