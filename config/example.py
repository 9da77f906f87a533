"""
The example settings, generated from the models.

`bridge init` writes `render_new()`. `config/bridge.example.toml` is `render()`. Both show
optional keys as comments.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from config.dicom import DicomPeer, DicomSettings
from config.listeners import ListenerSettings
from config.sections import (
    Alerts,
    Assistance,
    ConsoleSettings,
    DatabaseSettings,
    DestinationSettings,
    Engine,
    Http,
    IntakeSettings,
    LifetimeSettings,
    Log,
    Rates,
    Retention,
    ScheduleSettings,
    SignIn,
    Sizes,
    Tracing,
)

_TABLES: Final[tuple[tuple[str, type[BaseModel]], ...]] = (
    ("database", DatabaseSettings),
    ("http", Http),
    ("engine", Engine),
    ("assistance", Assistance),
    ("rates", Rates),
    ("sizes", Sizes),
    ("lifetimes", LifetimeSettings),
    ("sign_in", SignIn),
    ("intake", IntakeSettings),
    ("dicom", DicomSettings),
    ("schedule", ScheduleSettings),
    ("alerts", Alerts),
    ("retention", Retention),
    ("console", ConsoleSettings),
    ("tracing", Tracing),
    ("log", Log),
)
_ARRAYS: Final[tuple[tuple[str, type[BaseModel], dict[str, Any]], ...]] = (
    (
        "listener",
        ListenerSettings,
        {"name": "ris-orders", "bind": "127.0.0.1:2575", "site": "SITE1"},
    ),
    ("destination", DestinationSettings, {"name": "ris-results", "address": "127.0.0.1:2576"}),
    ("dicom.peer", DicomPeer, {"ae_title": "CT1", "addresses": ["192.168.7.9"]}),
)
"""Arrays of tables, with the values of required keys."""
_OPTIONAL: Final = {
    "probe_bind": '"127.0.0.1:8576"',
    "tokens": '{ SITE1 = "secrets/site1.token" }',
    "fields": '{ receiving_application = "RIS", receiving_facility = "HOSPITAL" }',
    "destination.replies": '{ AR = "park", "AE 206" = "retry", CE = "retry 5 then pause" }',
    "destination.authorization_file": '"secrets/ris.authorization"',
    "listener.authorization_file": '"secrets/sender.authorization"',
    "destination.version": '"2.5.1"',
    "destination.content": '["text", "pdf"]',
    "destination.layout": '"lines"',
    "destination.sections": '"loinc"',
    "destination.addenda": '"whole"',
    "destination.orders": '"separate"',
    "destination.interpreter": '"ndl"',
    "destination.times": '"offset"',
    "destination.echo": '"fields"',
    "destination.metadata": '{ "*" = "OBX", Room = "NTE", Dose = "OBR-21", Plan = "ZMD-3" }',
    "alerts.mail": '{ host = "smtp.example.org", from = "a@example.org", to = ["b@example.org"] }',
    "alerts.webhook": '{ url = "https://alerts.example.org/bridge" }',
    "sign_in.oidc": '{ issuer = "https://id.example.org", client_id = "bridge", '
    'client_secret_file = "secrets/oidc.secret" }',
    "transcription_key_file": '"secrets/transcription.key"',
    "placing_key_file": '"secrets/placing.key"',
    "retention.archive": '"archive"',
    "listener.allow": '["10.1.0.0/16", "192.168.7.9"]',
    "listener.profile": '"profiles/orders.xml"',
    "listener.tls": '{ certificate = "…", key = "…", client_ca = "…" }  # client_ca: mutual',
    "dicom.bind": '"0.0.0.0:11112"',
    "dicom.tls": '{ certificate = "…", key = "…", client_ca = "…" }  # client_ca: mutual',
    "dicom.peer.modalities": '["CT", "MR"]',
    "dicom.peer.stations": '["CT1"]',
    "dicom.peer.locations": '["ROOM 3"]',
    "dicom.peer.charset": "'ISO 2022 IR 6\\ISO 2022 IR 87'",
    "dicom.peer.token_file": '"secrets/ct1.token"',
    "destination.dicom": '{ forms = ["pdf", "sr"], commitment = true }',
    "destination.tls": '{ ca = "…", certificate = "…", key = "…", server_name = "…" }',
}
"""Example values of keys that are unset or empty by default, shown as comments."""
_SECONDS: Final = frozenset(
    {"frame_timeout", "idle_timeout", "connect_timeout", "ack_timeout", "retry_first", "retry_max"}
    | {"scan_every", "every", "repeat_every", "hold_down", "queue_age"}
    | {"certificate_before", "keep"}
    | {"alert_after", "pool_timeout", "commitment_within"}
    | {"poll_status_every", "request_timeout", "message_timeout", "steps_expire"}
)
_SIZES: Final = frozenset(
    {"max_frame", "frame_memory", "body", "structured_report", "key_image", "metadata", "disk_free"}
    | {"max_pdu", "max_identifier", "max_object", "object_memory"}
)
_COLUMN: Final = 44


def render() -> str:
    """Return the example: every key with its default and its description."""
    lines = ["# Every setting with its default. The environment wins: BRIDGE_HTTP__BIND=…"]
    for name, model in _TABLES:
        lines += ["", f"[{name}]", *_keys(name, model, {})]
    for name, model, values in _ARRAYS:
        lines += ["", f"[[{name}]]", *_keys(name, model, values)]
    return "\n".join(lines) + "\n"


def render_new() -> str:
    """Return the settings of a new data directory."""
    return render().replace(
        "# Every setting with its default. ", "# Settings of this data directory. "
    )


def _keys(section: str, model: type[BaseModel], values: dict[str, Any]) -> Iterator[str]:
    # The keys of the class itself come before inherited ones.
    for key, field in sorted(
        model.model_fields.items(), key=lambda item: item[0] not in model.__annotations__
    ):
        if field.deprecated or is_array(section, key):
            continue
        value = values.get(key, field.get_default(call_default_factory=True))
        yield _line(section, field.alias or key, value, field)


def is_array(section: str, key: str) -> bool:
    """True if a key of a section is an array of tables, with a heading of its own."""
    return any(name == f"{section}.{key}" for name, _, _ in _ARRAYS)


def example_value(section: str, key: str, field: FieldInfo | None = None) -> str:
    """Return the value of a key in the example: that of an optional key, or the default."""
    if optional := _OPTIONAL.get(f"{section}.{key}") or _OPTIONAL.get(key):
        return optional.partition("  # ")[0]
    own = next((values for name, _, values in _ARRAYS if name == section), {})
    default = field.get_default(call_default_factory=True) if field else None
    return _toml(key, own.get(key, default))


def _line(section: str, key: str, value: Any, field: FieldInfo) -> str:
    optional = _OPTIONAL.get(f"{section}.{key}") or _OPTIONAL.get(key)
    text = f"# {key} = {optional}" if optional else f"{key} = {_toml(key, value)}"
    if not field.description:
        return text
    return f"{text:<{_COLUMN}} # {field.description}"


def _lifetime(seconds: float) -> str:
    units = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
    unit, size = next(choice for choice in units if seconds % choice[1] == 0)
    return f'"{seconds / size:g}{unit}"'


def _duration(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3600)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds // size:g}{unit}"
    return f"{seconds:g}s"


def with_unit(key: str, value: Any) -> Any:
    """Return the value of a key as it is written: a time as `30d`, a size as `64KiB`."""
    if value is not None and key in _SECONDS:
        return _duration(value)
    if value and key in _SIZES:
        for unit, size in (("MiB", 2**20), ("KiB", 2**10)):
            if value % size == 0:
                return f"{value // size}{unit}"
    return value


def _toml(key: str, value: Any) -> str:
    if key in LifetimeSettings.model_fields:
        return _lifetime(value)
    if isinstance(value, Path):
        return json.dumps(str(value))
    return json.dumps(with_unit(key, value), ensure_ascii=False)
