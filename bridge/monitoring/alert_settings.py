"""Alerts from settings: thresholds, monitored files, and ways to notify people."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from bridge.active_settings import ActiveSettings
from bridge.metrics import Metrics
from bridge.monitoring import node_files
from bridge.monitoring.alerts import (
    AlertMonitor,
    MailServer,
    Notify,
    WebhookTarget,
    call_webhook,
    send_mail,
)
from bridge.monitoring.conditions import AlertThresholds, Validity
from bridge.monitoring.node_files import (
    NodeAddress,
    authorities,
    certificate_chains,
    disk_free,
    revocation_lists,
)
from bridge.store.database import Database
from config import Settings
from config.secret_files import read_secret
from config.sections import MailSettings

_FRESH = 60_000  # ms after which the stored files of another node are ignored


def make_alert_monitor(
    settings: Settings,
    database: Database,
    metrics: Metrics,
    clock: Callable[[], int],
    address: NodeAddress,
) -> AlertMonitor:
    """Return the alert monitor. Raises SettingsError if a secret cannot be read."""
    active = ActiveSettings(settings, database)
    fresh = max(_FRESH, 3 * _ms(settings.alerts.every))
    return AlertMonitor(
        database,
        lambda: thresholds(active()),
        lambda: expiring_files(active()),
        notifiers(settings),
        metrics,
        clock,
        clock(),
        _ms(settings.alerts.repeat_every),
        lambda: channel_names(active()),
        partial(disk_free, settings.home),
        _ms(settings.alerts.hold_down),
        address.host,
        lambda moment: node_files.files_of_other_nodes(database, address.node, moment - fresh),
        lambda: {listener.name: listener.time_zone for listener in active().listener},
    )


def own_files_recorder(
    settings: Settings, database: Database, clock: Callable[[], int], address: NodeAddress
) -> Callable[[], None]:
    """Return a function that stores this node's certificates and disk space for the monitor."""
    active = ActiveSettings(settings, database)

    def save() -> None:
        free = disk_free(settings.home)
        node_files.save_node_files(database, address, expiring_files(active()), free, clock())

    return save


def thresholds(settings: Settings) -> AlertThresholds:
    """Return the thresholds of alerts; disabled listeners have none."""
    alerts = settings.alerts
    return AlertThresholds(
        queue_depth=alerts.queue_depth,
        queue_age=_ms(alerts.queue_age),
        parked=alerts.parked,
        certificate=_ms(alerts.certificate_before),
        refused=alerts.refused,
        rejecting=alerts.rejecting,
        quiet=alerts.quiet,
        growing=alerts.growing,
        disk_free=alerts.disk_free,
        silence={
            listener.name: _ms(listener.alert_after)
            for listener in settings.listener
            if listener.enabled
        },
    )


def channel_names(settings: Settings) -> frozenset[str]:
    """Return the names of the enabled channels; alerts about others are not raised."""
    names = {f"listener {listener.name}" for listener in settings.listener if listener.enabled}
    return frozenset(names | {f"destination {e.name}" for e in settings.destination if e.enabled})


def notifiers(settings: Settings) -> dict[str, Notify]:
    """Return the ways to notify people, by name. Raises SettingsError if a secret is unreadable."""
    system = urlsplit(settings.http.public_url).netloc
    found: dict[str, Notify] = {}
    if settings.alerts.mail is not None:
        found["mail"] = partial(send_mail, _mail(settings, settings.alerts.mail), system)
    if settings.alerts.webhook is not None:
        hook = settings.alerts.webhook
        target = WebhookTarget(hook.url, _secret(settings, hook.authorization_file))
        found["webhook"] = partial(call_webhook, target, system)
    return found


def expiring_files(settings: Settings) -> dict[str, Validity]:
    """Return the validity of certificates and revocation lists, by their names in alerts."""
    own = certificate_chains(certificate_files(settings))
    listening = [
        (f"listener {listener.name}", listener.tls)
        for listener in settings.listener
        if listener.tls
    ]
    if settings.dicom.bind is not None and settings.dicom.tls is not None:
        listening.append(("the DICOM port", settings.dicom.tls))
    sending = [
        (destination.name, destination.tls)
        for destination in settings.destination
        if destination.tls
    ]
    trusted = {
        **{f"client_ca of {owner}": tls.client_ca for owner, tls in listening},
        **{f"ca of destination {name}": tls.ca for name, tls in sending},
    }
    lists = {
        **{f"client_crl of {owner}": tls.client_crl for owner, tls in listening},
        **{f"crl of destination {name}": tls.crl for name, tls in sending},
    }
    return {
        **{f"certificate of {owner}": life for owner, life in own.items()},
        **authorities(_given(settings, trusted)),
        **revocation_lists(_given(settings, lists)),
    }


def _given(settings: Settings, files: Mapping[str, Path | None]) -> dict[str, Path]:
    return {name: settings.path(file) for name, file in files.items() if file is not None}


def certificate_files(settings: Settings) -> Mapping[str, Path]:
    files: dict[str, Path] = {}
    for listener in settings.listener:
        if listener.tls is not None:
            files[f"listener {listener.name}"] = settings.path(listener.tls.certificate)
    for destination in settings.destination:
        if destination.tls is not None and destination.tls.certificate is not None:
            files[f"destination {destination.name}"] = settings.path(destination.tls.certificate)
    if settings.dicom.bind is not None and settings.dicom.tls is not None:
        files["the DICOM port"] = settings.path(settings.dicom.tls.certificate)
    return files


def _mail(settings: Settings, mail: MailSettings) -> MailServer:
    return MailServer(
        mail.host,
        mail.port,
        mail.sender,
        tuple(mail.to),
        mail.security,
        mail.user,
        _secret(settings, mail.password_file),
        None if mail.ca is None else str(settings.path(mail.ca)),
    )


def _secret(settings: Settings, file: Path | None) -> str:
    return "" if file is None else read_secret(settings.path(file))


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
