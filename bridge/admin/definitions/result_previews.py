"""
Previews of results: what a version of a definition would send to a destination.

The newest deliveries of the destination are composed again, by the courier's composer and with the
options of the destination and the texts and files of the report service. The bytes are those that
the courier would send, with the current time in MSH-7. Nothing is stored or sent.

A destination without deliveries is tried with the newest ones of another destination. Previews
contain patient data and are never logged.
"""

import base64
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from bridge import active_settings
from bridge.active_settings import active_sources
from bridge.admin.definitions.drafts import issue_json
from bridge.admin.errors import NoSuchItem
from bridge.admin.lists.deliveries import DeliveryList
from bridge.admin.lists.listing import iterate
from bridge.admin.messages.message_content import message_text
from bridge.admin.messages.message_tree import content_of
from bridge.delivery.composer import Composer, MessagePlan, plan_message
from bridge.delivery.destination_settings import destination_definition_names, make_destination
from bridge.delivery.destinations import CompiledDestination
from bridge.delivery.errors import CompositionError, Superseded
from bridge.delivery.preparation import ReportContent, ReportTexts
from bridge.engine_client.client import EngineClient
from bridge.engine_client.errors import EngineFailure
from bridge.executors import CONSOLE_THREADS
from bridge.queue import queries
from bridge.queue.deliveries import ClaimedDelivery
from bridge.queue.listing_rows import DeliveryRow
from bridge.store.database import Database
from config import Settings
from config.sections import DestinationSettings
from mappings.language.code_tables import UnmappedCode
from mappings.language.diagnostics import MappingError, Sources
from mappings.outbound.results import ResultEvent

_WINDOW = 5_000
"""Newest deliveries among which those of a destination are searched."""


@dataclass(frozen=True, slots=True)
class ResultPreview:
    """
    A delivery that was composed again; `reason` says why nothing would be sent.

    `mapping` is the definition that wrote the message; a destination may use several.
    """

    destination: str
    delivery_id: int
    event: str
    mapping: str = ""
    payload: bytes = b""
    reason: str = ""
    unmapped_codes: tuple[UnmappedCode, ...] = ()

    @property
    def label(self) -> str:
        """The destination, the event and the delivery."""
        return f"{self.destination}: {self.event} (delivery {self.delivery_id})"

    @property
    def passed(self) -> bool:
        """True if a message is written."""
        return bool(self.payload)

    @property
    def text(self) -> str:
        """The message in its own character set, a segment a line, or DICOM objects."""
        return message_text(self.payload)

    def as_json(self) -> Mapping[str, Any]:
        """Return the preview as a trial of the console; `payload` has the bytes in base64."""
        text = {"message": self.reason, "path": "", "severity": "warning", "code": "not_sent"}
        issue = {**text, "file": "", "line": 0, "column": 0}
        return {
            "label": self.label,
            "accepted": bool(self.payload),
            "issues": [
                *([issue] if self.reason else []),
                *(issue_json(code.issue) for code in self.unmapped_codes),
            ],
            "hl7": [self.text] if self.payload else [],
            "content": content_of(self.payload) if self.payload else None,
            "definition": self.mapping,
            "payload": base64.b64encode(self.payload).decode(),
            "delivery": self.delivery_id,
            **{key: [] for key in ("segments", "lanes", "events", "facts")},
        }


