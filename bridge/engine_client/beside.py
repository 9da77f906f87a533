"""
Calls to an application in this process, but for batches of launches while a second one runs.

A second process that does not answer, or answers that it cannot, is given up: what becomes of the
call is as it says, and the next ones are carried out here.
"""

from collections.abc import Callable
from typing import Protocol

from typing_extensions import override

from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.reports import BATCH
from bridge.engine_client.transport import Answer, Caller, Request

_FAULT = 500


class Second(Protocol):
    """The same engine in a second process, whether it runs or not."""

    @property
    def caller(self) -> Caller | None:
        """What carries requests to it; None while there is none."""

    def give_up(self) -> None:
        """End it at once: it is of no use."""

    async def aclose(self) -> None:
        """End it, once it has answered."""


class Beside(Caller):
    """Asks `own`; for batches of launches `second`, where it runs, and says `changed` then."""

    def __init__(self, own: Caller, second: Second, changed: Callable[[], None]) -> None:
        self._own = own
        self._second = second
        self._changed = changed

    @override
    async def ask(self, request: Request) -> Answer:
        second = self._second.caller if request.path == BATCH else None
        if second is None:
            return await self._own.ask(request)
        try:
            answer = await second.ask(request)
        except EngineFailure:
            self._second.give_up()
            raise
        finally:  # it may have been done without an answer
            self._changed()
        if answer.status >= _FAULT:
            self._second.give_up()
        return answer

    @override
    async def aclose(self) -> None:
        await self._second.aclose()
        await self._own.aclose()
