"""
The couriers of one process, one for each destination that is on, as the settings change.

One whose settings changed ends before another begins in its place, so that what it had in hand is
given back and sent in its turn. Makes no connection by itself: it is given what does.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import structlog

from bridge.delivery.courier import Courier
from bridge.delivery.destinations import Destination
from bridge.errors import BridgeError
from bridge.observability.redaction import describe
from bridge.runtime.switchboard import Switchboard
from config.sections import Destination as WrittenDestination
from mllp.errors import TLSConfigurationError

Make = Callable[[Destination, WrittenDestination], Courier]


class Receivers(NamedTuple):
    """The destinations that are on, as compiled and as written, and which of them are paused."""

    compiled: Sequence[Destination]
    written: Mapping[str, WrittenDestination]
    paused: Collection[str]


class Couriers:
    """Starts, exchanges and ends them; on the event loop's thread."""

    def __init__(self, make: Make) -> None:
        """`make` connects one; raises BridgeError or TLSConfigurationError where it cannot."""
        self._log = structlog.get_logger("couriers")
        self._make = make
        self._written: dict[str, WrittenDestination] = {}
        self.troubles: dict[str, str] = {}
        """Why some are not connected, by their destinations."""
        self.named: dict[str, Courier] = {}
        """Those there are, by their destinations."""

    def __iter__(self) -> Iterator[Courier]:
        """Give those there are."""
        return iter(list(self.named.values()))

    def begin(self, found: Receivers, must: Collection[WrittenDestination]) -> None:
        """Make the first ones, started later; raises for one of `must`."""
        for each in found.compiled:
            written = found.written[each.name]
            if written in must:
                self._join(each, written)
            else:
                self._joined(each, written)

    async def adopt(self, found: Receivers, board: Switchboard) -> None:
        """Go on with other destinations; `troubles` names those that could not be connected."""
        gone = [
            name for name, written in self._written.items() if found.written.get(name) != written
        ]
        await asyncio.gather(*(self._end(name, board) for name in gone))
        self.troubles = {n: why for n, why in self.troubles.items() if n in found.written}
        for each in found.compiled:
            if each.name in self.named:
                self.named[each.name].adopt(each)
            elif self._joined(each, found.written[each.name]):
                board.connect(each.name, self.named[each.name], paused=each.name in found.paused)
                self.named[each.name].start()
                self._log.info("connected", destination=each.name)

    async def _end(self, name: str, board: Switchboard) -> None:
        courier = self.named.pop(name)
        del self._written[name]
        board.disconnect(name)
        await courier.stop()
        self._log.info("ended", destination=name)

    def _joined(self, destination: Destination, written: WrittenDestination) -> bool:
        """Make one; tell whether that went well, and say once why not."""
        try:
            self._join(destination, written)
        except (BridgeError, TLSConfigurationError) as error:
            if destination.name not in self.troubles:
                reason = describe(error)
                self._log.error("not connected", destination=destination.name, error=reason)
            self.troubles[destination.name] = str(error)
            return False
        self.troubles.pop(destination.name, None)
        return True

    def _join(self, destination: Destination, written: WrittenDestination) -> None:
        self.named[destination.name] = self._make(destination, written)
        self._written[destination.name] = written