class ReleaseComposer:
    """Composes past deliveries again, as the courier would. Blocking, except for the reading."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def again(self, row: DeliveryRow, destination: str) -> ClaimedDelivery:
        """Return a delivery as if it were claimed for the first time."""
        return ClaimedDelivery(
            row.id,
            destination,
            row.report_id,
            row.release_key,
            row.event,
            queries.delivery(self._database, row.id).orders,
            control_id="",
            payload=None,
            attempts=1,
            release_at=row.release_at,
            created_at=row.created_at,
        )

    def plan(
        self, destination: CompiledDestination, deliveries: Sequence[ClaimedDelivery]
    ) -> list[MessagePlan | ResultPreview]:
        """Return a plan for each delivery, or a preview with the reason why nothing is sent."""
        composer = self._composer([], datetime.now(UTC))
        contexts = composer.look_up(deliveries, destination, as_when_queued=True)
        planned: list[MessagePlan | ResultPreview] = []
        for delivery in deliveries:
            preview = ResultPreview(destination.name, delivery.delivery_id, delivery.event)
            orders = delivery.orders["orders"]
            site = str(orders[0].get("SiteID", "")) if orders else ""
            try:
                if not destination.wants(site, ResultEvent(delivery.event)):
                    reason = f"the destination does not receive {delivery.event} of site {site}"
                    planned.append(replace(preview, reason=f"not sent: {reason}"))
                    continue
                context = contexts[delivery.delivery_id]
                if context.has_read:
                    raise Superseded
                planned.append(plan_message(delivery, context, destination))
            except CompositionError as error:
                planned.append(replace(preview, reason=f"not sent: {error}"))
        return planned

    def write(
        self,
        planned: Iterable[MessagePlan | ResultPreview],
        contents: Iterator[ReportContent | BaseException],
        now: datetime,
    ) -> list[ResultPreview]:
        """Write the planned messages; `contents` are those of the plans, in order."""
        return [
            self._written(plan, next(contents), now) if isinstance(plan, MessagePlan) else plan
            for plan in planned
        ]

    def _written(
        self, plan: MessagePlan, content: ReportContent | BaseException, now: datetime
    ) -> ResultPreview:
        delivery = plan.delivery
        preview = ResultPreview(
            plan.destination.name, delivery.delivery_id, plan.event.value, plan.mapping.identity[0]
        )
        if isinstance(content, EngineFailure):
            return replace(preview, reason=f"the report service does not return it: {content.code}")
        if isinstance(content, CompositionError):
            return replace(preview, reason=f"not sent: {content}")
        if isinstance(content, BaseException):
            raise content
        unmapped: list[UnmappedCode] = []
        try:
            composer = self._composer(unmapped, now)
            payload, _ = composer.write(plan, content.export, content.files)
        except (CompositionError, MappingError) as error:
            preview = replace(preview, reason=f"not sent: {error}")
        else:
            preview = replace(preview, payload=payload)
        return replace(preview, unmapped_codes=tuple(dict.fromkeys(unmapped)))

    def _composer(self, unmapped: list[UnmappedCode], now: datetime) -> Composer:
        def collect(name: str, version: str, codes: Collection[UnmappedCode]) -> None:
            unmapped.extend(codes)

        return Composer(self._database, lambda: now, collect)


def plans_of(planned: Iterable[MessagePlan | ResultPreview]) -> list[MessagePlan]:
    """Return the plans among them, whose reports are to be read."""
    return [plan for plan in planned if isinstance(plan, MessagePlan)]


def destinations_of(settings: Settings, database: Database, name: str) -> list[DestinationSettings]:
    """Return the destinations that use an outbound definition."""
    known = active_settings.current(settings, database).destination
    return [section for section in known if name in destination_definition_names(section)]


def compiled_destination(
    settings: Settings,
    database: Database,
    section: DestinationSettings,
    name: str,
    sources: Sources,
) -> CompiledDestination:
    """
    Compile a destination with these sources of one of its definitions.

    Raises MappingErrors, and BridgeError if they do not suit the destination.
    """
    active = active_sources(settings, database)

    def find(wanted: str) -> Sources:
        return sources if wanted == name else active(wanted)

    return make_destination(active_settings.current(settings, database), section, find)


class ResultPreviews:
    """Composes the newest deliveries again with a version of a definition."""

    def __init__(self, settings: Settings, database: Database, client: EngineClient) -> None:
        self._settings = settings
        self._database = database
        self._texts = ReportTexts(client)
        self._composer = ReleaseComposer(database)

    def destinations(self, name: str) -> list[DestinationSettings]:
        return destinations_of(self._settings, self._database, name)

    async def compose(
        self, name: str, sources: Sources, destination: str = "", limit: int = 10
    ) -> list[ResultPreview]:
        """
        Compose the newest deliveries of each destination that uses `name`, or of the named one.

        `sources` are those of the version to try. Raises NoSuchItem, StoreError, MappingErrors, and
        BridgeError if the version does not suit the destination.
        """
        planned = await CONSOLE_THREADS.run(self._planned, name, sources, destination, limit)
        contents = iter(await self._texts.read(plans_of(planned)))
        return await CONSOLE_THREADS.run(self._composer.write, planned, contents, datetime.now(UTC))

    def _planned(
        self, name: str, sources: Sources, destination: str, limit: int
    ) -> list[MessagePlan | ResultPreview]:
        users = [
            section for section in self.destinations(name) if destination in ("", section.name)
        ]
        if destination and not users:
            raise NoSuchItem(f"there is no destination {destination} that uses {name}")
        newest = list(islice(self._newest_rows(), _WINDOW))
        planned: list[MessagePlan | ResultPreview] = []
        for user in users:
            own = [row for row in newest if row.destination == user.name]
            compiled = compiled_destination(self._settings, self._database, user, name, sources)
            chosen = [self._composer.again(row, user.name) for row in (own or newest)[:limit]]
            planned += self._composer.plan(compiled, chosen)
        return planned

    def _newest_rows(self) -> Iterator[DeliveryRow]:
        for listed in iterate(self._database, DeliveryList(), {}):
            yield listed.row
