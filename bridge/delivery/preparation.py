"""
Preparation: claims deliveries, composes each message once, and stores it before it is sent.

Deliveries that are claimed together share database reads, the call to the report service and the
commit. A failure to compose or store a message becomes the outcome of its own delivery.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from bridge.delivery.composer import Composer, DeliveryContext, MessageDraft, make_draft
from bridge.delivery.destinations import CompiledDestination
from bridge.delivery.errors import CompositionError
from bridge.delivery.outcome_policy import OutcomePolicy, give_up, outcome_without_message
from bridge.delivery.report_texts import ReportContent, ReportTexts
from bridge.engine_client.errors import EngineFailure
from bridge.errors import FailureKind
from bridge.executors import Threads
from bridge.queue.deliveries import ClaimedDelivery, DeliveryOutcome
from bridge.queue.outbox import Outbox
from bridge.store.errors import StoreError, StoreUnavailable

PreparedDelivery = tuple[ClaimedDelivery, bytes | DeliveryOutcome]
"""A delivery with the bytes to send, or with its outcome if there are none."""

ClaimedBatch = tuple[Sequence[ClaimedDelivery], Mapping[int, DeliveryContext]]
"""Claimed deliveries, and the contexts of those without a stored message, by delivery id."""

_Message = tuple[bytes, str]
"""A message and its control id."""


class Preparation:
    """Prepares the deliveries of one courier."""

    def __init__(
        self,
        composer: Composer,
        texts: ReportTexts,
        outbox: Outbox,
        outcome_policy: OutcomePolicy,
        on_error: Callable[[str, Exception], None],
    ) -> None:
        """`on_error` is called with unexpected errors."""
        self._composer = composer
        self._texts = texts
        self._outbox = outbox
        self._outcome_policy = outcome_policy
        self._on_error = on_error

    async def claim(self, destination: CompiledDestination, now: int, most: int) -> ClaimedBatch:
        """Claim up to `most` deliveries and read their contexts. Raises StoreError."""
        return await Threads.DELIVERY.run(self._claim, destination, now, most)

    def _claim(self, destination: CompiledDestination, now: int, most: int) -> ClaimedBatch:
        claimed = self._outbox.claim(destination.name, now, most)
        fresh = [each for each in claimed if each.payload is None]
        try:
            return claimed, self._composer.look_up(fresh, destination) if fresh else {}
        except StoreError:
            return claimed, {}

    async def compose(
        self, claim: ClaimedBatch, destination: CompiledDestination
    ) -> list[PreparedDelivery]:
        """Return deliveries with the bytes to send, in order; a retry has the stored bytes."""
        claimed, known = claim
        given: dict[int, bytes | DeliveryOutcome] = {}
        drafts: list[MessageDraft] = []
        for each in claimed:
            if each.payload is not None:
                given[each.delivery_id] = each.payload
            elif each.delivery_id not in known:
                given[each.delivery_id] = self._unstored(each)
            else:
                try:
                    drafts.append(make_draft(each, known[each.delivery_id], destination))
                except CompositionError as error:
                    given[each.delivery_id] = outcome_without_message(each, error)
        if drafts:
            given |= await self._composed(drafts)
        return [(each, given[each.delivery_id]) for each in claimed]

    async def _composed(self, drafts: Sequence[MessageDraft]) -> dict[int, bytes | DeliveryOutcome]:
        """
        Read the texts; write messages with slow hooks on separate threads, the others on one
        thread.
        """
        contents = await self._texts.read(drafts)
        given: dict[int, bytes | DeliveryOutcome] = {}
        ready: list[tuple[MessageDraft, ReportContent]] = []
        for draft, content in zip(drafts, contents, strict=True):
            if isinstance(content, ReportContent):
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
        quick: Sequence[tuple[MessageDraft, ReportContent]],
        written: Mapping[int, _Message | DeliveryOutcome],
        drafts: Sequence[MessageDraft],
    ) -> dict[int, bytes | DeliveryOutcome]:
        """Write the `quick` messages, then store them and the `written` ones. Blocking."""
        every = {
            **written,
            **{draft.delivery.delivery_id: self._write(draft, text) for draft, text in quick},
        }
        messages = {each: one for each, one in every.items() if isinstance(one, tuple)}
        failed = {each: one for each, one in every.items() if isinstance(one, DeliveryOutcome)}
        of = {draft.delivery.delivery_id: draft.delivery for draft in drafts}
        return {**failed, **self._store(messages, of)}

    def _write(self, draft: MessageDraft, content: ReportContent) -> _Message | DeliveryOutcome:
        try:
            return self._composer.write(draft, content.export, content.files)
        except Exception as error:  # noqa: BLE001  # it fails this delivery only
            return self._failed(draft, error)

    def _failed(self, draft: MessageDraft, error: BaseException) -> DeliveryOutcome:
        match error:
            case EngineFailure():
                return self._outcome_policy.after_composition_failure(
                    draft.delivery, error.failure, error.code, error.retry_after
                )
            case CompositionError():
                return outcome_without_message(draft.delivery, error)
            case Exception():  # unexpected: park the delivery for an operator
                self._on_error("not composed", error)
                return give_up(draft.delivery, "not_composed")
            case _:
                raise error

    def _store(
        self, messages: Mapping[int, _Message], of: Mapping[int, ClaimedDelivery]
    ) -> dict[int, bytes | DeliveryOutcome]:
        """Store messages in one transaction; if that fails, store each one by itself."""
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
        return {each: kept.get(each) or give_up(of[each], "not_composed") for each in messages}

    def _unstored(self, delivery: ClaimedDelivery) -> DeliveryOutcome:
        return self._outcome_policy.after_composition_failure(
            delivery, FailureKind.TRANSIENT, "store", None
        )
