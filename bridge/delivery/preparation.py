"""
Prepare messages for sending: compose each once, and store it before it is sent.

Messages that are composed together share their look-ups and their commit. A message that cannot be
composed or stored becomes an outcome of its own delivery.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from bridge.delivery.appraisal import Appraiser, given_up, not_composed
from bridge.delivery.composer import Composer, Known
from bridge.delivery.destinations import Destination
from bridge.delivery.errors import CompositionError
from bridge.engine_client.errors import EngineFailure
from bridge.executors import Threads
from bridge.queue.deliveries import ClaimedDelivery, DeliveryOutcome
from bridge.queue.errors import NoSuchRow
from bridge.queue.outbox import Outbox
from bridge.queue.states import Failure
from bridge.store.errors import StoreError, StoreUnavailable

_Written = tuple[bytes, str]
"""A message and its control id."""


class Preparation:
    """Composes and stores the messages of one courier."""

    def __init__(
        self,
        composer: Composer,
        outbox: Outbox,
        appraiser: Appraiser,
        alarm: Callable[[str, Exception], None],
    ) -> None:
        """`alarm` is told, in words, of what nobody foresaw."""
        self._composer = composer
        self._outbox = outbox
        self._appraiser = appraiser
        self._alarm = alarm

    async def prepare(
        self, claimed: Sequence[ClaimedDelivery], destination: Destination
    ) -> list[bytes | DeliveryOutcome]:
        """Give the bytes to send, in order: those of the first attempt, if there was one."""
        given: dict[int, bytes | DeliveryOutcome] = {
            each.delivery_id: each.payload for each in claimed if each.payload is not None
        }
        fresh = {each.delivery_id: each for each in claimed if each.payload is None}
        if fresh:
            given |= await self._compose(fresh, destination)
        return [given[each.delivery_id] for each in claimed]

    async def _compose(
        self, fresh: Mapping[int, ClaimedDelivery], destination: Destination
    ) -> dict[int, bytes | DeliveryOutcome]:
        try:
            known = await Threads.DELIVERY.run(
                self._composer.look_up, list(fresh.values()), destination
            )
        except StoreError:
            return {number: self._unstored(each) for number, each in fresh.items()}
        composed = await asyncio.gather(
            *(
                self._compose_one(each, known[each.delivery_id], destination)
                for each in fresh.values()
            )
        )
        written: dict[int, _Written] = {}
        failed: dict[int, bytes | DeliveryOutcome] = {}
        for number, one in zip(fresh, composed, strict=True):
            if isinstance(one, DeliveryOutcome):
                failed[number] = one
            else:
                written[number] = one
        return {**failed, **await self._keep(written, fresh)}

    async def _compose_one(
        self, delivery: ClaimedDelivery, known: Known, destination: Destination
    ) -> _Written | DeliveryOutcome:
        try:
            return await self._composer.compose(delivery, known, destination)
        except EngineFailure as failure:
            return self._appraiser.postponed(
                delivery, failure.failure, failure.code, failure.retry_after
            )
        except CompositionError as error:
            return not_composed(delivery, error)
        except Exception as error:  # noqa: BLE001  # a person must see it; the others go on
            self._alarm("not composed", error)
            return given_up(delivery, "not_composed")

    async def _keep(
        self, written: Mapping[int, _Written], of: Mapping[int, ClaimedDelivery]
    ) -> dict[int, bytes | DeliveryOutcome]:
        """Keep messages in one transaction; where one of them stands in the way, each alone."""
        if not written:
            return {}
        try:
            kept = await Threads.DELIVERY.run(self._outbox.store_payloads, written)
        except StoreUnavailable:
            return {number: self._unstored(of[number]) for number in written}
        except StoreError:
            alone = [self._keep_one(of[number], one) for number, one in written.items()]
            return dict(zip(written, await asyncio.gather(*alone), strict=True))
        return {
            number: kept.get(number) or given_up(of[number], "not_composed") for number in written
        }

    async def _keep_one(
        self, delivery: ClaimedDelivery, written: _Written
    ) -> bytes | DeliveryOutcome:
        try:
            kept = await Threads.DELIVERY.run(
                self._outbox.store_payload, delivery.delivery_id, *written
            )
        except NoSuchRow:
            return given_up(delivery, "not_composed")
        except StoreError:
            return self._unstored(delivery)
        return kept[0]

    def _unstored(self, delivery: ClaimedDelivery) -> DeliveryOutcome:
        return self._appraiser.postponed(delivery, Failure.TRANSIENT, "store", None)
