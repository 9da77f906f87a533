"""The console application, connected with channels, alerts, replay, definitions and engine."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Any

from fastapi import FastAPI

from bridge.admin.audit_events import AuditRelay
from bridge.admin.channel_operations import described_channels, names
from bridge.admin.console_access import needs_second_factor
from bridge.admin.console_connections import ConsoleConnections, probe
from bridge.admin.definitions.console_drafts import ConsoleDrafts
from bridge.admin.definitions.console_trial import ConsoleTrials
from bridge.admin.message_replay import StoredMessageReplay
from bridge.admin.packages.activation import ConsolePackages
from bridge.admin.selection import MessageSubjects
from bridge.console.access import AccessAdministration, ReportEngine
from bridge.console.context import ConsoleContext, PageAssets
from bridge.console.errors import NoSuchItem
from bridge.console.http.application import create_application
from bridge.engine.http.html_pages import ASSET_PATH
from bridge.engine.http.static_files import entry
from bridge.engine_client.client import EngineClient
from bridge.engine_client.models import OrderKey, SignedInUser
from bridge.executors import Threads
from bridge.monitoring import channels
from bridge.monitoring.alerts import list_alerts
from bridge.monitoring.channels import Channel, ChannelKind
from bridge.monitoring.node_files import expiry_times
from bridge.network_source import Proxies
from bridge.queue.listing_rows import MessageDetail
from bridge.store.database import Database
from bridge.wiring.active_settings import current, origin_of
from bridge.wiring.alerts import certificate_files
from config import Settings
from mappings.authoring.trial import try_message
from mappings.language.scope import ListenerDefaults

_APP = "src/console/main.ts"


class _Installation:
    """The installation as the console uses it (`bridge.console.context.Installation`)."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        subjects_of: MessageSubjects,
        clock: Callable[[], int],
    ) -> None:
        self._own = settings
        self._database = database
        self._belonging = subjects_of
        self._clock = clock

    @property
    def _settings(self) -> Settings:
        """The active settings, not cached, so that a change is visible at once."""
        return current(self._own, self._database)

    def channels(self, kind: str) -> Sequence[Mapping[str, Any]]:
        known = channels.read_channels(self._database, ChannelKind(kind))
        settings = self._settings
        expires = expiry_times(certificate_files(settings))
        now = self._clock()
        failing = channels.read_start_failures(self._database, ChannelKind(kind), now)
        described = described_channels(settings, ChannelKind(kind))
        return [
            {
                **asdict(channel),
                **each,
                "loaded": channel.is_loaded(now),
                "trouble": failing.get(each["name"], ""),
                "source": origin_of(self._own, settings, ChannelKind(kind), each["name"]),
                "certificate": expires.get(f"{kind} {each['name']}"),
            }
            for each in described
            for channel in [known.get(each["name"], Channel(each["name"]))]
        ]

    def pause(self, kind: str, name: str, by: str) -> None:
        self._know(kind, name)
        channels.pause(self._database, ChannelKind(kind), name, self._clock(), by)

    def resume(self, kind: str, name: str) -> None:
        self._know(kind, name)
        channels.resume(self._database, ChannelKind(kind), name)

    def alerts(self) -> Sequence[Mapping[str, Any]]:
        return [each for each in list_alerts(self._database) if each["cleared_at"] is None]

    def message_replay(self) -> StoredMessageReplay:
        return StoredMessageReplay(self._own, self._database)

    def charset(self, listener: str) -> str:
        return next((e.charset for e in self._settings.listener if e.name == listener), "utf-8")

    def mapped(self, detail: MessageDetail) -> Mapping[str, Any]:
        row = detail.row
        mapping = self._belonging.definition(row.mapping, row.mapping_version)
        listener = next((e for e in self._settings.listener if e.name == detail.row.listener), None)
        if mapping is None or listener is None:
            return {"accepted": False, "issues": [], "events": [], "used": [], "unused": []}
        received = datetime.fromtimestamp(detail.row.received_at / 1000, UTC)
        defaults = ListenerDefaults(listener.site, listener.time_zone, received)
        trial = try_message(mapping, detail.payload, defaults, listener.charset, components=True)
        issues = [f"{each}" for each in trial.issues]
        return {
            "accepted": trial.accepted,
            "issues": issues,
            "events": list(trial.events),
            "used": list(trial.used),
            "unused": list(trial.unused),
        }

    def _know(self, kind: str, name: str) -> None:
        if name not in dict(names(self._settings, ChannelKind(kind))):
            raise NoSuchItem(f"there is no such {kind} in the settings")


def console_application(
    settings: Settings,
    database: Database,
    client: EngineClient,
    subjects_of: MessageSubjects,
    clock: Callable[[], int],
) -> FastAPI:
    """Build the console. The runtime maintains its index of numbers."""

    async def probed(kind: str, name: str) -> Sequence[Mapping[str, Any]]:
        return await probe(await Threads.CHECKS.run(current, settings, database), kind, name)

    async def signed_in_user(cookies: str, unattended: bool) -> SignedInUser | None:
        return await client.visitor(cookies, unattended=unattended)

    engine = ReportEngine(client)
    return create_application(
        ConsoleContext(
            database,
            _Installation(settings, database, subjects_of, clock),
            subjects_of,
            signed_in_user,
            partial(_report_status, client),
            engine,
            probed,
            _assets,
            clock,
            ConsoleDrafts(settings, database, clock),
            ConsoleTrials(settings, database),
            ConsolePackages(settings, database, clock),
            ConsoleConnections(settings, database, clock),
            AuditRelay(settings, database).newest,
            AccessAdministration(
                database, engine, clock, provider=settings.sign_in.oidc is not None
            ),
            needs_second_factor(settings),
            Proxies(settings.http.trusted_proxies),
        )
    )


async def _report_status(
    client: EngineClient, orders: Sequence[Mapping[str, Any]]
) -> Mapping[str, str]:
    """Return the status of the orders' reports by report id; one request per site."""
    keys = [OrderKey(each["site"], each["mrn"], each["accession"]) for each in orders]
    found: dict[str, str] = {}
    for site in sorted({key.site for key in keys}):
        for each in await client.status([key for key in keys if key.site == site]):
            found[each.report_id] = each.status.value
    return found


def _assets() -> PageAssets:
    begin = entry(_APP)
    preloads = tuple(f"{ASSET_PATH}{each}" for each in begin.preloads)
    styles = tuple(f"{ASSET_PATH}{each}" for each in begin.styles)
    return PageAssets(f"{ASSET_PATH}{begin.script}", preloads, styles)
