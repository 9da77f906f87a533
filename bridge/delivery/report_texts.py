"""
Texts of reports for results: read from the report service when the messages are composed.

Many signed reports are read in one call where the service offers it. Preliminary reads, results
with files, and reports of other services are exported one by one.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bridge.delivery.composer import SILENT, Draft
from bridge.delivery.errors import Gone, NotSigned, Unsettled
from bridge.delivery.history import FINISHED
from bridge.delivery.news import key_of
from bridge.engine_client.client import EngineClient
from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import Export, OrderKey
from bridge.errors import FailureKind
from mappings.outbound.results import WITHDRAWALS, FileFormat, ResultEvent

SIGNED = frozenset({ResultEvent.FINAL, ResultEvent.ADDENDUM, ResultEvent.CORRECTION})
"""Events that must not be sent when the report turns out not to be signed."""

NOT_FOUND = "report_not_found"
NO_READ = frozenset({NOT_FOUND, "prelim_read_not_found"})
"""What the report service says where a preliminary report is not there (any more)."""

ASK_AGAIN = 60.0
"""Seconds until a service that refused to give several texts in one call is asked again."""

_LOOKS = 3
"""How often a report is read until nothing changes between its text and its files."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a message says of a report: its text, and files that say the same."""

    export: Export | None = None
    files: Mapping[FileFormat, bytes] = field(default_factory=dict)


NOTHING = Content()


class ReportTexts:
    """Reads what results say, for all destinations."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._singly_until = 0.0  # loop time

    async def read(self, drafts: Sequence[Draft]) -> list[Content | BaseException]:
        """Read the content of each, in order; an EngineFailure or CompositionError is its own."""
        signed = await self._signed([each for each in drafts if _is_signed_text(each)])
        return await asyncio.gather(
            *(self._content(each, signed.get(_order(each))) for each in drafts),
            return_exceptions=True,
        )

    async def _signed(self, drafts: Sequence[Draft]) -> dict[OrderKey, Export]:
        """Read many signed reports at once; absent ones are exported one by one."""
        if asyncio.get_running_loop().time() < self._singly_until:
            return {}
        by_token: defaultdict[str, list[OrderKey]] = defaultdict(list)
        for order in dict.fromkeys(map(_order, drafts)):
            by_token[self._client.token_of(order.site)].append(order)
        answers = await asyncio.gather(
            *map(self._client.signed_texts, by_token.values()), return_exceptions=True
        )
        found: dict[OrderKey, Export] = {}
        for answer in answers:
            if isinstance(answer, dict):
                found |= answer
            elif not isinstance(answer, EngineFailure):
                raise answer
            elif answer.failure is FailureKind.PERMANENT and answer.code != NOT_FOUND:
                self._singly_until = asyncio.get_running_loop().time() + ASK_AGAIN
        return found

    async def _content(self, draft: Draft, signed: Export | None) -> Content:
        if draft.event in SILENT or draft.event in WITHDRAWALS:
            return NOTHING
        if signed is not None:
            _check_signed(draft, signed)
            return Content(signed)
        try:
            return await self._exported(draft)
        except EngineFailure as failure:
            if draft.event is ResultEvent.PRELIMINARY and failure.code in NO_READ:
                raise Gone from None
            raise

    async def _exported(self, draft: Draft) -> Content:
        """Export one report, and its files such that they say the same; a read as it was then."""
        delivery, order = draft.delivery, _order(draft)
        until = delivery.release_at if draft.event is ResultEvent.PRELIMINARY else None
        export = await self._client.export_json(order, prelim_until=until)
        _check_signed(draft, export)
        for _ in range(_LOOKS):
            files = {
                each: await self._file(each)(
                    order, draft.time_zone, addenda=draft.addenda, prelim_until=until
                )
                for each in draft.mapping.style.formats
            }
            if not files:
                return Content(export)
            before, export = export, await self._client.export_json(order, prelim_until=until)
            _check_signed(draft, export)
            if before == export:
                return Content(export, files)
        raise Unsettled

    def _file(self, wanted: FileFormat) -> Callable[..., Awaitable[bytes]]:
        return {FileFormat.PDF: self._client.export_pdf, FileFormat.RTF: self._client.export_rtf}[
            wanted
        ]


def _order(draft: Draft) -> OrderKey:
    return key_of(draft.delivery.orders["orders"][0])


def _is_signed_text(draft: Draft) -> bool:
    return draft.event in SIGNED and not draft.mapping.style.formats


def _check_signed(draft: Draft, export: Export) -> None:
    """
    Raise NotSigned, or Gone: an addendum that was out before its report was recalled with it.

    The report's next signature is a release again, and so are its addenda. A preliminary report
    that has been signed says by now what only its release may tell: Gone as well.
    """
    signed = export.report.signed_at is not None
    if draft.event is ResultEvent.PRELIMINARY and signed:
        raise Gone
    told = draft.known.told
    if draft.event is ResultEvent.ADDENDUM and FINISHED.isdisjoint(each.event for each in told):
        if not signed or len(export.addenda) < draft.addenda:
            raise Gone
    elif draft.event in SIGNED and not signed:
        raise NotSigned
