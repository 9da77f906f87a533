"""
Report texts: read from the report service when result messages are composed.

If the service offers it, many signed reports are read in one call. Preliminary reads, results with
files, and reports of other services are exported one by one.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bridge.delivery.composer import EVENTS_WITHOUT_TEXT, MessageDraft
from bridge.delivery.delivery_history import FINAL_EVENTS
from bridge.delivery.errors import ReportGone, ReportNotSigned, ReportUnstable
from bridge.delivery.report_events import key_of
from bridge.engine_client.client import EngineClient
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import OrderKey, ReportExport
from bridge.errors import FailureKind
from mappings.outbound.results import WITHDRAWALS, FileFormat, ResultEvent

EVENTS_OF_SIGNED_TEXT = frozenset({ResultEvent.FINAL, ResultEvent.ADDENDUM, ResultEvent.CORRECTION})
"""Events that are sent only if the report is signed."""

NOT_FOUND = "report_not_found"
PRELIM_NOT_FOUND = frozenset({NOT_FOUND, "prelim_read_not_found"})
"""Error codes of the report service for a preliminary read that does not exist any more."""

ASK_AGAIN = 60.0
"""Seconds until a service that refused a call for several texts gets such a call again."""

_ATTEMPTS = 3
"""How often a report is read to get a text and files of the same version."""


@dataclass(frozen=True, slots=True)
class ReportContent:
    """The text of a report, and files with the same text."""

    export: ReportExport | None = None
    files: Mapping[FileFormat, bytes] = field(default_factory=dict)


NO_CONTENT = ReportContent()


class ReportTexts:
    """Reads report texts for all destinations."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._singly_until = 0.0  # loop time

    async def read(self, drafts: Sequence[MessageDraft]) -> list[ReportContent | BaseException]:
        """Return the content of each draft, in order, or its EngineFailure or CompositionError."""
        signed = await self._signed([each for each in drafts if _is_signed_text(each)])
        return await asyncio.gather(
            *(self._content(each, signed.get(_order(each))) for each in drafts),
            return_exceptions=True,
        )

    async def _signed(self, drafts: Sequence[MessageDraft]) -> dict[OrderKey, ReportExport]:
        """Read many signed reports in one call per token; unsigned and unknown ones are absent."""
        if asyncio.get_running_loop().time() < self._singly_until:
            return {}
        by_token: defaultdict[str, list[OrderKey]] = defaultdict(list)
        for order in dict.fromkeys(map(_order, drafts)):
            by_token[self._client.token_of(order.site)].append(order)
        answers = await asyncio.gather(
            *map(self._client.signed_texts, by_token.values()), return_exceptions=True
        )
        found: dict[OrderKey, ReportExport] = {}
        for answer in answers:
            if isinstance(answer, dict):
                found |= answer
            elif not isinstance(answer, EngineFailure):
                raise answer
            elif answer.failure is FailureKind.PERMANENT and answer.code != NOT_FOUND:
                self._singly_until = asyncio.get_running_loop().time() + ASK_AGAIN
        return found

    async def _content(self, draft: MessageDraft, signed: ReportExport | None) -> ReportContent:
        if draft.event in EVENTS_WITHOUT_TEXT or draft.event in WITHDRAWALS:
            return NO_CONTENT
        if signed is not None:
            _check_signed(draft, signed)
            return ReportContent(signed)
        try:
            return await self._exported(draft)
        except EngineFailure as failure:
            if draft.event is ResultEvent.PRELIMINARY and failure.code in PRELIM_NOT_FOUND:
                raise ReportGone from None
            raise

    async def _exported(self, draft: MessageDraft) -> ReportContent:
        """Export one report with files of the same text; a preliminary read as of its release."""
        delivery, order = draft.delivery, _order(draft)
        until = delivery.release_at if draft.event is ResultEvent.PRELIMINARY else None
        export = await self._client.export_json(order, prelim_until=until)
        _check_signed(draft, export)
        for _ in range(_ATTEMPTS):
            files = {
                each: await self._file(each)(
                    order, draft.time_zone, addenda=draft.addenda, prelim_until=until
                )
                for each in draft.mapping.style.formats
            }
            if not files:
                return ReportContent(export)
            before, export = export, await self._client.export_json(order, prelim_until=until)
            _check_signed(draft, export)
            if before == export:
                return ReportContent(export, files)
        raise ReportUnstable

    def _file(self, wanted: FileFormat) -> Callable[..., Awaitable[bytes]]:
        return {FileFormat.PDF: self._client.export_pdf, FileFormat.RTF: self._client.export_rtf}[
            wanted
        ]


def _order(draft: MessageDraft) -> OrderKey:
    return key_of(draft.delivery.orders["orders"][0])


def _is_signed_text(draft: MessageDraft) -> bool:
    return draft.event in EVENTS_OF_SIGNED_TEXT and not draft.mapping.style.formats


def _check_signed(draft: MessageDraft, export: ReportExport) -> None:
    """
    Raise ReportNotSigned or ReportGone if the export is not what the delivery is about.

    ReportGone is raised for an addendum that was released before its report was recalled together
    with it; the next signature releases both again. It is also raised for a preliminary report that
    has been signed, because its text must not be sent before the release.
    """
    signed = export.report.signed_at is not None
    if draft.event is ResultEvent.PRELIMINARY and signed:
        raise ReportGone
    delivered = {each.event for each in draft.known.delivered}
    if draft.event is ResultEvent.ADDENDUM and FINAL_EVENTS.isdisjoint(delivered):
        if not signed or len(export.addenda) < draft.addenda:
            raise ReportGone
    elif draft.event in EVENTS_OF_SIGNED_TEXT and not signed:
        raise ReportNotSigned
