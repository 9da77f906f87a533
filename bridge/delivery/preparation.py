"""
Preparation: claims deliveries, composes each message once, and stores it before it is sent.

`ReportTexts` reads the report service. If the service offers it, many signed reports are read in
one call. Preliminary reads, results with files, and reports of other services are exported one by
one. Deliveries that are claimed together share database reads, that call, and the commit. A failure
to compose or store a message becomes the outcome of its own delivery.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bridge.contract import OrderKey
from bridge.contract.responses import ReleasedTextBody
from bridge.delivery.composer import (
    EVENTS_WITHOUT_TEXT,
    Composer,
    DeliveryContext,
    MessagePlan,
    is_superseded,
    plan_message,
)
from bridge.delivery.delivery_history import FINAL_EVENTS
from bridge.delivery.destinations import CompiledDestination
from bridge.delivery.errors import (
    CompositionError,
    ReportGone,
    ReportNotSigned,
    ReportUnstable,
    StoredMessageDamaged,
    Superseded,
)
from bridge.delivery.reply_policy import OutcomePolicy, give_up, outcome_without_message
from bridge.engine_client.client import EngineClient
from bridge.engine_client.errors import EngineFailure
from bridge.errors import FailureKind
from bridge.executors import DELIVERIES, SLOW_MAPPINGS
from bridge.queue.deliveries import ClaimedDelivery, DeliveryOutcome
from bridge.queue.outbox import Outbox
from bridge.store.errors import StoreError, StoreUnavailable
from mappings.outbound.results import WITHDRAWALS, FileFormat, ResultEvent

EVENTS_OF_SIGNED_TEXT = frozenset({ResultEvent.FINAL, ResultEvent.ADDENDUM, ResultEvent.CORRECTION})
"""Events that are sent only if the report is signed."""

NOT_FOUND = "report_not_found"
PRELIM_NOT_FOUND = frozenset({NOT_FOUND, "prelim_read_not_found"})
"""Error codes of the report service for a preliminary read that does not exist any more."""

UNSUPPORTED_RETRY_SECONDS = 60.0
"""Seconds for which a service that refused a call for several texts gets no such call."""

_ATTEMPTS = 3
"""How often a report is read to get a text and files of the same version."""


@dataclass(frozen=True, slots=True)
class ReportContent:
    """The text of a report, and files with the same text."""

    export: ReleasedTextBody | None = None
    files: Mapping[FileFormat, bytes] = field(default_factory=dict)


NO_CONTENT = ReportContent()


class ReportTexts:
    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._no_batch_until = 0.0  # loop time

    async def read(self, plans: Sequence[MessagePlan]) -> list[ReportContent | BaseException]:
        """Return the content of each plan, in order, or its EngineFailure or CompositionError."""
        signed = await self._signed([plan for plan in plans if _is_signed_text(plan)])
        return await asyncio.gather(
            *(
                self._content(message_plan, signed.get(message_plan.anchor))
                for message_plan in plans
            ),
            return_exceptions=True,
        )

    async def _signed(self, plans: Sequence[MessagePlan]) -> dict[OrderKey, ReleasedTextBody]:
        """Read many signed reports in one call per token; unsigned and unknown ones are absent."""
        if asyncio.get_running_loop().time() < self._no_batch_until:
            return {}
        by_token: defaultdict[str, list[OrderKey]] = defaultdict(list)
        for order in dict.fromkeys(plan.anchor for plan in plans):
            by_token[self._client.token_of(order.site)].append(order)
        answers = await asyncio.gather(
            *map(self._client.signed_texts, by_token.values()), return_exceptions=True
        )
        found: dict[OrderKey, ReleasedTextBody] = {}
        for answer in answers:
            if isinstance(answer, dict):
                found |= answer
            elif not isinstance(answer, EngineFailure):
                raise answer
            elif answer.failure is FailureKind.PERMANENT and answer.code != NOT_FOUND:
                self._no_batch_until = asyncio.get_running_loop().time() + UNSUPPORTED_RETRY_SECONDS
        return found

    async def _content(self, plan: MessagePlan, signed: ReleasedTextBody | None) -> ReportContent:
        if plan.event in EVENTS_WITHOUT_TEXT or plan.event in WITHDRAWALS:
            return NO_CONTENT
        if signed is not None:
            _check_signed(plan, signed)
            return ReportContent(signed)
        try:
            return await self._exported(plan)
        except EngineFailure as failure:
            if plan.event is ResultEvent.PRELIMINARY and failure.code in PRELIM_NOT_FOUND:
                raise ReportGone from None
            raise

    async def _exported(self, plan: MessagePlan) -> ReportContent:
        """Export one report with files of the same text; a preliminary read as of its release."""
        delivery, order = plan.delivery, plan.anchor
        until = delivery.release_at if plan.event is ResultEvent.PRELIMINARY else None
        export = await self._client.export_json(order, prelim_until=until)
        _check_signed(plan, export)
        for _ in range(_ATTEMPTS):
            files = {
                file_format: await self._file(file_format)(
                    order, plan.time_zone, addenda=plan.addenda, prelim_until=until
                )
                for file_format in plan.mapping.style.formats
            }
            if not files:
                return ReportContent(export)
            before, export = export, await self._client.export_json(order, prelim_until=until)
            _check_signed(plan, export)
            if before == export:
                return ReportContent(export, files)
        raise ReportUnstable

    def _file(self, wanted: FileFormat) -> Callable[..., Awaitable[bytes]]:
        return {FileFormat.PDF: self._client.export_pdf, FileFormat.RTF: self._client.export_rtf}[
            wanted
        ]


def _is_signed_text(plan: MessagePlan) -> bool:
    return plan.event in EVENTS_OF_SIGNED_TEXT and not plan.mapping.style.formats


def _check_signed(plan: MessagePlan, export: ReleasedTextBody) -> None:
    """
    Raise ReportNotSigned or ReportGone if the export is not what the delivery is about.

    ReportGone is raised for an addendum that was released before its report was recalled together
    with it; the next signature releases both again. It is also raised for a preliminary report that
    has been signed, because its text must not be sent before the release.
    """
    signed = export.report.signed_at is not None
    if plan.event is ResultEvent.PRELIMINARY and signed:
        raise ReportGone
    delivered = {sent.event for sent in plan.context.history.delivered}
    if plan.event is ResultEvent.ADDENDUM and FINAL_EVENTS.isdisjoint(delivered):
        if not signed or len(export.addenda) < plan.addenda:
            raise ReportGone
    elif plan.event in EVENTS_OF_SIGNED_TEXT and not signed:
        raise ReportNotSigned


PreparedDelivery = tuple[ClaimedDelivery, bytes | DeliveryOutcome]
"""A delivery with the bytes to send, or with its outcome if there are none."""


@dataclass(frozen=True, slots=True)
class ClaimedDeliveries:
    """
    Claimed deliveries, the definition of their destination, and by delivery id their contexts.
    There are none after an error of the database.
    """

    destination: CompiledDestination
    deliveries: Sequence[ClaimedDelivery]
    contexts: Mapping[int, DeliveryContext]


_Message = tuple[bytes, str]
"""A message and its control id."""


class Preparation:
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
        self._storing: asyncio.Task[dict[int, bytes | DeliveryOutcome]] | None = None

    async def claim(
        self, current: Callable[[], CompiledDestination], now: int, limit: int
    ) -> ClaimedDeliveries:
        """
        Claim up to `limit` deliveries and read their contexts. Raises StoreError.

        `current` returns the active definition of the destination.
        """
        return await DELIVERIES.run(self._claim, current, now, limit)

    def _claim(
        self, current: Callable[[], CompiledDestination], now: int, limit: int
    ) -> ClaimedDeliveries:
        claimed = self._outbox.claim(current().name, now, limit)
        destination = current()  # after the claim: a retry uses what was activated before it
        intact = [delivery for delivery in claimed if not delivery.is_damaged]
        try:
            contexts = self._composer.look_up(intact, destination) if intact else {}
        except StoreError:
            contexts = {}
        return ClaimedDeliveries(destination, claimed, contexts)

    async def compose(self, claimed: ClaimedDeliveries) -> list[PreparedDelivery]:
        """Return deliveries with the bytes to send, in order; a retry has the stored bytes."""
        results: dict[int, bytes | DeliveryOutcome] = {}
        plans: list[MessagePlan] = []
        for delivery in claimed.deliveries:
            planned = self._plan(delivery, claimed)
            if isinstance(planned, MessagePlan):
                plans.append(planned)
            else:
                results[delivery.delivery_id] = planned
        if plans:
            results |= await self._composed(plans)
        return [(delivery, results[delivery.delivery_id]) for delivery in claimed.deliveries]

    def _plan(
        self, delivery: ClaimedDelivery, claimed: ClaimedDeliveries
    ) -> MessagePlan | bytes | DeliveryOutcome:
        """Return the plan of a message, or its stored bytes, or the outcome if there is none."""
        context, destination = claimed.contexts.get(delivery.delivery_id), claimed.destination
        if delivery.is_damaged:
            return self._damaged(delivery)
        if context is None:
            return self._unstored(delivery)
        try:
            if context.has_read or is_superseded(delivery, context.history.newer, destination):
                raise Superseded
            return delivery.payload or plan_message(delivery, context, destination)
        except CompositionError as error:
            return outcome_without_message(delivery, error)

    async def _composed(self, plans: Sequence[MessagePlan]) -> dict[int, bytes | DeliveryOutcome]:
        """
        Read the texts; write messages with slow hooks on separate threads, the others on one
        thread.
        """
        contents = await self._texts.read(plans)
        results: dict[int, bytes | DeliveryOutcome] = {}
        ready: list[tuple[MessagePlan, ReportContent]] = []
        for plan, content in zip(plans, contents, strict=True):
            if isinstance(content, ReportContent):
                ready.append((plan, content))
            else:
                results[plan.delivery.delivery_id] = self._failed(plan, content)
        slow = [pair for pair in ready if pair[0].mapping.needs_thread]
        written = await asyncio.gather(*(SLOW_MAPPINGS.run(self._write, *pair) for pair in slow))
        messages = {
            plan.delivery.delivery_id: one for (plan, _), one in zip(slow, written, strict=True)
        }
        quick = [pair for pair in ready if not pair[0].mapping.needs_thread]
        self._storing = asyncio.create_task(DELIVERIES.run(self._finish, quick, messages, plans))
        return results | await asyncio.shield(self._storing)  # `finish_storing` waits for it

    async def finish_storing(self) -> None:
        """Wait until the messages of a call of `compose` that was cancelled are stored."""
        if self._storing is not None:
            await asyncio.gather(self._storing, return_exceptions=True)

    def _finish(
        self,
        quick: Sequence[tuple[MessagePlan, ReportContent]],
        written: Mapping[int, _Message | DeliveryOutcome],
        plans: Sequence[MessagePlan],
    ) -> dict[int, bytes | DeliveryOutcome]:
        """Write the `quick` messages, then store them and the `written` ones. Blocking."""
        results = {
            **written,
            **{plan.delivery.delivery_id: self._write(plan, content) for plan, content in quick},
        }
        messages = {key: one for key, one in results.items() if isinstance(one, tuple)}
        failed = {key: one for key, one in results.items() if isinstance(one, DeliveryOutcome)}
        deliveries = {plan.delivery.delivery_id: plan.delivery for plan in plans}
        return {**failed, **self._store(messages, deliveries)}

    def _write(self, plan: MessagePlan, content: ReportContent) -> _Message | DeliveryOutcome:
        try:
            return self._composer.write(plan, content.export, content.files)
        except Exception as error:  # noqa: BLE001  # it fails this delivery only
            return self._failed(plan, error)

    def _failed(self, plan: MessagePlan, error: BaseException) -> DeliveryOutcome:
        match error:
            case EngineFailure():
                return self._outcome_policy.after_composition_failure(
                    plan.delivery, error.failure, error.code, error.retry_after
                )
            case CompositionError():
                return outcome_without_message(plan.delivery, error)
            case Exception():  # unexpected: park the delivery for an operator
                self._on_error("message not composed", error)
                return give_up(plan.delivery, "not_composed")
            case _:
                raise error

    def _store(
        self, messages: Mapping[int, _Message], deliveries: Mapping[int, ClaimedDelivery]
    ) -> dict[int, bytes | DeliveryOutcome]:
        """Store messages in one transaction; if that fails, store each one by itself."""
        if not messages:
            return {}
        try:
            kept = self._outbox.store_payloads(messages)
        except StoreUnavailable:
            return {key: self._unstored(deliveries[key]) for key in messages}
        except StoreError:
            if len(messages) == 1:
                return {key: self._unstored(deliveries[key]) for key in messages}
            alone = [self._store({key: one}, deliveries) for key, one in messages.items()]
            return {key: sent for one in alone for key, sent in one.items()}
        return {
            message: kept.get(message) or give_up(deliveries[message], "not_composed")
            for message in messages
        }

    def _damaged(self, delivery: ClaimedDelivery) -> DeliveryOutcome:
        """Park a delivery whose stored message has changed: it may have been sent before."""
        error = StoredMessageDamaged()
        self._on_error(f"delivery {delivery.delivery_id} is damaged and not sent", error)
        return outcome_without_message(delivery, error)

    def _unstored(self, delivery: ClaimedDelivery) -> DeliveryOutcome:
        return self._outcome_policy.after_composition_failure(
            delivery, FailureKind.TRANSIENT, "store", None
        )
