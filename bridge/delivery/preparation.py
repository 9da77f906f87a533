"""
Prepare deliveries for sending: claim them, compose each message once, and store it.

Deliveries that are claimed together share their look-ups, the call to the report service and the
commit. A message that cannot be composed or stored becomes an outcome of its own delivery.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from bridge.delivery.appraisal import Appraiser, given_up, not_composed
from bridge.delivery.composer import Composer, Draft, Known, draft_of
from bridge.delivery.destinations import Destination
from bridge.delivery.errors import CompositionError
from bridge.delivery.report_texts import Content, ReportTexts
from bridge.engine_client.errors import EngineFailure
from bridge.errors import FailureKind
from bridge.executors import Threads
from bridge.queue.deliveries import ClaimedDelivery, DeliveryOutcome
from bridge.queue.outbox import Outbox
from bridge.store.errors import StoreError, StoreUnavailable

Prepared = tuple[ClaimedDelivery, bytes | DeliveryOutcome]
"""A delivery with the bytes to send, or with why there are none."""

Claimed = tuple[Sequence[ClaimedDelivery], Mapping[int, Known]]
"""What was claimed, and what is known of those that are not composed yet, by their ids."""

_Message = tuple[bytes, str]
"""A message and its control id."""


class Preparation:
    """Claims, composes and stores for one courier."""

    def __init__(
        self,
        composer: Composer,
        texts: ReportTexts,
        outbox: Outbox,
        appraiser: Appraiser,
        alarm: Callable[[str, Exception], None],
    ) -> None:
        """`alarm` is told, in words, of what nobody foresaw."""
        self._composer = composer
        self._texts = texts
        self._outbox = outbox
        self._appraiser = appraiser
        self._alarm = alarm

    async def claim(self, destination: Destination, now: int, most: int) -> Claimed:
        """Claim up to `most` deliveries, and look up what their messages need. StoreError."""
        return await Threads.DELIVERY.run(self._claim, destination, now, most)

    def _claim(self, destination: Destination, now: int, most: int) -> Claimed:
        claimed = self._outbox.claim(destination.name, now, most)
        fresh = [each for each in claimed if each.payload is None]
        try:
            return claimed, self._composer.look_up(fresh, destination) if fresh else {}
        except StoreError:
            return claimed, {}

    async def compose(self, claim: Claimed, destination: Destination) -> list[Prepared]:
        """Give the bytes to send, in order: those of the first attempt, if there was one."""
        claimed, known = claim
        given: dict[int, bytes | DeliveryOutcome] = {}
        drafts: list[Draft] = []
        for each in claimed:
            if each.payload is not None:
                given[each.delivery_id] = each.payload
            elif each.delivery_id not in known:
                given[each.delivery_id] = self._unstored(each)
            else:
                try:
                    drafts.append(draft_of(each, known[each.delivery_id], destination))
                except CompositionError as error:
                    given[each.delivery_id] = not_composed(each, error)
        if drafts:
            given |= await self._composed(drafts)
        return [(each, given[each.delivery_id]) for each in claimed]

    async def _composed(self, drafts: Sequence[Draft]) -> dict[int, bytes | DeliveryOutcome]:
        """Read the texts; write slow messages on threads of their own, and all others on one."""
        contents = await self._texts.read(drafts)
        given: dict[int, bytes | DeliveryOutcome] = {}
        ready: list[tuple[Draft, Content]] = []
        for draft, content in zip(drafts, contents, strict=True):
            if isinstance(content, Content):
                ready.append((draft, content))
            else:
                given[draft.delivery.delivery_id] = self._failed(draft, content)
        slow = [each for each in ready if each[0].mapping.takes_long]
        written = await asyncio.gather(*(Threads.HOOKS.run(self._write, *each) for each in slow))
        messages = {
            draft.delivery.delivery_id: one for (draft, _), one in zip(slow, written, strict=True)
        }
        quick = [each for each in ready if not each[0].mapping.takes_long]
        return given | await Threads.DELIVERY.run(self._finish, quick, messages, drafts)

    def _finish(
        self,
        quick: Sequence[tuple[Draft, Content]],
        written: Mapping[int, _Message | DeliveryOutcome],
        drafts: Sequence[Draft],
    ) -> dict[int, bytes | DeliveryOutcome]:
        """Write messages, then store these and those that are written. Blocking."""
        every = {
            **written,
            **{draft.delivery.delivery_id: self._write(draft, said) for draft, said in quick},
        }
        messages = {each: one for each, one in every.items() if isinstance(one, tuple)}
        failed = {each: one for each, one in every.items() if isinstance(one, DeliveryOutcome)}
        of = {draft.delivery.delivery_id: draft.delivery for draft in drafts}
        return {**failed, **self._store(messages, of)}

    def _write(self, draft: Draft, content: Content) -> _Message | DeliveryOutcome:
        try:
            return self._composer.write(draft, content.export, content.files)
        except Exception as error:  # noqa: BLE001  # of this delivery; the others go on
            return self._failed(draft, error)

    def _failed(self, draft: Draft, error: BaseException) -> DeliveryOutcome:
        match error:
            case EngineFailure():
                return self._appraiser.postponed(
                    draft.delivery, error.failure, error.code, error.retry_after
                )
            case CompositionError():
                return not_composed(draft.delivery, error)
            case Exception():  # a person must see it
                self._alarm("not composed", error)
                return given_up(draft.delivery, "not_composed")
            case _:
                raise error

    def _store(
        self, messages: Mapping[int, _Message], of: Mapping[int, ClaimedDelivery]
    ) -> dict[int, bytes | DeliveryOutcome]:
        """Store messages in one transaction; where one of them stands in the way, each alone."""
        if not messages:
            return {}
        try:
            kept = self._outbox.store_payloads(messages)
        except StoreUnavailable:
            return {each: self._unstored(of[each]) for each in messages}
        except StoreError:
            if len(messages) == 1:
                return {each: self._unstored(of[each]) for each in messages}
            alone = [self._store({each: one}, of) for each, one in messages.items()]
            return {each: sent for one in alone for each, sent in one.items()}
        return {each: kept.get(each) or given_up(of[each], "not_composed") for each in messages}

    def _unstored(self, delivery: ClaimedDelivery) -> DeliveryOutcome:
        return self._appraiser.postponed(delivery, FailureKind.TRANSIENT, "store", None)
